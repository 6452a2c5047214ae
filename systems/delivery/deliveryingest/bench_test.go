package deliveryingest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// willing is a ledger and a queue that take everything and keep nothing, so that what is
// measured is the ingest API.
type willing struct{ ledger.Store }

func (willing) Begin(_ context.Context, es []*ledger.Entry, _ ledger.Begin) error {
	for _, e := range es {
		e.State, e.Token = ledger.Fresh, 1
	}
	return nil
}
func (willing) End(context.Context, []*ledger.Entry) error { return nil }
func (willing) Add(_ context.Context, _ []*tidemill.Message, added []queue.Added) error {
	for i := range added {
		added[i] = queue.New
	}
	return nil
}

func (willing) Knows(context.Context, []queue.Name, []bool) error { return nil }

// discarding is an answer that nobody reads.
type discarding struct{ header http.Header }

func (d discarding) Header() http.Header         { return d.header }
func (d discarding) Write(b []byte) (int, error) { return len(b), nil }
func (d discarding) WriteHeader(int)             {}

func BenchmarkOneEvent(b *testing.B) {
	d := newEndpoint(b, func(o *Options) {
		a, err := accept.New(willing{}, willing{}, accept.Options{})
		if err != nil {
			b.Fatal(err)
		}
		o.Acceptor = a
	})
	body := strings.NewReader("")
	w := discarding{http.Header{}}
	r := &http.Request{Method: "POST", Header: http.Header{"X-Api-Key": {shopKey}, "X-Idempotency-Key": {one}, "Content-Type": {"application/json"}, "User-Agent": {"bench"}}, Body: io.NopCloser(body)}
	r = r.WithContext(b.Context())
	r.URL = &url.URL{Path: "/v1/events"}
	r.RemoteAddr = "192.0.2.1:1234"
	event := withID(one)
	r.ContentLength = int64(len(event))
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(event)
		clear(w.header)
		d.ServeHTTP(w, r)
	}
	if h := d.Handled(); h.Accepted != h.Requests {
		b.Fatal(fmt.Sprint(h))
	}
}
