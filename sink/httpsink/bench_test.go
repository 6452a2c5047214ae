package httpsink_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// The server costs about as much as the sink: both share the machine. The bare client is
// what net/http takes for the same, its answer read and thrown away.
func BenchmarkSingles(b *testing.B) {
	run := func(b *testing.B, deliver func(m *tidemill.Message) error) {
		const inFlight = 100
		b.ReportAllocs()
		var left atomic.Int64
		left.Store(int64(b.N))
		var all sync.WaitGroup
		b.ResetTimer()
		for i := range inFlight {
			all.Go(func() {
				m := &tidemill.Message{ID: fmt.Sprint("m", i), Payload: benchEvent}
				for left.Add(-1) >= 0 {
					if err := deliver(m); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	}
	server := httptest.NewServer(http.HandlerFunc(discard))
	defer server.Close()
	b.Run("sink", func(b *testing.B) {
		sink, err := httpsink.New(guard(b, httpguard.Options{Plain: true}), httpsink.Options{URL: server.URL, Auth: []httpsink.Auth{httpsink.Bearer(secret("token"))}})
		if err != nil {
			b.Fatal(err)
		}
		run(b, func(m *tidemill.Message) error { return sink.Write(b.Context(), []*tidemill.Message{m}) })
	})
	b.Run("bare client", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}}
		defer client.CloseIdleConnections()
		run(b, func(m *tidemill.Message) error {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, bytes.NewReader(m.Payload))
			if err != nil {
				return err
			}
			a, err := client.Do(r)
			if err != nil {
				return err
			}
			defer a.Body.Close()
			_, err = io.Copy(io.Discard, a.Body)
			return err
		})
	})
}

func BenchmarkBatches(b *testing.B) {
	const each = 100
	server := httptest.NewServer(http.HandlerFunc(discard))
	defer server.Close()
	o := listed(each, 0)
	o.URL = server.URL
	sink, err := httpsink.New(guard(b, httpguard.Options{Plain: true}), o)
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]*tidemill.Message, each)
	for i := range batch {
		batch[i] = &tidemill.Message{ID: fmt.Sprint("m", i), Payload: benchEvent}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := sink.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "messages/s")
}

func discard(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"status":"ok"}`)
}

var benchEvent = []byte(`{"eventType":"purchase","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","eventId":"0190f3c2-7d1a-7c3e-8f4b-000000000001","orderId":"o-1","value":129.9,"currency":"EUR","items":[{"id":"sku-1","name":"Shoes","quantity":1,"price":129.9}],"context":{"page":{"url":"https://shop.example.com/thanks"}},"properties":{"gclid":"EAIaIQobChMI"}}`)
