package analyticsingest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/serve/endpoint"
)

// Memory is used again by other requests: none may see another's bytes.
func TestManyRequestsAtOnce(t *testing.T) {
	const senders, requests, events = 8, 10, 5
	d := newTestIngest(t)
	wantPayload := map[string]string{}
	var all sync.WaitGroup
	for s := range senders {
		var bodies []string
		for r := range requests {
			var list []string
			for e := range events {
				id := fmt.Sprintf("0190b4f4-0000-7000-8000-%04d%04d%04d", s, r, e)
				raw := fmt.Sprintf(`{"event":"e%d","event_id":%q,"distinct_id":"u%d","properties":{"x":%q}}`, e, id, s, strings.Repeat(string(rune('a'+s)), 1+(s*7919+r*104729+e*31)%9000))
				wantPayload[id] = raw
				list = append(list, raw)
			}
			bodies = append(bodies, nativeBody(list...))
		}
		all.Go(func() {
			for r, b := range bodies {
				if r%2 == s%2 {
					b = gzipped(b)
				}
				if w := d.send("/v1/batch", b, apiKey); w.Code != 202 {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				d.send("/v1/batch", b[:len(b)-1], apiKey)
				d.send("/e/", `{"api_key":"x`, apiKey)
			}
		})
	}
	all.Wait()
	if len(d.intake.jobs) != len(wantPayload) {
		t.Errorf("%d jobs; want %d", len(d.intake.jobs), len(wantPayload))
	}
	for i, j := range d.intake.jobs {
		s := j.ID[24:28]
		if string(j.Payload) != wantPayload[j.ID] || strings.TrimLeft(s, "0") != strings.TrimLeft(string(j.Key[1:]), "0") || d.meta(i).Event.String() != j.ID {
			t.Fatalf("job %s has payload %.100q and key %q", j.ID, j.Payload, j.Key)
		}
	}
	if out := d.Bodies.Out(); out != 0 {
		t.Errorf("%d bytes were not given back", out)
	}
}

func TestAClientThatHangsUpLosesNothing(t *testing.T) {
	d := newTestIngest(t)
	ctx, hangUp := context.WithCancel(t.Context())
	d.intake.before = func(ctx context.Context) {
		hangUp()
		if ctx.Err() != nil {
			t.Error("the queue was told to stop")
		}
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/batch/", strings.NewReader(posted(ph)))
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Code != 200 || len(d.intake.jobs) != 1 {
		t.Errorf("got %d and %d jobs; want the event kept", w.Code, len(d.intake.jobs))
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	d := newTestIngest(t, func(o *Options) { o.Registerer = reg })
	d.send("/batch/", posted(ph, phIllegal, `{"event":"e"}`))
	d.send("/batch/", gzipped(posted(ph)))
	d.send("/nothing", "")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"tidemill_ingest_requests_total 200 posthog":               2,
		"tidemill_ingest_requests_total 404 none":                  1,
		"tidemill_ingest_events_total posthog accepted":            1,
		"tidemill_ingest_events_total posthog known":               1,
		"tidemill_ingest_events_total posthog illegal_distinct_id": 1,
		"tidemill_ingest_events_total posthog invalid_event":       1,
		"tidemill_ingest_bytes_total inflated posthog":             float64(len(posted(ph, phIllegal, `{"event":"e"}`)) + len(posted(ph))),
		"tidemill_ingest_bytes_total sent posthog":                 float64(len(posted(ph, phIllegal, `{"event":"e"}`)) + len(gzipped(posted(ph)))),
		"tidemill_ingest_request_seconds posthog":                  2,
	} {
		if got[name] != want {
			t.Errorf("%s is %v; want %v\nall: %v", name, got[name], want, got)
		}
	}
	if len(d.warned) != 2 || d.warned[0] != (warned{"illegal_distinct_id", "e", "null", d.warned[0].reason}) {
		t.Errorf("warned %+v", d.warned)
	}
	if _, err := New(Options{Options: endpoint.Options{Projects: d.projects, Registerer: reg}, Intake: d.intake}); err == nil {
		t.Error("two doors registered the same metrics")
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	good := Options{Options: endpoint.Options{Projects: &projects{}}, Intake: &intake{}}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no intake":       func(o *Options) { o.Intake = nil },
		"no projects":     func(o *Options) { o.Projects = nil },
		"status 418":      func(o *Options) { o.RateStatus = 418 },
		"negative limit":  func(o *Options) { o.Limits.Depth = -1 },
		"negative memory": func(o *Options) { o.Limits.Memory = -1 },
		"little memory":   func(o *Options) { o.Limits.Memory = 1 << 20 },
		"empty prefix":    func(o *Options) { o.TrustProxy = append(o.TrustProxy, netip.Prefix{}) },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
