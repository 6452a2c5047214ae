package event

import "testing"

func TestSegment(t *testing.T) {
	const browser = `"context":{"page":{"path":"/p","referrer":"r","search":"?a","title":"T","url":"https://x/p?a"},"userAgent":"Firefox","locale":"en-GB","timezone":"Europe/Lisbon","library":{"name":"analytics.js","version":"npm:next-1.84.3"},"campaign":{"source":"n"}}`
	web := []string{"url=https://x/p?a", "referrer=r", "title=T", "path=/p", "language=en-GB", "timezone=Europe/Lisbon", "sdk=analytics.js npm:next-1.84.3", "ip=203.0.113.9", "agent=Firefox"}
	with := func(head []string, tail ...string) string { return lines(append(append(head, web...), tail...)...) }
	for _, c := range []struct {
		name, raw, want string
	}{
		{"track of analytics-node: a server's address is nobody's", `{"messageId":"node-next-1768471323000-0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","timestamp":"2026-01-15T09:59:59.000Z","type":"track","userId":"u","event":"Order Completed","properties":{"total":12.50},"integrations":{},"context":{"library":{"name":"@segment/analytics-node","version":"3.1.0"}},"_metadata":{"nodeVersion":"22.1.0","jsRuntime":"node"}}`,
			lines("name=Order Completed", "type=track", "distinct=u", "sdk=@segment/analytics-node 3.1.0", `properties={"total":12.50}`)},
		{"track of a browser with both ids merges nothing", `{"type":"track","event":"a","userId":"u","anonymousId":"anon",` + browser + `}`,
			with([]string{"name=a", "type=track", "distinct=u", "anonymous=anon"})},
		{"track without a user belongs to the anonymous id", `{"type":"track","event":"a","userId":null,"anonymousId":"anon",` + browser + `}`,
			with([]string{"name=a", "type=track", "distinct=anon", "anonymous=anon"})},
		{"identify with both ids merges", `{"type":"identify","userId":"u","anonymousId":"anon","traits":{"email":"e","plan": 1.0},` + browser + `}`,
			with([]string{"name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u"}, `user_properties={"email":"e","plan": 1.0}`, `changes=set email:"e", set plan:1.0`, "merge=identify", "other=anon")},
		{"identify of the anonymous id merges nothing", `{"type":"identify","anonymousId":"anon","traits":{"email":"e"}}`,
			lines("name=$identify", "type=identify", "distinct=anon", "anonymous=anon", "ip=203.0.113.9", "agent=Mozilla/5.0", `user_properties={"email":"e"}`, `changes=set email:"e"`)},
		{"identify with an illegal anonymous id is kept", `{"type":"identify","userId":"u","anonymousId":"undefined"}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=undefined", "user=u", "ip=203.0.113.9", "agent=Mozilla/5.0", "other=undefined", "refused=cannot_merge_with_illegal_distinct_id")},
		{"page of a browser", `{"type":"page","name":"Home","userId":"u","anonymousId":"anon","properties":{"path":"/p","title":"T"},` + browser + `}`,
			with([]string{"name=$pageview", "type=pageview", "distinct=u", "anonymous=anon"}, `properties={"path":"/p","title":"T"}`)},
		{"page of a server says the page in its properties", `{"type":"page","name":"Home","userId":"u","properties":{"url":"https://x/","referrer":"r","path":"/"},"context":{"ip":"198.51.100.7","userAgent":"Safari","library":{"name":"analytics-ruby","version":"2"}}}`,
			lines("name=$pageview", "type=pageview", "distinct=u", "url=https://x/", "referrer=r", "title=Home", "path=/", "sdk=analytics-ruby 2", "ip=198.51.100.7", "agent=Safari", `properties={"url":"https://x/","referrer":"r","path":"/"}`)},
		{"screen of a phone", `{"type":"screen","name":"Cart","anonymousId":"anon","properties":{},"context":{"app":{"name":"Shop","version":"1"},"device":{"type":"ios","model":"x"},"os":{"name":"iOS","version":"18"},"screen":{"width":390,"height":844.5,"density":3},"library":{"name":"analytics-swift","version":"1"}}}`,
			lines("name=$screen", "type=screen", "distinct=anon", "anonymous=anon", "title=Cart", "device=ios", "os=iOS 18", "screen=390x844", "sdk=analytics-swift 1", "ip=203.0.113.9", "agent=Mozilla/5.0", "properties={}")},
		{"group makes no person", `{"type":"group","groupId":"g 1","userId":"u","traits":{"name":"Acme"}}`,
			lines("name=$groupidentify", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0", `properties={"$group_type":"group","$group_key":"g 1","$group_set":{"name":"Acme"}}`, "profile=none")},
		{"traits of a track change nobody", `{"type":"track","event":"a","userId":"u","traits":{"a":1,"$set":{"b":2}}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0")},
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
		{"context of the wrong kind is none", `{"type":"track","event":"a","userId":"u","context":{"page":"x","os":[],"screen":null,"locale":{}}}`,
			lines("name=a", "type=track", "distinct=u", "ip=203.0.113.9", "agent=Mozilla/5.0")},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(decoded(t, door(Segment), c.raw)), c.want)
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
		if e := decoded(t, door(Segment), raw); e.Name != want {
			t.Errorf("%s is %s; want %s", raw, e.Name, want)
		}
	}
	m := door(Segment)
	m.Call = "page"
	if e := decoded(t, m, `{"userId":"u","name":"Home"}`); e.Name != "$pageview" || e.PageTitle != "Home" {
		t.Errorf("the path says page; got %s", e.Name)
	}
}

func TestSegmentMessageIDs(t *testing.T) {
	raw := `{"type":"track","event":"a","userId":"u","messageId":"node-next-1768471323000-x"}`
	if e := decoded(t, door(Segment), raw); e.ID != EventID(project, "node-next-1768471323000-x") || e.Derived {
		t.Errorf("id %v, derived %v", e.ID, e.Derived)
	}
}
