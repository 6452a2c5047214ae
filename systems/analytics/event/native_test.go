package event

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestNative(t *testing.T) {
	for _, c := range []struct {
		name, raw, want string
	}{
		{"the smallest event", `{"event":"a","distinct_id":"u"}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"a full page view", ` { "event" : "$pageview" , "distinct_id":"u","anonymous_id":"anon","context":{"session_id":"s","url":"https://x/?a=\u0026b","referrer":"r","page_title":"T","page_path":"/p","device_type":"desktop","browser":"Chrome","browser_version":"131","os":"macOS","os_version":"14.5","screen_width":1728,"screen_height":1117,"language":"en","timezone":"Europe/Lisbon","sdk_name":"js","sdk_version":"1"},"properties":{"a": 1.0 , "b":"\u00e9"},"unknown":[1,{"a":"}"}]}`,
			lines("name=$pageview", "type=pageview", "distinct=u", "anonymous=anon", "session=s", "url=https://x/?a=&b", "referrer=r", "title=T", "path=/p",
				"device=desktop", "browser=Chrome 131", "os=macOS 14.5", "screen=1728x1117", "language=en", "timezone=Europe/Lisbon", "sdk=js 1",
				"ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"a": 1.0 , "b":"\u00e9"}`)},
		{"identify with an anonymous id merges", `{"event":"$identify","distinct_id":"u","anonymous_id":"anon","user_properties":{"email":"e"}}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0",
				`user_properties={"email":"e"}`, `changes=set email:"e"`, "merge=identify", "other=anon")},
		{"identify with itself merges nothing", `{"event":"$identify","distinct_id":"u","anonymous_id":"u"}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=u", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"identify with nobody is kept, and its merge refused", `{"event":"$identify","distinct_id":"u","anonymous_id":" Null "}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous= Null ", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0",
				"other= Null ", "refused=cannot_merge_with_illegal_distinct_id")},
		{"a plain event with an anonymous id merges nothing", `{"event":"a","distinct_id":"u","anonymous_id":"anon"}`,
			lines("name=a", "type=track", "distinct=u", "anonymous=anon", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"an alias merges the alias", `{"event":"$create_alias","distinct_id":"u","properties":{"alias":17}}`,
			lines("name=$create_alias", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"alias":17}`, "merge=alias", "other=17")},
		{"a dangerous merge knows no guard", `{"event":"$merge_dangerously","distinct_id":"u","properties":{"alias":"v"}}`,
			lines("name=$merge_dangerously", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"alias":"v"}`, "merge=force", "other=v")},
		{"a group makes no person", `{"event":"$groupidentify","distinct_id":"$company_1","user_properties":{"a":1}}`,
			lines("name=$groupidentify", "type=track", "distinct=$company_1", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"a":1}`, "profile=none")},
		{"a number as a distinct id is its text", `{"event":"a","distinct_id":12345678901234567890}`,
			lines("name=a", "type=track", "distinct=12345678901234567890", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"null is absent", `{"event":"a","distinct_id":"u","anonymous_id":null,"properties":null,"user_properties":null,"context":null,"timestamp":null,"event_id":null}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"of a member that comes twice the last one counts", `{"event":"a","event":"b","distinct_id":"u","distinct_id":"v","properties":{"x":1},"properties":{"x":2,"x":3}}`,
			lines("name=b", "type=track", "distinct=v", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"x":2,"x":3}`)},
		{"of a context too", `{"event":"a","distinct_id":"u","context":{"url":"x","os":"y","os":"z"},"context":{"os":"w"}}`,
			lines("name=a", "type=track", "distinct=u", "os=w", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"names may be written with escapes", `{"\u0065vent":"a","distinct\u005fid":"u","user_properties":{"\u0024set":{"a":1}}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"\u0024set":{"a":1}}`, "changes=set a:1")},
		{"screens are clamped and junk is nothing", `{"event":"a","distinct_id":"u","context":{"screen_width":70000,"screen_height":"wide"}}`,
			lines("name=a", "type=track", "distinct=u", "screen=65535x0", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"a context at its limits", `{"event":"a","distinct_id":"u","context":{"session_id":"` + strings.Repeat("é", 128) + `"},"properties":` + manyKeys(200) + `}`,
			lines("name=a", "type=track", "distinct=u", "session="+strings.Repeat("é", 128), "ip=203.0.113.9", "agent=Mozilla/5.0", "properties="+manyKeys(200))},
		{"NUL and lone surrogates survive as text", `{"event":"a\u0000b","distinct_id":"u\ud800","user_properties":{"k\u0000":"\u0000"}}`,
			lines("name=a\x00b", "type=track", "distinct=u\ufffd", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"k\u0000":"\u0000"}`, "changes=set k\x00:\"\\u0000\"")},
		{"bytes that are no UTF-8 survive in properties", "{\"event\":\"a\",\"distinct_id\":\"u\xff\",\"properties\":{\"x\":\"\xff\"}}",
			lines("name=a", "type=track", "distinct=u\ufffd", "ip=203.0.113.9", "agent=Mozilla/5.0", "properties={\"x\":\"\xff\"}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(decoded(t, endpoint(Native), c.raw)), c.want)
		})
	}
}

