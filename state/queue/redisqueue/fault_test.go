package redisqueue

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// table is a store on the table of one test.
type table struct {
	*testing.T
	*Store
}

func newTable(t *testing.T, client rueidis.Client, o Options) *table {
	t.Helper()
	o.Prefix = testenv.Name("queue:")
	s, err := New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return &table{t, s}
}

func (b *table) add(jobs ...*tidemill.Message) {
	b.Helper()
	if err := b.Add(b.Context(), jobs, nil); err != nil {
		b.Fatal(err)
	}
}

// take receives n jobs that are there.
func (b *table) take(src tidemill.Source, n int) (all []*tidemill.Message) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := src.Receive(ctx, into)
		if err != nil {
			b.Fatalf("after %d of %d jobs: %v", len(all), n, err)
		}
		all = append(all, into[:got]...)
	}
	return all
}

func (b *table) deliver(src tidemill.Source, jobs ...*tidemill.Message) {
	b.Helper()
	ends := make([]tidemill.Settlement, len(jobs))
	for i, m := range jobs {
		ends[i] = delivered(m)
	}
	if err := src.Settle(b.Context(), ends); err != nil {
		b.Fatal(err)
	}
	for _, e := range ends {
		if e.Outcome != tidemill.Applied {
			b.Fatalf("the settlement of job %s was taken as %d", e.ID, e.Outcome)
		}
	}
}

func (b *table) books(name string, want tidemill.Books) {
	b.Helper()
	if got, err := b.Open(name, queue.Options{}).(tidemill.Bookkeeper).Books(b.Context()); err != nil || got != want {
		b.Fatalf("books of %q are %+v, %v; want %+v", name, got, err, want)
	}
}

func numbered(from, n int) []*tidemill.Message {
	all := make([]*tidemill.Message, n)
	for i := range all {
		all[i] = &tidemill.Message{ID: fmt.Sprint("job", from+i), To: "q", Payload: fmt.Append(nil, from+i)}
	}
	return all
}

func TestShards(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		b := newTable(t, client, Options{Shards: 5})
		src := b.Open("q", queue.Options{})
		got := make(chan []*tidemill.Message)
		go func() { got <- b.take(src, 1) }()
		for i := range 10 { // whatever shard it goes to, a source that waits is woken
			b.add(numbered(1000+i, 1)...)
			b.deliver(src, <-got...)
			go func() { got <- b.take(src, 1) }()
		}
		b.add(numbered(0, 400)...)
		first := <-got
		all := append(first, b.take(src, 399)...)
		ends := make([]tidemill.Settlement, len(all))
		for i, m := range all {
			ends[i] = delivered(m)
			ends[i].Next = []*tidemill.Message{{ID: m.ID + "/a", To: "r"}, {ID: m.ID + "/b", To: "r"}}
		}
		if err := src.Settle(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
		b.books("q", tidemill.Books{Accepted: 410, Settled: tidemill.Count{Delivered: 410}})
		b.books("r", tidemill.Books{Accepted: 800, Pending: 800})
		b.add(numbered(0, 400)...) // known
		b.add(&tidemill.Message{ID: "job7/a", To: "r"})
		b.books("r", tidemill.Books{Accepted: 800, Pending: 800})
		r := b.Open("r", queue.Options{})
		if _, err := b.Look(t.Context(), queue.Name{Queue: "r", ID: "job7/b"}); err != nil {
			t.Error(err)
		}
		b.deliver(r, b.take(r, 800)...)
		b.books("r", tidemill.Books{Accepted: 800, Settled: tidemill.Count{Delivered: 800}})
		if _, err := b.Set(t.Context(), "q", func(s *queue.Settings) { s.Ordered = true }); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("strict order in five shards says %v, want kind validation", err)
		}
	})
}

