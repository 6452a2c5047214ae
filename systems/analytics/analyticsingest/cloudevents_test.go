package analyticsingest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

func TestBinaryCloudEventsAreWrittenStructured(t *testing.T) {
	base := header{"X-Api-Key": goodKey, "ce-specversion": "1.0", "ce-id": "a-1", "ce-source": "/shop", "ce-type": "order.paid", "ce-subject": "u1",
		"ce-time": "2026-11-21T09:00:00Z", "ce-region": "k%C3%B6ln%20%22x%22", "ce-datacontenttype": "ignored/here"}
	attributes := func(more map[string]any) map[string]any {
		m := map[string]any{"specversion": "1.0", "id": "a-1", "source": "/shop", "type": "order.paid", "subject": "u1", "time": "2026-11-21T09:00:00Z", "region": `köln "x"`}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	for _, c := range []struct {
		name, contentType, body string
		want                    map[string]any
	}{
		{"JSON", "application/json", `{"a":[1]}`, map[string]any{"datacontenttype": "application/json", "data": map[string]any{"a": []any{1.0}}}},
		{"JSON of a sort", "application/vnd.x+json; charset=utf-8", `7`, map[string]any{"datacontenttype": "application/vnd.x+json; charset=utf-8", "data": 7.0}},
		{"text", "text/plain", "a\x00\xff", map[string]any{"datacontenttype": "text/plain", "data_base64": "YQD/"}},
		{"no data", "application/json", "", map[string]any{"datacontenttype": "application/json"}},
		{"no content type", "", `{"a":1}`, map[string]any{"data": map[string]any{"a": 1.0}}},
		{"no content type, no JSON", "", `{"a":`, map[string]any{"data_base64": "eyJhIjo="}},
	} {
		d := newTestIngest(t)
		h := with(base, "Content-Type", c.contentType)
		want(t, d.send("/v1/cloudevents", c.body, h), 202, `{"ok":true,"count":1,"dropped":0}`)
		want(t, d.send("/v1/cloudevents", c.body, h), 202, `{"ok":true,"count":1,"dropped":0}`)
		if len(d.intake.jobs) != 1 {
			t.Fatalf("%s: %d jobs; want 1: (source, id) name an event", c.name, len(d.intake.jobs))
		}
		j := d.intake.jobs[0]
		var got map[string]any
		if err := json.Unmarshal(j.Payload, &got); err != nil {
			t.Fatalf("%s: %s: %v", c.name, j.Payload, err)
		}
		if !reflect.DeepEqual(got, attributes(c.want)) {
			t.Errorf("%s: got\n%v\nwant\n%v", c.name, got, attributes(c.want))
		}
		if j.Type != "order.paid" || string(j.Key) != "u1" || d.meta(0).Format != event.CloudEvents {
			t.Errorf("%s: job %+v", c.name, j)
		}
	}
}

func TestBinaryCloudEventsThatAreNone(t *testing.T) {
	base := header{"X-Api-Key": goodKey, "Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t", "ce-subject": "u"}
	for _, missing := range []string{"ce-id", "ce-source", "ce-type", "ce-specversion"} {
		want(t, newTestIngest(t).send("/v1/cloudevents", `{}`, without(base, missing)), 400, "*")
	}
	want(t, newTestIngest(t).send("/v1/cloudevents", `{"a":`, base), 400, "*")
	want(t, newTestIngest(t).send("/v1/cloudevents", `{}`, with(base, "Content-Type", "???")), 415, "*")
	want(t, newTestIngest(t).send("/v1/cloudevents", `{}`, base), 202, "*")
}

func TestJSONDataOfABinaryCloudEventIsKeptByteForByte(t *testing.T) {
	d := newTestIngest(t)
	data := "{ \"n\":12345678901234567890, \"x\":1,\"x\":\"\xff\" }"
	d.send("/v1/cloudevents", data, header{"X-Api-Key": goodKey, "Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t", "ce-subject": "u"})
	want := `{"id":"1","source":"/","specversion":"1.0","subject":"u","type":"t","datacontenttype":"application/json","data":` + data + `}`
	if got := d.payloads(); len(got) != 1 || got[0] != want {
		t.Errorf("payload\n%q\nwant\n%q", got, want)
	}
}

func TestAttributesThatAreNotEncoded(t *testing.T) {
	for sent, want := range map[string]string{"k%C3%B6ln": "köln", "k\xf6ln": "köln", "k\xc3\xb6ln": "köln", "100%": "100%"} {
		d := newTestIngest(t)
		d.send("/v1/cloudevents", `{}`, header{"X-Api-Key": goodKey, "Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t", "ce-region": sent})
		var got struct{ Region string }
		if err := json.Unmarshal(d.intake.jobs[0].Payload, &got); err != nil || got.Region != want {
			t.Errorf("%q was read as %q (%v), want %q", sent, got.Region, err, want)
		}
	}
}