func TestChanges(t *testing.T) {
	many := `{"$set":` + manyKeys(40) + `,"k39":"last","k5":"last"}`
	for _, c := range []struct {
		name, properties, user, want string
	}{
		{"nothing", ``, ``, ""},
		{"once, then set, then unset", ``, `{"$unset":["c"],"$set":{"b":2},"$set_once":{"a":1}}`, "once a:1, set b:2, unset c"},
		{"root members are a set", ``, `{"a":1,"b":null,"c":[1, 2],"d":{"e":1}}`, "set a:1, set b:null, set c:[1, 2], set d:{\"e\":1}"},
		{"root members win over the set", ``, `{"a":1,"$set":{"a":2,"b":3}}`, "set a:1, set b:3"},
		{"the same, the other way round", ``, `{"$set":{"b":3,"a":2},"a":1}`, "set b:3, set a:1"},
		{"properties may hold operations too", `{"$set":{"a":1},"$set_once":{"b":2},"$unset":["c"],"d":4}`, ``, "once b:2, set a:1, unset c"},
		{"user properties win over properties", `{"$set":{"a":1},"$set_once":{"a":1}}`, `{"$set":{"a":2},"$set_once":{"a":3}}`, "once a:3, set a:2"},
		{"of a key that comes twice the last value counts", ``, `{"a":1,"a":2}`, "set a:2"},
		{"what is no object sets nothing", ``, `{"$set":[1],"$set_once":"x","$unset":{"a":1}}`, ""},
		{"only text is unset", ``, `{"$unset":["a",1,null,["b"],"a"]}`, "unset a"},
		{"what changes with every page is nobody's", ``, `{"$browser":"x","$set":{"$current_url":"y","plan":1},"$set_once":{"$os":1},"$unset":["$ip"]}`, "set plan:1"},
		{"the initial values are somebody's", ``, `{"$set_once":{"$initial_referrer":"$direct","$initial_utm_source":null}}`, `once $initial_referrer:"$direct", once $initial_utm_source:null`},
		{"no profile, no change", `{"$process_person_profile":false}`, `{"a":1}`, ""},
		{"the operations' names are no keys", ``, `{"$set":{"$set":1,"$unset":2,"a":3}}`, "set a:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := `{"event":"a","distinct_id":"u"`
			if c.properties != "" {
				raw += `,"properties":` + c.properties
			}
			if c.user != "" {
				raw += `,"user_properties":` + c.user
			}
			same(t, changesOf(decoded(t, endpoint(Native), raw+"}")), c.want)
		})
	}
	e := decoded(t, endpoint(Native), `{"event":"a","distinct_id":"u","user_properties":`+many+`}`)
	if len(e.Changes) != 40 || string(e.Changes[39].Value) != `"last"` || string(e.Changes[5].Value) != `"last"` || string(e.Changes[6].Value) != "6" {
		t.Errorf("many changes: %s", changesOf(e))
	}
	e = decoded(t, endpoint(Native), `{"event":"a","distinct_id":"u","user_properties":{"$set_once":`+manyKeys(40)+`,"$set":`+manyKeys(40)+`}}`)
	if len(e.Changes) != 80 || e.Changes[40].Key != "k0" || e.Changes[79].Key != "k39" {
		t.Errorf("many changes of two kinds: %s", changesOf(e))
	}
}

func TestEventIDs(t *testing.T) {
	const id = "0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b"
	want := uuid.MustParse(id)
	for name, raw := range map[string]string{
		"a UUID is itself":          `{"event":"a","distinct_id":"u","event_id":"` + id + `"}`,
		"in capitals too":           `{"event":"a","distinct_id":"u","event_id":"` + strings.ToUpper(id) + `"}`,
		"and without hyphens":       `{"event":"a","distinct_id":"u","event_id":"` + strings.ReplaceAll(id, "-", "") + `"}`,
		"and when written in parts": `{"event":"a","distinct_id":"u","event_id":"\u0030190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b"}`,
	} {
		if e := decoded(t, endpoint(Native), raw); e.ID != want || e.Derived {
			t.Errorf("%s: %v, derived %v", name, e.ID, e.Derived)
		}
	}
	e := decoded(t, endpoint(Native), `{"event":"a","distinct_id":"u","event_id":"order-7"}`)
	if e.ID != eventID(project, []byte("order-7")) || e.ID.Version() != 5 || e.Derived {
		t.Errorf("text became %v, derived %v", e.ID, e.Derived)
	}
	if fixed := "29d24092-dfaf-5222-b416-f738b5b92ebc"; e.ID.String() != fixed {
		t.Errorf("the id of order-7 is %v; it must be %s for ever", e.ID, fixed)
	}
	if eventID(uuid.UUID{1}, []byte("order-7")) == e.ID || eventID(project, []byte("order-8")) == e.ID || eventID(project, []byte("")) != uuid.Nil {
		t.Error("ids are not told apart")
	}
	m := endpoint(Native)
	m.Event = uuid.UUID{15: 9}
	if e := decoded(t, m, `{"event":"a","distinct_id":"u","event_id":"`+id+`"}`); e.ID != m.Event {
		t.Errorf("the ingest API's id is %v; got %v", m.Event, e.ID)
	}
	for _, none := range []string{``, `,"event_id":""`, `,"event_id":null`, `,"event_id":"00000000-0000-0000-0000-000000000000"`} {
		raw := `{"event":"a","distinct_id":"u"` + none + `}`
		a, b := decoded(t, endpoint(Native), raw), decoded(t, endpoint(Native), raw)
		if !a.Derived || a.ID != b.ID {
			t.Errorf("%s: %v and %v, derived %v", raw, a.ID, b.ID, a.Derived)
		}
		if c := decoded(t, endpoint(Native), strings.Replace(raw, `"u"`, `"v"`, 1)); c.ID == a.ID {
			t.Errorf("two events have the id %v", a.ID)
		}
	}
}
