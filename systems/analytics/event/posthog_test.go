package event

import (
	"testing"

	"github.com/google/uuid"
)

func TestPostHog(t *testing.T) {
	for _, c := range []struct {
		name, raw, want string
	}{
		{"a page view of posthog-js, its distinct id in the properties only", `{"uuid":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","event":"$pageview","properties":{"$os":"Linux","$browser":"Chrome","$device_type":"Desktop","$timezone":"Europe/Lisbon","$current_url":"http://localhost/","$pathname":"/","$raw_user_agent":"Mozilla/5.0 (linux) jsdom","$browser_version":131,"$browser_language":"en-GB","$browser_language_prefix":"en","$screen_height":900,"$screen_width":1440,"$lib":"web","$lib_version":"1.449.2","$insert_id":"x","$time":1768471323.5,"distinct_id":"0190-anon","$device_id":"0190-anon","$referrer":"$direct","title":"Home","token":"phc_x","$session_id":"s1","$is_identified":false,"$process_person_profile":false},"offset":3}`,
			lines("name=$pageview", "type=pageview", "distinct=0190-anon", "session=s1", "url=http://localhost/", "referrer=$direct", "title=Home", "path=/",
				"device=Desktop", "browser=Chrome 131", "os=Linux", "screen=1440x900", "language=en-GB", "timezone=Europe/Lisbon", "sdk=web 1.449.2",
				"ip=203.0.113.9", "agent=Mozilla/5.0 (linux) jsdom",
				`properties={"$os":"Linux","$browser":"Chrome","$device_type":"Desktop","$timezone":"Europe/Lisbon","$current_url":"http://localhost/","$pathname":"/","$raw_user_agent":"Mozilla/5.0 (linux) jsdom","$browser_version":131,"$browser_language":"en-GB","$browser_language_prefix":"en","$screen_height":900,"$screen_width":1440,"$lib":"web","$lib_version":"1.449.2","$insert_id":"x","$time":1768471323.5,"distinct_id":"0190-anon","$device_id":"0190-anon","$referrer":"$direct","title":"Home","token":"phc_x","$session_id":"s1","$is_identified":false,"$process_person_profile":false}`,
				"profile=none")},
		{"identify of posthog-js, its $set at top level", `{"event":"$identify","properties":{"distinct_id":"u","$anon_distinct_id":"anon","$lib":"web"},"$set":{"email":"e"},"$set_once":{"$initial_utm_source":null,"$initial_referrer":"$direct"}}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "sdk=web", "ip=203.0.113.9", "agent=Mozilla/5.0",
				`properties={"distinct_id":"u","$anon_distinct_id":"anon","$lib":"web"}`,
				`user_properties={"$set":{"email":"e"},"$set_once":{"$initial_utm_source":null,"$initial_referrer":"$direct"}}`,
				`changes=once $initial_utm_source:null, once $initial_referrer:"$direct", set email:"e"`, "merge=identify", "other=anon")},
		{"identify of posthog-node never merges", `{"event":"$identify","distinct_id":"u","properties":{"$set":{"email":"e"},"$lib":"posthog-node","$lib_version":"5.70.0","$is_server":true},"timestamp":"2026-01-15T09:29:50.123Z","uuid":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b"}`,
			lines("name=$identify", "type=identify", "distinct=u", "user=u", "sdk=posthog-node 5.70.0",
				`properties={"$set":{"email":"e"},"$lib":"posthog-node","$lib_version":"5.70.0","$is_server":true}`, `changes=set email:"e"`)},
		{"alias of posthog-node", `{"event":"$create_alias","distinct_id":"u","properties":{"distinct_id":"u","alias":"old","$lib":"posthog-node","$is_server":true}}`,
			lines("name=$create_alias", "type=track", "distinct=u", "sdk=posthog-node", `properties={"distinct_id":"u","alias":"old","$lib":"posthog-node","$is_server":true}`, "merge=alias", "other=old")},
		{"an alias of nobody is not merged", `{"event":"$create_alias","distinct_id":"u","properties":{"alias":"'null'"}}`,
			lines("name=$create_alias", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"alias":"'null'"}`, "other='null'", "refused=cannot_merge_with_illegal_distinct_id")},
		{"an alias of itself, or of none, is no merge", `{"event":"$create_alias","distinct_id":"5","properties":{"alias":5}}`,
			lines("name=$create_alias", "type=track", "distinct=5", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"alias":5}`)},
		{"groupIdentify of posthog-node makes no person", `{"event":"$groupidentify","distinct_id":"$company_7","properties":{"$group_type":"company","$group_key":"7","$group_set":{"name":"x"},"$is_server":true}}`,
			lines("name=$groupidentify", "type=track", "distinct=$company_7", `properties={"$group_type":"company","$group_key":"7","$group_set":{"name":"x"},"$is_server":true}`, "profile=none")},
		{"the new path's options and ids", `{"event":"a","uuid":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","distinct_id":"u","session_id":"s","window_id":"w","options":{"cookieless_mode":false,"process_person_profile":false},"properties":{"$set":{"a":1},"$is_server":true}}`,
			lines("name=a", "type=track", "distinct=u", "session=s", `properties={"$set":{"a":1},"$is_server":true}`, "profile=none")},
		{"an option of true is the default", `{"event":"a","distinct_id":"u","options":{"process_person_profile":true},"properties":{"$set":{"a":1}}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$set":{"a":1}}`, "changes=set a:1")},
		{"without a profile nobody is merged", `{"event":"$identify","distinct_id":"u","properties":{"$anon_distinct_id":"anon","$process_person_profile":false}}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$anon_distinct_id":"anon","$process_person_profile":false}`, "profile=none")},
		{"the distinct id at top level goes first", `{"event":"a","$distinct_id":"second","distinct_id":"first","properties":{"distinct_id":"third"}}`,
			lines("name=a", "type=track", "distinct=first", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"distinct_id":"third"}`)},
		{"then the one with a dollar", `{"event":"a","$distinct_id":"second","distinct_id":"","properties":{"distinct_id":"third"}}`,
			lines("name=a", "type=track", "distinct=second", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"distinct_id":"third"}`)},
		{"an object as a distinct id is its text without blanks", `{"event":"a","distinct_id":{ "id" : 5.0, "x":"\u00e9" }}`,
			lines("name=a", "type=track", `distinct={"id":5.0,"x":"\u00e9"}`, "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"a body of /engage has no name", `{"$token":"x","$distinct_id":"u","$set":{"a":1}}`,
			lines("name=$identify", "type=identify", "distinct=u", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"$set":{"a":1}}`, "changes=set a:1")},
		{"operations of the wrong shape are ignored", `{"event":"a","distinct_id":"u","$set":[1],"$set_once":"x","$unset":{"a":1}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"$unset at top level", `{"event":"a","distinct_id":"u","$unset":["a", "b"]}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"$unset":["a", "b"]}`, "changes=unset a, unset b")},
		{"an $ip goes before the connection's", `{"event":"a","distinct_id":"u","properties":{"$ip":"198.51.100.7"}}`,
			lines("name=a", "type=track", "distinct=u", "ip=198.51.100.7", "agent=Mozilla/5.0", `properties={"$ip":"198.51.100.7"}`)},
		{"an $ip of null wants none", `{"event":"a","distinct_id":"u","properties":{"$ip":null,"$geoip_disable":true}}`,
			lines("name=a", "type=track", "distinct=u", "agent=Mozilla/5.0", `properties={"$ip":null,"$geoip_disable":true}`, "nogeo=true")},
		{"a server may say whose address it is", `{"event":"a","distinct_id":"u","properties":{"$lib":"posthog-python","$ip":"198.51.100.7","$user_agent":"Safari"}}`,
			lines("name=a", "type=track", "distinct=u", "sdk=posthog-python", "ip=198.51.100.7", "agent=Safari", `properties={"$lib":"posthog-python","$ip":"198.51.100.7","$user_agent":"Safari"}`)},
		{"a phone's screen and names", `{"event":"$screen","distinct_id":"u","properties":{"$screen_name":"Cart","$screen_width":390.5,"$screen_height":-1,"$os_name":"iOS","$locale":"pt-PT","$lib":"posthog-ios"}}`,
			lines("name=$screen", "type=screen", "distinct=u", "title=Cart", "os=iOS", "screen=390x0", "language=pt-PT", "sdk=posthog-ios", "ip=203.0.113.9", "agent=Mozilla/5.0",
				`properties={"$screen_name":"Cart","$screen_width":390.5,"$screen_height":-1,"$os_name":"iOS","$locale":"pt-PT","$lib":"posthog-ios"}`)},
		{"context of the wrong kind is none", `{"event":"a","distinct_id":"u","properties":{"$browser":{"x":1},"$os":[],"$current_url":true}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$browser":{"x":1},"$os":[],"$current_url":true}`)},
		{"cookieless browsers are not one person", `{"event":"a","distinct_id":"$posthog_cookieless"}`,
			lines("name=a", "type=track", "distinct=$posthog_cookieless", "ip=203.0.113.9", "agent=Mozilla/5.0", "profile=none")},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(decoded(t, endpoint(PostHog), c.raw)), c.want)
		})
	}
}

func TestAServersUserAgentIsALibrarysName(t *testing.T) {
	m := endpoint(PostHog)
	m.Agent = "posthog-node/5.70.0"
	same(t, show(decoded(t, m, `{"event":"a","distinct_id":"u","properties":{}}`)),
		lines("name=a", "type=track", "distinct=u", "sdk=posthog-node 5.70.0", "properties={}"))
}

func TestPostHogIDs(t *testing.T) {
	const id = "0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b"
	if e := decoded(t, endpoint(PostHog), `{"event":"a","distinct_id":"u","uuid":"`+id+`"}`); e.ID != uuid.MustParse(id) || e.Derived {
		t.Errorf("id %v, derived %v", e.ID, e.Derived)
	}
	if e := decoded(t, endpoint(PostHog), `{"event":"a","distinct_id":"u","uuid":""}`); !e.Derived {
		t.Error("an empty uuid counts as none")
	}
}
