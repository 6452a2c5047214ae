package event

import "testing"

func TestCloudEvents(t *testing.T) {
	const head = `{"specversion":"1.0","id":"1","source":"/shop","type":"order.placed","subject":"u"`
	for _, c := range []struct {
		name, raw, want string
	}{
		{"without data the whole CloudEvent is kept", head + `,"traceparent":"00-x"}`,
			lines("name=order.placed", "type=track", "distinct=u", "properties="+head+`,"traceparent":"00-x"}`)},
		{"data is the properties", head + `,"datacontenttype":"application/json","data":{"total": 12.50}}`,
			lines("name=order.placed", "type=track", "distinct=u", `properties={"total": 12.50}`)},
		{"data that is no object is kept with all else", head + `,"data":[1,2]}`,
			lines("name=order.placed", "type=track", "distinct=u", "properties="+head+`,"data":[1,2]}`)},
		{"so is data in base64", head + `,"data_base64":"AAEC"}`,
			lines("name=order.placed", "type=track", "distinct=u", "properties="+head+`,"data_base64":"AAEC"}`)},
		{"data is read as PostHog's properties", `{"specversion":"1.0","id":"1","source":"/shop","type":"$identify","subject":"u","data":{"$anon_distinct_id":"anon","$set":{"a":1},"$ip":"198.51.100.7","$current_url":"https://x/"}}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "url=https://x/", "ip=198.51.100.7",
				`properties={"$anon_distinct_id":"anon","$set":{"a":1},"$ip":"198.51.100.7","$current_url":"https://x/"}`, "changes=set a:1", "merge=identify", "other=anon")},
		{"a distinct id in data will do", `{"specversion":"1.0","id":"1","source":"s","type":"a","data":{"distinct_id":"u"}}`,
			lines("name=a", "type=track", "distinct=u", `properties={"distinct_id":"u"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(decoded(t, door(CloudEvents), c.raw)), c.want)
		})
	}
}

func TestACloudEventIsItsSourceAndID(t *testing.T) {
	event := func(source, id, subject string) *Event {
		return decoded(t, door(CloudEvents), `{"specversion":"1.0","id":"`+id+`","source":"`+source+`","type":"a","subject":"`+subject+`"}`)
	}
	a := event("s", "12", "u")
	if b := event("s", "12", "v"); a.ID != b.ID || a.Derived {
		t.Errorf("one event has the ids %v and %v", a.ID, b.ID)
	}
	const id = "0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b"
	for _, b := range []*Event{event("s1", "2", "u"), event("s", "1", "u"), event("t", "12", "u")} {
		if a.ID == b.ID {
			t.Errorf("two events have the id %v", a.ID)
		}
	}
	if event("a", id, "u").ID == event("b", id, "u").ID {
		t.Error("ids are only unique within a source, UUIDs too")
	}
}
