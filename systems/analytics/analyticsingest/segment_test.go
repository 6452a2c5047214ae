package analyticsingest

import (
	"strings"
	"testing"
)

// Segment's libraries may put what is so of all calls beside them.
func TestTheContextOfABatchTravelsWithEachCall(t *testing.T) {
	const context = `{"library":{"name":"analytics-go","version":"3.0.0"},"app":{"name":"Shop"}}`
	call := func(id string) string { return `{"type":"track","event":"e","userId":"u","messageId":"` + id + `"}` }
	for _, path := range []string{"/v1/batch", "/v1/b"} {
		d := newTestIngest(t)
		body := `{"writeKey":"` + goodKey + `","batch":[` + call("1") + "," + call("2") + `],"context":` + context + `}`
		want(t, d.send(path, body, header{}), 200, `{"success":true}`)
		if len(d.intake.jobs) != 2 || d.meta(0).Context != context || d.meta(1).Context != context {
			t.Errorf("%s: %d jobs, with the contexts %q", path, len(d.intake.jobs), d.meta(0).Context)
		}
	}
	d := newTestIngest(t)
	want(t, d.send("/v1/track", `{"writeKey":"`+goodKey+`","event":"e","userId":"u","context":`+context+`}`, header{}), 200, `{"success":true}`)
	if c := d.meta(0).Context; c != "" {
		t.Errorf("one call has its context in itself, and got %q beside", c)
	}
}

func TestTheContextOfABatchCountsForTheSizeOfEachCall(t *testing.T) {
	d := newTestIngest(t)
	call := `{"type":"track","event":"e","userId":"u"}`
	body := `{"writeKey":"` + goodKey + `","batch":[` + call + `],"context":{"x":"` + strings.Repeat("x", segmentEvent) + `"}}`
	want(t, d.send("/v1/batch", body, header{}), 400, "*")
	if len(d.intake.jobs) != 0 {
		t.Errorf("%d jobs", len(d.intake.jobs))
	}
}
