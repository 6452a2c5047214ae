package rediswindow

import (
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/window"
)

// A Redis that is killed between any two steps, and comes back, has every window where it was.
func TestRedisIsKilled(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always") // else Redis may answer before it has written
	ctx := t.Context()
	connect := func() *Store {
		t.Helper()
		s, err := New(redistest.Connect(t, server.URL), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := connect()
	kill := func(want tidemill.Books) {
		t.Helper()
		server.Kill()
		if err := s.Put(ctx, many(1), nil); err == nil || tidemill.KindOf(err) != tidemill.Transient && tidemill.KindOf(err) != tidemill.Timeout {
			t.Fatalf("Put into nothing: %v", err)
		}
		server.Restart()
		s = connect() // the old connections end one by one
		if books, err := s.Open().(tidemill.Bookkeeper).Books(ctx); books != want || err != nil {
			t.Fatalf("books %+v, %v; want %+v", books, err, want)
		}
	}
	if err := s.Put(ctx, many(1000), nil); err != nil {
		t.Fatal(err)
	}
	kill(tidemill.Books{Accepted: 1000, Pending: 1000})
	kept := make([]window.Kept, 1001)
	if err := s.Put(ctx, append(many(1000), window.Record{Batch: "b", Kind: "event", ID: "more"}), kept); err != nil || kept[999] != window.Overwrote || kept[1000] != window.New {
		t.Fatal(err)
	}
	if ok, err := s.CloseNow(ctx, "b"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	m := new(tidemill.Message)
	if n, err := s.Open().Receive(ctx, []*tidemill.Message{m}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	kill(tidemill.Books{Accepted: 1001, Pending: 1001})
	read := 0
	for from, first := "", true; first || from != ""; first = false {
		p, err := s.Page(ctx, m.Mark, from, make([]window.Record, 300))
		if err != nil || p.Lost != 0 {
			t.Fatal(p, err)
		}
		read, from = read+p.N, p.Next
	}
	if read != 1001 {
		t.Fatalf("read %d, want 1001", read)
	}
	end := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}
	if err := s.Open().Settle(ctx, end); err != nil || end[0].Outcome != tidemill.Applied {
		t.Fatal(err, end[0].Outcome)
	}
	kill(tidemill.Books{Accepted: 1001, Settled: tidemill.Count{Delivered: 1001}})
}
