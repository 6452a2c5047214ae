package analyticsingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// sink takes everything and keeps nothing.
type sink struct{}

func (sink) Add(_ context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	for i := range jobs {
		added[i] = queue.New
	}
	return nil
}

// nobody is a response that nobody reads.
type nobody struct {
	h    http.Header
	code int
}

func (n *nobody) Header() http.Header         { return n.h }
func (n *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (n *nobody) WriteHeader(code int)        { n.code = code }

func BenchmarkHandler(b *testing.B) {
	const n = 100
	list := func(format string) string {
		var s strings.Builder
		for i := range n {
			if i > 0 {
				s.WriteByte(',')
			}
			fmt.Fprintf(&s, format, i)
		}
		return s.String()
	}
	const node = `{"event":"page viewed","distinct_id":"user-%[1]d","uuid":"0190b4f4-0000-7000-8000-%012[1]d","timestamp":"2026-11-21T09:59:58.123Z","properties":{"$lib":"posthog-node","$lib_version":"5.70.0","$is_server":true,"$current_url":"https://shop.example/products/%[1]d?ref=mail","plan":"pro","amount":12.5,"items":[1,2,3],"$set":{"email":"user%[1]d@example.com"}}}`
	const web = `{"event":"page viewed","event_id":"0190b4f4-0000-7000-8000-%012[1]d","distinct_id":"user-%[1]d","timestamp":"2026-11-21T09:59:58.123Z","context":{"session_id":"s-%[1]d","url":"https://shop.example/products/%[1]d","browser":"Chrome","os":"Windows","screen_width":1920,"screen_height":1080,"language":"de-DE","sdk_name":"web","sdk_version":"1.0.0"},"properties":{"plan":"pro","amount":12.5,"items":[1,2,3]}}`
	const call = `{"type":"track","messageId":"node-next-1700000000000-0190b4f4-0000-7000-8000-%012[1]d","timestamp":"2026-11-21T09:59:58.123Z","event":"page viewed","userId":"user-%[1]d","properties":{"plan":"pro","amount":12.5},"integrations":{},"context":{"library":{"name":"@segment/analytics-node","version":"3.1.0"}},"_metadata":{"nodeVersion":"22.0.0","jsRuntime":"node"}}`
	for _, c := range []struct {
		name, path, body string
		h                header
	}{
		{"posthog", "/batch/", `{"api_key":"` + goodKey + `","batch":[` + list(node) + `],"sent_at":"2026-11-21T10:00:00Z"}`, nil},
		{"posthog-gzip", "/batch/", gzipped(`{"api_key":"` + goodKey + `","batch":[` + list(node) + `],"sent_at":"2026-11-21T10:00:00Z"}`), header{"Content-Encoding": "gzip"}},
		{"posthog-v1", "/i/v1/analytics/events", `{"batch":[` + list(node) + `]}`, v1},
		{"native", "/v1/batch", `{"events":[` + list(web) + `],"sent_at":"2026-11-21T10:00:00Z"}`, apiKey},
		{"segment", "/v1/batch", `{"batch":[` + list(call) + `],"sentAt":"2026-11-21T10:00:00Z"}`, basic},
		{"nameless", "/v1/batch", `{"events":[` + strings.ReplaceAll(list(web), `"event_id"`, `"other_id"`) + `]}`, apiKey},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newTestIngest(b, func(o *Options) { o.Intake, o.Warn = sink{}, nil })
			r := httptest.NewRequest(http.MethodPost, c.path, nil)
			for k, v := range c.h {
				r.Header.Set(k, v)
			}
			body := bytes.NewReader([]byte(c.body))
			w := &nobody{h: http.Header{}}
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				body.Reset([]byte(c.body))
				r.Body, r.ContentLength = io.NopCloser(body), int64(len(c.body))
				d.ServeHTTP(w, r)
				if w.code >= 300 {
					b.Fatalf("status %d", w.code)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
		})
	}
}