// A full Redis refuses jobs, and lets be done and ended what is there.
func TestAFullRedisIsDrained(t *testing.T) {
	t.Parallel()
	b := newTable(t, redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL), Options{})
	src := b.Open("q", queue.Options{})
	b.add(numbered(0, 50)...)
	limit := func(n string) {
		t.Helper()
		if err := b.client.Do(t.Context(), b.client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", n).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	if err := b.Add(t.Context(), numbered(100, 1), nil); tidemill.KindOf(err) != tidemill.RateLimit {
		t.Errorf("adding to a full Redis says %v, want kind rate_limit", err)
	}
	b.deliver(src, b.take(src, 50)...)
	limit("0")
	b.add(numbered(100, 1)...)
	b.books("q", tidemill.Books{Accepted: 51, Settled: tidemill.Count{Delivered: 50}, Pending: 1})
}

// What was acknowledged is there after kill -9 of a Redis that syncs every write; and what
// was out is still out, for its owner.
func TestAKilledRedis(t *testing.T) {
	t.Parallel()
	server := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendonly yes --appendfsync always")
	b := newTable(t, redistest.Connect(t, server.URL), Options{})
	src := b.Open("q", queue.Options{})
	b.add(numbered(0, 200)...)
	got := b.take(src, 50)
	b.deliver(src, got[:20]...)
	server.Kill()
	if err := b.Add(t.Context(), numbered(500, 1), nil); err == nil {
		t.Error("adding to a killed Redis says nothing")
	}
	server.Restart()
	b.client = redistest.Connect(t, server.URL) // each old connection finds out at its next use
	b.books("q", tidemill.Books{Accepted: 200, Settled: tidemill.Count{Delivered: 20}, Pending: 180})
	b.deliver(src, got[20:]...)
	b.deliver(src, b.take(src, 150)...)
	b.add(numbered(0, 200)...) // known
	b.books("q", tidemill.Books{Accepted: 200, Settled: tidemill.Count{Delivered: 200}})
}

// Answers that do not come: a cut link. What was made is not made twice, and its answer is
// had later.
func TestACutLink(t *testing.T) {
	t.Parallel()
	server := testenv.Start(t, testenv.PrivateRedis)
	b := newTable(t, redistest.Connect(t, server.URL), Options{})
	lossy := &lossy{Client: b.client}
	b.client = lossy
	src := b.Open("q", queue.Options{})
	b.add(numbered(100, 1)...)
	b.deliver(src, b.take(src, 1)...) // Redis knows the scripts now
	b.add(numbered(0, 30)...)
	into := make([]*tidemill.Message, 30)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	lossy.lose.Store(1)
	if n, err := src.Receive(t.Context(), into); err == nil {
		t.Fatalf("received %d jobs though the answer was lost", n)
	}
	got := b.take(src, 30)
	for _, m := range got {
		if m.Handed != 1 {
			t.Fatalf("job %s was handed out %d times, want once: nobody had it", m.ID, m.Handed)
		}
	}
	ends := make([]tidemill.Settlement, 30)
	for i, m := range got {
		ends[i] = delivered(m)
	}
	lossy.lose.Store(1)
	if err := src.Settle(t.Context(), ends); err == nil {
		t.Fatal("settled though the answer was lost")
	}
	b.deliver(src, got[10:]...) // sent again: applied the first time, and told so
	if err := src.Settle(t.Context(), ends[:1]); err != nil || ends[0].Outcome != tidemill.Stale {
		t.Errorf("what was settled long ago is taken as %d, %v; want stale", ends[0].Outcome, err)
	}
	b.books("q", tidemill.Books{Accepted: 31, Settled: tidemill.Count{Delivered: 31}})
}

