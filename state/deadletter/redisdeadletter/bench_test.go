package redisdeadletter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
)

// One round is a thousand dead letters of 1 KB with a row of as much: put, asked for, handed
// out, delivered.
func BenchmarkLife(b *testing.B) {
	client := redistest.Connect(b, testenv.Redis(b))
	stream := testenv.Name("dlq:")
	s, err := redisdeadletter.New(b.Context(), client, redisdeadletter.Options{Stream: stream})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { client.Do(b.Context(), client.B().Del().Key(keys(stream)...).Build()) }()
	const n = 1000
	body := []byte(`{"a":"` + strings.Repeat("x", 1000) + `"}`)
	letters := make([]tidemill.DeadLetter, n)
	into := make([]*tidemill.Message, n)
	for i := range letters {
		letters[i] = tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500", Row: body,
			Message: &tidemill.Message{ID: fmt.Sprint("id", i), Tenant: "t", Payload: append([]byte(" "), body...)}}
		into[i] = new(tidemill.Message)
	}
	source := s.Open("p")
	var put, replay, receive, settle time.Duration
	for b.Loop() {
		t := time.Now()
		if err := s.Put(b.Context(), letters); err != nil {
			b.Fatal(err)
		}
		put, t = put+time.Since(t), time.Now()
		if k, err := s.Replay(b.Context(), deadletter.Filter{Pipeline: "p"}); k != n || err != nil {
			b.Fatal(k, err)
		}
		replay, t = replay+time.Since(t), time.Now()
		for left := n; left > 0; {
			k, err := source.Receive(b.Context(), into)
			if err != nil {
				b.Fatal(err)
			}
			receive, t = receive+time.Since(t), time.Now()
			ends := make([]tidemill.Settlement, k)
			for i := range ends {
				ends[i] = tidemill.Settlement{ID: into[i].ID, Mark: into[i].Mark, Fate: tidemill.Delivered}
			}
			if err := source.Settle(b.Context(), ends); err != nil {
				b.Fatal(err)
			}
			settle, t = settle+time.Since(t), time.Now()
			left -= k
		}
	}
	for name, d := range map[string]time.Duration{"put": put, "replay": replay, "receive": receive, "settle": settle} {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N)/n, name+"-µs/letter")
	}
}

// A full store: what counting, looking for and asking for some of a hundred thousand takes.
func BenchmarkFull(b *testing.B) {
	client := redistest.Connect(b, testenv.Redis(b))
	stream := testenv.Name("dlq:")
	s, err := redisdeadletter.New(b.Context(), client, redisdeadletter.Options{Stream: stream})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { client.Do(b.Context(), client.B().Del().Key(keys(stream)...).Build()) }()
	const n = 100_000
	letters := make([]tidemill.DeadLetter, 1000)
	for at := 0; at < n; at += len(letters) {
		for i := range letters {
			letters[i] = tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Validation, Cause: "refused", Message: &tidemill.Message{ID: fmt.Sprint("id", at+i), Tenant: "t", Payload: []byte("x")}}
		}
		if err := s.Put(b.Context(), letters); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() { // the worst: all are looked through, and none is for a replay
		if k, err := s.Replay(b.Context(), deadletter.Filter{Pipeline: "p", Max: 100, NotKinds: []tidemill.Kind{tidemill.Validation}}); k != 0 || err != nil {
			b.Fatal(k, err)
		}
	}
}
