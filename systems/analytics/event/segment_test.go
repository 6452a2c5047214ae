package event

import "testing"

func TestSegment(t *testing.T) {
	const browser = `"context":{"page":{"path":"/p","referrer":"r","search":"?a","title":"T","url":"https://x/p?a"},"userAgent":"Firefox","locale":"en-GB","timezone":"Europe/Lisbon","library":{"name":"analytics.js","version":"npm:next-1.84.3"},"campaign":{"source":"n"}}`
	web := []string{"url=https://x/p?a", "referrer=r", "title=T", "path=/p", "language=en-GB", "timezone=Europe/Lisbon", "sdk=analytics.js npm:next-1.84.3", "ip=203.0.113.9", "agent=Firefox"}
	const more = `"utm_source":"n","$context":{"page":{"search":"?a"}}}`
	with := func(head []string, tail ...string) string { return lines(append(append(head, web...), tail...)...) }
	for _, c := range []struct {
		name, raw, want string
	}{
		{"track of analytics-node: a server's address is nobody's", `{"messageId":"node-next-1768471323000-0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","timestamp":"2026-01-15T09:59:59.000Z","type":"track","userId":"u","event":"Order Completed","properties":{"total":12.50},"integrations":{},"context":{"library":{"name":"@segment/analytics-node","version":"3.1.0"}},"_metadata":{"nodeVersion":"22.1.0","jsRuntime":"node"}}`,
			lines("name=Order Completed", "type=track", "distinct=u", "sdk=@segment/analytics-node 3.1.0", `properties={"total":12.50}`)},
		{"track of a browser with both ids merges nothing", `{"type":"track","event":"a","userId":"u","anonymousId":"anon",` + browser + `}`,
			with([]string{"name=a", "type=track", "distinct=u", "anonymous=anon"}, "properties={"+more)},
		{"track without a user belongs to the anonymous id", `{"type":"track","event":"a","userId":null,"anonymousId":"anon",` + browser + `}`,
			with([]string{"name=a", "type=track", "distinct=anon", "anonymous=anon"}, "properties={"+more)},
		{"identify with both ids merges", `{"type":"identify","userId":"u","anonymousId":"anon","traits":{"email":"e","plan": 1.0},` + browser + `}`,
			with([]string{"name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u"}, "properties={"+more, `user_properties={"email":"e","plan": 1.0}`, `changes=set email:"e", set plan:1.0`, "merge=identify", "other=anon")},
		{"identify of the anonymous id merges nothing", `{"type":"identify","anonymousId":"anon","traits":{"email":"e"}}`,
			lines("name=$identify", "type=identify", "distinct=anon", "anonymous=anon", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"email":"e"}`, `changes=set email:"e"`)},
		{"identify with an illegal anonymous id is kept", `{"type":"identify","userId":"u","anonymousId":"undefined"}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=undefined", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0", "other=undefined", "refused=cannot_merge_with_illegal_distinct_id")},
		{"page of a browser", `{"type":"page","name":"Home","userId":"u","anonymousId":"anon","properties":{"path":"/p","title":"T"},` + browser + `}`,
			with([]string{"name=$pageview", "type=pageview", "distinct=u", "anonymous=anon"}, `properties={"path":"/p","title":"T","utm_source":"n","name":"Home","$context":{"page":{"search":"?a"}}}`)},
		{"page of a server says the page in its properties", `{"type":"page","name":"Home","userId":"u","properties":{"url":"https://x/","referrer":"r","path":"/"},"context":{"ip":"198.51.100.7","userAgent":"Safari","library":{"name":"analytics-ruby","version":"2"}}}`,
			lines("name=$pageview", "type=pageview", "distinct=u", "url=https://x/", "referrer=r", "title=Home", "path=/", "sdk=analytics-ruby 2", "ip=198.51.100.7", "agent=Safari", `properties={"url":"https://x/","referrer":"r","path":"/","name":"Home"}`)},
		{"screen of a phone", `{"type":"screen","name":"Cart","anonymousId":"anon","properties":{},"context":{"app":{"name":"Shop","version":"1"},"device":{"type":"ios","model":"x"},"os":{"name":"iOS","version":"18"},"screen":{"width":390,"height":844.5,"density":3},"library":{"name":"analytics-swift","version":"1"}}}`,
			lines("name=$screen", "type=screen", "distinct=anon", "anonymous=anon", "title=Cart", "device=ios", "os=iOS 18", "screen=390x844", "sdk=analytics-swift 1", "ip=203.0.113.9", "agent=Mozilla/5.0",
				`properties={"$app_name":"Shop","$app_version":"1","$device_model":"x","name":"Cart","$context":{"screen":{"density":3}}}`)},
		{"group makes no person", `{"type":"group","groupId":"g 1","userId":"u","traits":{"name":"Acme"}}`,
			lines("name=$groupidentify", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$group_type":"group","$group_key":"g 1","$group_set":{"name":"Acme"}}`, "profile=none")},
		{"traits of a track change nobody", `{"type":"track","event":"a","userId":"u","traits":{"a":1,"$set":{"b":2}}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$call":{"traits":{"a":1,"$set":{"b":2}}}}`)},
		{"alias merges the previous id", `{"type":"alias","userId":"u","previousId":"old"}`,
			lines("name=$create_alias", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"alias":"old"}`, "merge=alias", "other=old")},
		{"alias after identify, as analytics.js sends it, merges nothing", `{"type":"alias","userId":"u","previousId":"u","anonymousId":"anon"}`,
			lines("name=$create_alias", "type=track", "distinct=u", "anonymous=anon", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"alias":"u"}`)},
		{"an address of context goes before the connection's", `{"type":"track","event":"a","userId":7,"context":{"ip":"198.51.100.7"}}`,
			lines("name=a", "type=track", "distinct=7", "ip=198.51.100.7", "agent=Mozilla/5.0")},
		{"a channel of servers", `{"type":"track","event":"a","userId":"u","channel":"server"}`,
			lines("name=a", "type=track", "distinct=u")},
		{"of a context that comes twice the last one counts", `{"type":"track","event":"a","userId":"u","context":{"locale":"x","page":{"url":"x"}},"context":{"page":{"url":"y","path":"/"},"page":{"url":"z"}}}`,
			lines("name=a", "type=track", "distinct=u", "url=z", "ip=203.0.113.9", "agent=Mozilla/5.0")},
		{"context of the wrong kind is kept as it is", `{"type":"track","event":"a","userId":"u","context":{"page":"x","os":[],"screen":null,"app":7}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$context":{"page":"x","os":[],"app":7}}`)},
		{"a context that is no object is kept as it is", `{"type":"track","event":"a","userId":"u","context":"x"}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$context":{"context":"x"}}`)},
		{"identify of RudderStack's Python library has its traits in the context only", `{"integrations": {"All": true}, "anonymousId": "anon", "timestamp": "2026-01-15T09:59:59.000000+00:00", "context": {"traits": {"plan": "pro"}, "library": {"name": "analytics-python", "version": "2.1.9"}}, "type": "identify", "userId": "u", "messageId": "cd9f4ec6-6395-4e41-be51-f1d4d27321a9", "channel": "server"}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "sdk=analytics-python 2.1.9", `user_properties={"plan": "pro"}`, `changes=set plan:"pro"`, "merge=identify", "other=anon")},
		{"of traits that are in the context too, the call's own win", `{"type":"identify","userId":"u","traits":{"plan":"pro"},"context":{"traits":{"plan":"free","email":"e"}},"channel":"server"}`,
			lines("name=$identify", "type=identify", "distinct=u", "user=u", `user_properties={"plan":"pro","email":"e"}`, `changes=set plan:"pro", set email:"e"`)},
		{"traits in the context of a track are its user's, and change nobody", `{"type":"track","event":"a","userId":"u","context":{"traits":{"plan":"pro"}},"channel":"server"}`,
			lines("name=a", "type=track", "distinct=u", `properties={"$context":{"traits":{"plan":"pro"}}}`)},
		{"category and name of a page", `{"type":"page","userId":"u","name":"Home","category":"Docs","properties":{"url":"https://x/"},"channel":"server"}`,
			lines("name=$pageview", "type=pageview", "distinct=u", "url=https://x/", "title=Home", `properties={"url":"https://x/","name":"Home","category":"Docs"}`)},
		{"properties of that name count", `{"type":"screen","userId":"u","name":"Cart","category":"Shop","properties": {"name":"cart"} ,"channel":"server"}`,
			lines("name=$screen", "type=screen", "distinct=u", "title=Cart", `properties={"name":"cart","category":"Shop"}`)},
		{"campaign, program, network, device and group of the context", `{"type":"track","event":"a","userId":"u","properties":{"n":1},"context":{"campaign":{"name":"spring","source":"mail","medium":"m","term":"t","content":"c","id":7},"app":{"name":"Shop","build":"9"},"network":{"wifi":true,"carrier":"x"},"device":{"id":"d","manufacturer":"m","model":"n","type":"ios","advertisingId":null},"groupId":"g"},"channel":"server"}`,
			lines("name=a", "type=track", "distinct=u", "device=ios", `properties={"n":1,"utm_campaign":"spring","utm_source":"mail","utm_medium":"m","utm_term":"t","utm_content":"c","utm_id":7,"$app_name":"Shop","$app_build":"9","$network_wifi":true,"$network_carrier":"x","$device_id":"d","$device_manufacturer":"m","$device_model":"n","$groups":{"group":"g"}}`)},
		{"all else of the context, and of the call", `{"type":"track","event":"a","userId":"u","context":{"location":{"city":"Porto"},"active":true,"library":{"name":"l","version":"1","by":"x"}},"channel":"server","color":"red","previousId":"p"}`,
			lines("name=a", "type=track", "distinct=u", "sdk=l 1", `properties={"$context":{"location":{"city":"Porto"},"active":true,"library":{"by":"x"}},"$call":{"color":"red","previousId":"p"}}`)},
		{"group and alias with properties of their own", `{"type":"group","groupId":"g","userId":"u","properties":{"a":1},"traits":{"n":1},"channel":"server"}`,
			lines("name=$groupidentify", "type=track", "distinct=u", `properties={"a":1,"$group_type":"group","$group_key":"g","$group_set":{"n":1}}`, "profile=none")},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(decoded(t, endpoint(Segment), c.raw)), c.want)
		})
	}
}

func TestSegmentCallsWithoutAType(t *testing.T) {
	for raw, want := range map[string]string{
		`{"event":"a","userId":"u"}`:                 "a",
		`{"previousId":"old","userId":"u"}`:          "$create_alias",
		`{"groupId":"g","userId":"u","traits":{}}`:   "$groupidentify",
		`{"traits":{},"userId":"u"}`:                 "$identify",
		`{"type":"page","event":"x","userId":"u"}`:   "$pageview",
		`{"type":"screen","traits":{},"userId":"u"}`: "$screen",
	} {
		if e := decoded(t, endpoint(Segment), raw); e.Name != want {
			t.Errorf("%s is %s; want %s", raw, e.Name, want)
		}
	}
	m := endpoint(Segment)
	m.Call = "page"
	if e := decoded(t, m, `{"userId":"u","name":"Home"}`); e.Name != "$pageview" || e.PageTitle != "Home" {
		t.Errorf("the path says page; got %s", e.Name)
	}
}

func TestSegmentMessageIDs(t *testing.T) {
	raw := `{"type":"track","event":"a","userId":"u","messageId":"node-next-1768471323000-x"}`
	if e := decoded(t, endpoint(Segment), raw); e.ID != eventID(project, []byte("node-next-1768471323000-x")) || e.Derived {
		t.Errorf("id %v, derived %v", e.ID, e.Derived)
	}
}

// analytics-go puts its library, and its settings for every call, beside the list of calls.
func TestSegmentBatchContext(t *testing.T) {
	m := endpoint(Segment)
	m.Context = `{"app":{"name":"Shop"},"campaign":{"name":"spring"},"library":{"name":"analytics-go","version":"3.0.0"},"ip":"198.51.100.7"}`
	same(t, show(decoded(t, m, `{"type":"track","event":"bought","userId":"u","properties":{"n":1}}`)),
		lines("name=bought", "type=track", "distinct=u", "sdk=analytics-go 3.0.0", "ip=198.51.100.7", `properties={"n":1,"$app_name":"Shop","utm_campaign":"spring"}`))
	same(t, show(decoded(t, m, `{"type":"track","event":"bought","userId":"u","context":{"campaign":{"name":"own"},"locale":"pt"}}`)),
		lines("name=bought", "type=track", "distinct=u", "language=pt", "sdk=analytics-go 3.0.0", "ip=198.51.100.7", `properties={"utm_campaign":"own","$app_name":"Shop"}`))
	back, err := ParseMeta(m.Append(nil))
	if err != nil || back.Context != m.Context {
		t.Errorf("the context came back as %q (%v)", back.Context, err)
	}
}
