package analyticsingest

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestEventsWithoutAnID(t *testing.T) {
	const (
		timed   = `{"event":"e","distinct_id":"u","timestamp":"2026-11-21T09:00:00Z"}`
		untimed = `{"event":"e","distinct_id":"u"}`
		another = `{"event":"f","distinct_id":"u"}`
		oldJS   = `{"event":"e","properties":{"distinct_id":"u","$time":1795255200.5,"$insert_id":"abc"}}`
	)
	sent := func(at string, events ...string) string {
		return `{"api_key":"` + goodKey + `","sent_at":"` + at + `","batch":[` + strings.Join(events, ",") + `]}`
	}
	const at, later = "2026-11-21T09:59:00Z", "2026-11-21T09:59:30Z"
	for _, c := range []struct {
		name   string
		bodies []string
		want   int // events in the queue after all
	}{
		{"with a time: sent again, even in another batch, it is the same", []string{posted(timed), posted(timed), sent(at, timed), sent(later, timed, ph)}, 2},
		{"with a time: two equal ones of a batch are two", []string{posted(timed, timed)}, 2},
		{"with a time: the batch of two sent again is the same two", []string{posted(timed, timed), posted(timed, timed)}, 2},
		{"with $time: the same", []string{posted(oldJS), posted(oldJS)}, 1},
		{"an empty time is none", []string{posted(`{"event":"e","distinct_id":"u","timestamp":""}`), posted(`{"event":"e","distinct_id":"u","timestamp":""}`)}, 2},
		{"no time, but of sending: sent again it is the same", []string{sent(at, untimed), sent(at, untimed)}, 1},
		{"no time, but of sending: two equal ones of a batch are two", []string{sent(at, untimed, untimed), sent(at, untimed, untimed)}, 2},
		{"no time, but of sending: another time, another event", []string{sent(at, untimed), sent(later, untimed)}, 2},
		{"no time, but of sending: other events of the same time are others", []string{sent(at, untimed), sent(at, another), sent(at, untimed, another)}, 4},
		{"no time at all: never the same", []string{posted(untimed), posted(untimed)}, 2},
	} {
		d := newTestIngest(t)
		for _, b := range c.bodies {
			want(t, d.send("/batch/", b), 200, `{"status":"Ok"}`)
		}
		if len(d.intake.jobs) != c.want {
			t.Errorf("%s: %d events; want %d", c.name, len(d.intake.jobs), c.want)
		}
		for i, j := range d.intake.jobs {
			if id := uuid.MustParse(j.ID); d.meta(i).Event != id || id.Variant() != uuid.RFC4122 {
				t.Errorf("%s: job %s has an event %s in its header", c.name, id, d.meta(i).Event)
			}
		}
	}
}

func TestTheTimeOfSendingMayBeInTheAddress(t *testing.T) {
	d := newTestIngest(t)
	body := `{"api_key":"` + goodKey + `","event":"e","distinct_id":"u"}`
	for _, q := range []string{"1795255199000", "1795255199000", "1795255200000"} {
		want(t, d.send("/e/?ver=1&_="+q, body), 200, "*")
	}
	if len(d.intake.jobs) != 2 {
		t.Errorf("%d events; want 2: the second is the first sent again", len(d.intake.jobs))
	}
	if first, second := d.meta(0), d.meta(1); first.Order >= second.Order {
		t.Errorf("orders %x and %x; want what was sent later to be later", first.Order, second.Order)
	}
}

func TestTheSameBytesInTwoProjectsAreTwoEvents(t *testing.T) {
	d := newTestIngest(t)
	const timed = `{"event":"e","distinct_id":"u","timestamp":"2026-11-21T09:00:00Z"}`
	d.send("/v1/batch", nativeBody(timed), apiKey)
	d.send("/v1/batch", nativeBody(timed), header{"X-Api-Key": otherKey})
	if len(d.intake.jobs) != 2 || d.intake.jobs[0].ID == d.intake.jobs[1].ID {
		t.Errorf("jobs %+v; want two of different ids", d.intake.jobs)
	}
}

func TestAnImportSentAgainIsTheSame(t *testing.T) {
	d := newTestIngest(t)
	body := nativeBody(`{"event":"e","distinct_id":"u","timestamp":"2020-01-01T00:00:00Z"}`)
	first := d.send("/v1/import", body, apiKey).Body.String()
	again := d.send("/v1/import", body, apiKey).Body.String()
	if first != again || len(d.intake.jobs) != 1 {
		t.Errorf("%s then %s, %d jobs", first, again, len(d.intake.jobs))
	}
	m := d.meta(0)
	if !m.Import || !strings.HasPrefix(m.Batch, "import-") || !strings.Contains(first, m.Batch) {
		t.Errorf("meta %+v, answer %s", m, first)
	}
}
