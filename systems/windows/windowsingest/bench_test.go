package windowsingest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// willing is a store that takes everything and keeps nothing, so that what is measured is
// the ingest API.
type willing struct{ window.Store }

func (willing) Put(_ context.Context, _ []window.Record, kept []window.Kept) error {
	for i := range kept {
		kept[i] = window.New
	}
	return nil
}

// discarding is an answer that nobody reads.
type discarding struct{ header http.Header }

func (d discarding) Header() http.Header         { return d.header }
func (d discarding) Write(b []byte) (int, error) { return len(b), nil }
func (d discarding) WriteHeader(int)             {}

// bench posts one body of n records again and again. Beside the time of a request it reports
// that of a record.
func bench(b *testing.B, path, contentType, content string, n int) {
	d := newEndpoint(b, func(o *Options) { o.Windows = willing{} })
	sent := strings.NewReader("")
	w := discarding{http.Header{}}
	r := (&http.Request{Method: "POST", Header: http.Header{"X-Api-Key": {key}, "Content-Type": {contentType}}, Body: io.NopCloser(sent), ContentLength: int64(len(content))}).WithContext(b.Context())
	if r.URL, _ = url.Parse(Path + path); !strings.HasPrefix(path, "/files") {
		r.Header["X-Batch-Id"] = []string{batch}
	}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		sent.Reset(content)
		clear(w.header)
		d.ServeHTTP(w, r)
	}
	if h := d.Handled(); h.Accepted != h.Requests*uint64(n) {
		b.Fatalf("handled %+v", h)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
}

// rows are events as a GDELT file has them.
func rows(b *testing.B, n int) (all []string, file string) {
	file = string(gdelttest.Batch{Stamp: batch, Events: n}.Export())
	r := gdelt.NewReader(record.Event, strings.NewReader(file), gdelt.Limits{})
	for r.Next() == nil {
		all = append(all, string(r.AppendJSON(nil)))
	}
	if len(all) != n {
		b.Fatalf("%d rows", len(all))
	}
	return all, file
}

func BenchmarkOneRecord(b *testing.B) {
	all, _ := rows(b, 1)
	bench(b, "/events", "application/json", all[0], 1)
}

func BenchmarkAThousandInAnArray(b *testing.B) {
	all, _ := rows(b, 1000)
	bench(b, "/events", "application/json", "["+strings.Join(all, ",")+"]", 1000)
}

func BenchmarkAThousandInLines(b *testing.B) {
	all, _ := rows(b, 1000)
	bench(b, "/events", "application/x-ndjson", strings.Join(all, "\n"), 1000)
}

func BenchmarkAFileOfAThousand(b *testing.B) {
	_, file := rows(b, 1000)
	bench(b, "/files?name="+batch+".export.CSV", "application/octet-stream", file, 1000)
}

// BenchmarkManyWithOneRecord has requests with a record each, of many clients at once, on a
// store in memory: they share calls.
func BenchmarkManyWithOneRecord(b *testing.B) {
	d := newEndpoint(b)
	one := event(1)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			sent := strings.NewReader(one)
			r := (&http.Request{Method: "POST", Header: http.Header{"X-Api-Key": {key}, "X-Batch-Id": {batch}}, Body: io.NopCloser(sent), ContentLength: int64(len(one))}).WithContext(b.Context())
			r.URL = &url.URL{Path: Path + "/events"}
			d.ServeHTTP(discarding{http.Header{}}, r)
		}
	})
	if h := d.Handled(); h.Unkept > 0 {
		b.Fatalf("handled %+v", h)
	}
	b.ReportMetric(float64(b.N)/float64(len(d.windows.puts())), "records/call")
}