// Who asks again for fewer, because the answer was lost, has those; the others wait again.
func TestALostAnswerAndASmallerQuestion(t *testing.T) {
	t.Parallel()
	client := &lossy{Client: redistest.Connect(t, testenv.Redis(t))}
	b := newTable(t, client, Options{})
	if _, err := b.Set(t.Context(), "q", func(s *queue.Settings) { s.Tenant.AtOnce = 20 }); err != nil {
		t.Fatal(err)
	}
	src := b.Open("q", queue.Options{})
	b.add(numbered(0, 31)...)
	b.deliver(src, b.take(src, 1)...) // Redis knows the scripts now
	into := make([]*tidemill.Message, 20)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	client.lose.Store(1)
	if n, err := src.Receive(t.Context(), into); err == nil {
		t.Fatalf("received %d jobs though the answer was lost", n)
	}
	n, err := src.Receive(t.Context(), into[:8])
	if n != 8 || err != nil {
		t.Fatalf("received %d, %v; want 8", n, err)
	}
	rest := b.take(b.Open("q", queue.Options{}), 12) // as many as may be out beside those
	for i, m := range append(into[:8:8], rest...) {
		if want := fmt.Sprint("job", i+1); m.ID != want || m.Handed != 1 {
			t.Errorf("job %s was handed out %d times, want %s once", m.ID, m.Handed, want)
		}
	}
	b.deliver(src, append(into[:8:8], rest...)...)
	b.deliver(src, b.take(src, 10)...)
	b.books("q", tidemill.Books{Accepted: 31, Settled: tidemill.Count{Delivered: 31}})
}

// Some jobs come before there is a dictionary, some while the queue holds few, some after.
func TestDictionary(t *testing.T) {
	t.Parallel()
	b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{plain: 200})
	rng := rand.New(rand.NewPCG(3, 4))
	sent := map[string][]byte{}
	for range 10 {
		var jobs []*tidemill.Message
		for range 50 {
			id, payload := event(rng)
			sent[id] = payload
			jobs = append(jobs, &tidemill.Message{ID: id, To: "q", Payload: payload, Header: []tidemill.Field{{Name: []byte("n"), Value: []byte(id)}}})
		}
		b.add(jobs...)
	}
	other, err := New(b.client, b.o) // another process, that has to learn the dictionary
	if err != nil {
		t.Fatal(err)
	}
	src := other.Open("q", queue.Options{})
	got := b.take(src, 500)
	for _, m := range got {
		if !bytes.Equal(m.Payload, sent[m.ID]) || string(m.Get("n")) != m.ID {
			t.Fatalf("job %s came as %q, want %q", m.ID, m.Payload, sent[m.ID])
		}
	}
	d := other.dict(0, "q").words
	if d == nil {
		t.Fatal("there is no dictionary")
	}
	last := got[len(got)-1]
	if n := len(appendRecord(nil, last, packer{d, packFrom})); n > len(last.Payload)*3/4 {
		t.Errorf("a payload of %d bytes takes a record of %d", len(last.Payload), n)
	}
	b.deliver(src, got...)
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("123456"), []byte("payload"), "id", "tenant", []byte("key"))
	f.Fuzz(func(t *testing.T, raw, payload []byte, id, tenant string, key []byte) {
		if len(tenant) > maxTenant {
			return
		}
		var m tidemill.Message
		_, _ = readRecord(string(raw), &m, nil) // refusing is fine, panicking is not
		sent := tidemill.Message{ID: id, Tenant: tenant, Key: key, Payload: payload, Priority: byte(len(raw)), Time: time.UnixMilli(5).UTC()}
		rec := appendRecord(make([]byte, addedBytes), &sent, packer{})
		if _, err := readRecord(string(rec), &m, nil); err != nil {
			t.Fatal(err)
		}
		if m.ID != id || m.Tenant != tenant || !bytes.Equal(m.Key, key) || !bytes.Equal(m.Payload, payload) || m.Priority != sent.Priority || !m.Time.Equal(sent.Time) {
			t.Errorf("%+v came out as %+v", sent, m)
		}
		for i := range rec {
			_, _ = readRecord(string(rec[:i]), &m, nil)
		}
	})
}
