package event

import (
	"strings"
	"testing"
)

func TestCloudEvents(t *testing.T) {
	const head = `{"specversion":"1.0","id":"1","source":"/shop","type":"order.placed","subject":"u"`
	for _, c := range []struct {
		name, raw, want string
	}{
		{"without data the attributes are the properties", head + `,"traceparent":"00-x","partitionkey":7}`,
			lines("name=order.placed", "type=track", "distinct=u", `properties={"ce_id":"1","ce_source":"/shop","ce_subject":"u","ce_traceparent":"00-x","ce_partitionkey":7}`)},
		{"data is the properties, with attributes and extensions behind", head + `,"datacontenttype":"application/json","dataschema":"https://x/s","traceparent":"00-x","time":"2026-01-15T09:00:00Z","data":{"total": 12.50, "ce_source":"mine"}}`,
			lines("name=order.placed", "type=track", "distinct=u", `properties={"total": 12.50, "ce_source":"mine","ce_id":"1","ce_subject":"u","ce_datacontenttype":"application/json","ce_dataschema":"https://x/s","ce_traceparent":"00-x"}`)},
		{"data that is no object is kept", head + `,"data":[1,2]}`,
			lines("name=order.placed", "type=track", "distinct=u", `properties={"data":[1,2],"ce_id":"1","ce_source":"/shop","ce_subject":"u"}`)},
		{"so is data in base64", head + `,"data_base64":"AAEC"}`,
			lines("name=order.placed", "type=track", "distinct=u", `properties={"data_base64":"AAEC","ce_id":"1","ce_source":"/shop","ce_subject":"u"}`)},
		{"data is read as PostHog's properties", `{"specversion":"1.0","id":"1","source":"/shop","type":"$identify","subject":"u","data":{"$anon_distinct_id":"anon","$set":{"a":1},"$ip":"198.51.100.7","$current_url":"https://x/"}}`,
			lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "url=https://x/", "ip=198.51.100.7",
				`properties={"$anon_distinct_id":"anon","$set":{"a":1},"$ip":"198.51.100.7","$current_url":"https://x/","ce_id":"1","ce_source":"/shop","ce_subject":"u"}`, "changes=set a:1", "merge=identify", "other=anon")},
		{"without a subject, a distinct id in data will do", `{"specversion":"1.0","id":"1","source":"s","type":"a","data":{"distinct_id":"u"}}`,
			lines("name=a", "type=track", "distinct=u", `properties={"distinct_id":"u","ce_id":"1","ce_source":"s"}`)},
		{"without both it is its source's", `{"specversion":"1.0","id":"1","source":"/sensors/7","type":"a","subject":null,"data":{"distinct_id":""}}`,
			lines("name=a", "type=track", "distinct=/sensors/7", `properties={"distinct_id":"","ce_id":"1","ce_source":"/sensors/7"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(decoded(t, endpoint(CloudEvents), c.raw)), c.want)
		})
	}
}

func TestWhereTheDistinctIDOfACloudEventIs(t *testing.T) {
	const raw = `{"specversion":"1.0","id":"1","source":"/shop","type":"a","subject":"order-7","userid":"u","data":{"user":{"id":1},"customer":9}}`
	for whose, want := range map[string]string{
		"": "order-7", "subject": "order-7", "userid,subject": "u", "nothing,data.customer": "9", "data.user": `{"id":1}`, "data.nothing,source": "/shop", "id": "1",
	} {
		m := endpoint(CloudEvents)
		m.Whose = whose
		if back, err := ParseMeta(m.Append(nil)); err != nil || back.Whose != whose {
			t.Errorf("%q came back as %q (%v)", whose, back.Whose, err)
		}
		if e := decoded(t, m, raw); e.DistinctID != want {
			t.Errorf("%q: the distinct id is %q, want %q", whose, e.DistinctID, want)
		}
	}
	m := endpoint(CloudEvents)
	m.Whose = "userid"
	var e Event
	refusal(t, Decode(&m, []byte(`{"specversion":"1.0","id":"1","source":"/shop","type":"a","subject":"s"}`), &e))
	for places, good := range map[string]bool{"subject": true, "data.x y": true, "userid2": true, "": false, "data.": false, "data": false, "Subject": false, "user-id": false} {
		if err := CheckCloudEventsID([]string{places}); (err == nil) != good {
			t.Errorf("%q: %v", places, err)
		}
	}
	if CheckCloudEventsID(nil) == nil || CheckCloudEventsID(strings.Split(CloudEventsID, ",")) != nil {
		t.Error("no place is too few, and the default is right")
	}
}

func TestACloudEventIsItsSourceAndID(t *testing.T) {
	event := func(source, id, subject string) *Event {
		return decoded(t, endpoint(CloudEvents), `{"specversion":"1.0","id":"`+id+`","source":"`+source+`","type":"a","subject":"`+subject+`"}`)
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

func TestTheTraceOfACloudEvent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for raw, want := range map[string]string{
		`{"id":"1","traceparent":"` + parent + `","data":{}}`:                                  parent + " ",
		`{"traceparent" : "` + parent + `", "tracestate":"a=\u0062","data":{"traceparent":1}}`: parent + " a=b",
		`{"data":{"traceparent":"` + parent + `"}}`:                                            "",
		`{"data":"traceparent","traceparent":null}`:                                            "",
		`{"traceparent":"00-x"}`:                                                               "",
		`{"traceparent":7}`:                                                                    "",
		`["traceparent"]`:                                                                      "",
		`{"traceparent":"`:                                                                     "",
		`{"id":"1"}`:                                                                           "",
		``:                                                                                     "",
	} {
		got := ""
		if trace, ok := TraceOfCloudEvent([]byte(raw)); ok {
			got = trace.String() + " " + trace.State
		}
		if got != want {
			t.Errorf("%s is of the trace %q, want %q", raw, got, want)
		}
	}
}
