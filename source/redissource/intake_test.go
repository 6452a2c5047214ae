package redissource

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// endpoint is an intake on the table of one test, with the name of its own stream.
type endpoint struct {
	*testing.T
	in     *Intake
	stream string
}

func newEndpoint(t *testing.T, url string, capacity int) *endpoint {
	return &endpoint{t, NewIntake(redistest.Connect(t, url), IntakeOptions{Capacity: capacity}), testenv.Name("intake")}
}

func (d *endpoint) job(id string) *tidemill.Message {
	return &tidemill.Message{ID: id, To: d.stream, Payload: []byte("payload of " + id), Time: time.UnixMilli(1_700_000_000_000)}
}

func (d *endpoint) jobs(n int) []*tidemill.Message {
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = d.job(fmt.Sprint(i))
	}
	return ms
}

func (d *endpoint) want(want string, ms ...*tidemill.Message) {
	d.Helper()
	added := make([]queue.Added, len(ms))
	if err := d.in.Add(d.Context(), ms, added); err != nil {
		d.Fatal(err)
	}
	got := ""
	for _, a := range added {
		got += string("?nkf"[a])
	}
	if got != want {
		d.Fatalf("%d jobs became %q, want %q (new, known, full)", len(ms), got, want)
	}
}

func (d *endpoint) length(want int64) {
	d.Helper()
	if n, err := d.in.client.Do(d.Context(), d.in.client.B().Xlen().Key(d.stream).Build()).AsInt64(); err != nil || n != want {
		d.Fatalf("the stream holds %d entries (%v), want %d", n, err, want)
	}
}

// both runs a test against one server and a cluster.
func both(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("single", func(t *testing.T) { t.Parallel(); test(t, testenv.Redis(t)) })
	t.Run("cluster", func(t *testing.T) { t.Parallel(); test(t, testenv.RedisCluster(t)) })
}

func TestIntakeTakesAJobOnce(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		d := newEndpoint(t, url, 0)
		d.want("nnkkn", d.job("a"), d.job("b"), d.job("a"), d.job("a"), d.job("c"))
		d.want("k", d.job("b"))
		again := &endpoint{t, NewIntake(redistest.Connect(t, url), IntakeOptions{}), d.stream} // another connection
		again.want("kn", d.job("c"), d.job("d"))
		d.length(4)
	})
}

func TestIntakeTellsNamesApart(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		d := newEndpoint(t, url, 0)
		other := testenv.Name("intake")
		var ms []*tidemill.Message
		news, knowns := "", ""
		for _, tenant := range []string{"", "t", "u", "t\x00", "0190163d-8694-739b-aea5-966c26f8ad91"} {
			for _, to := range []string{d.stream, other} {
				m := d.job("same")
				m.Tenant, m.To = tenant, to
				ms = append(ms, m)
			}
		}
		split, joined := d.job("b"), d.job("ab")
		split.Tenant = "a"
		ms = append(ms, split, joined)
		for _, id := range []string{"1", "01", "1 ", "\x00", "\x00\x00", "\xff", "é", "e\u0301", string(bytes.Repeat([]byte("x"), 3000)), string(bytes.Repeat([]byte("x"), 2999))} {
			ms = append(ms, d.job(id))
		}
		for range ms {
			news, knowns = news+"n", knowns+"k"
		}
		d.want(news, ms...)
		d.want(knowns, ms...)
		d.length(5 + 2 + 10)
	})
}

func TestIntakeIsFull(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		d := newEndpoint(t, url, 3)
		d.want("nnnff", d.jobs(5)...)
		d.want("kkkf", d.jobs(4)...)
		if err := d.in.Add(t.Context(), d.jobs(5), nil); tidemill.KindOf(err) != tidemill.RateLimit {
			t.Errorf("without room for answers a full stream says %v", err)
		}
		if err := d.in.Add(t.Context(), d.jobs(3), nil); err != nil {
			t.Errorf("known jobs and a full stream: %v", err)
		}
		s, err := New(d.in.client, Options{Stream: d.stream, Consumer: "c"})
		if err != nil {
			t.Fatal(err)
		}
		into := []*tidemill.Message{new(tidemill.Message)}
		if _, err := s.Receive(t.Context(), into); err != nil {
			t.Fatal(err)
		}
		d.want("f", d.job("3"))
		if err := s.Settle(t.Context(), []tidemill.Settlement{{ID: into[0].ID, Mark: into[0].Mark, Fate: tidemill.Skipped}}); err != nil {
			t.Fatal(err)
		}
		d.want("knf", d.job("0"), d.job("3"), d.job("4"))
	})
}

func TestIntakeRefusesNonsense(t *testing.T) {
	t.Parallel()
	d := newEndpoint(t, testenv.Redis(t), 0)
	later := d.job("later")
	later.At = time.Now().Add(time.Hour)
	for _, m := range []*tidemill.Message{{ID: "a"}, {To: d.stream}, {ID: "a", To: "a}b"}, later} {
		if err := d.in.Add(t.Context(), []*tidemill.Message{m}, nil); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("adding %+v says %v, want kind validation", m, err)
		}
	}
	nowhere := NewIntake(d.in.client, IntakeOptions{Stream: func(string) string { return "" }})
	if err := nowhere.Add(t.Context(), d.jobs(1), nil); tidemill.KindOf(err) != tidemill.Validation {
		t.Errorf("a queue without a stream says %v", err)
	}
	if err := d.in.Add(t.Context(), d.jobs(2), make([]queue.Added, 1)); err == nil {
		t.Error("two jobs with room for one answer were taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.in.Add(ctx, d.jobs(1), nil); err == nil {
		t.Error("a job was added under a context that has ended")
	}
	d.length(0)
	if err := d.in.client.Do(t.Context(), d.in.client.B().Set().Key(d.stream).Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := d.in.Add(t.Context(), d.jobs(1), nil); tidemill.KindOf(err) != tidemill.Validation {
		t.Errorf("a key of the wrong type says %v", err)
	}
	if err := d.in.client.Do(t.Context(), d.in.client.B().Del().Key(d.stream).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	d.want("n", d.jobs(1)...) // what could not be added is not known
}

func TestIntakeTakesOneOfMany(t *testing.T) {
	t.Parallel()
	d := newEndpoint(t, testenv.Redis(t), 0)
	var all sync.WaitGroup
	for c := range 8 {
		in := NewIntake(redistest.Connect(t, testenv.Redis(t)), IntakeOptions{})
		all.Go(func() {
			ms := d.jobs(400)
			slices.Reverse(ms[:c*50])
			if err := in.Add(t.Context(), ms, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.length(400)
}

func TestIntakeAfterLostAnswers(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, s.Addr)
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret("redis://"+link.Addr), redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	d := newEndpoint(t, s.URL, 0)
	in := NewIntake(client, IntakeOptions{})
	lost := 0
	for round := range 10 {
		ms := make([]*tidemill.Message, 300)
		for i := range ms {
			ms[i] = d.job(fmt.Sprint(round, "/", i))
			if i%2 == 1 {
				ms[i].To = d.stream + "2"
			}
		}
		link.LoseAnswers(round)
		for in.Add(t.Context(), ms, nil) != nil {
			lost++
			link.Heal()
		}
		link.Heal()
	}
	d.length(1500)
	d.stream += "2"
	d.length(1500)
	if lost < 5 {
		t.Errorf("%d answers were lost: the test is vacuous", lost)
	}
}

// Names are forgotten by time: the keys say when.
func TestIntakeRemembersForADay(t *testing.T) {
	t.Parallel()
	d := newEndpoint(t, testenv.Start(t, testenv.PrivateRedis).URL, 0) // KEYS would hold up others
	d.want("nnn", d.jobs(3)...)
	keys, err := d.in.client.Do(t.Context(), d.in.client.B().Keys().Pattern("{"+d.stream+"}:known*").Build()).AsStrSlice()
	if err != nil || len(keys) < 2 {
		t.Fatalf("keys are %q, %v", keys, err)
	}
	for _, k := range keys {
		ms, err := d.in.client.Do(t.Context(), d.in.client.B().Pttl().Key(k).Build()).AsInt64()
		if ttl := time.Duration(ms) * time.Millisecond; err != nil || ttl < queue.Remember || ttl > 2*queue.Remember {
			t.Errorf("%s lasts for %v (%v), want %v at least", k, ttl, err, queue.Remember)
		}
	}
	// A name of the period before last is known, one of the period before that is not.
	now, err := d.in.client.Do(t.Context(), d.in.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	known, period := "{"+d.stream+"}:known", now[0]/int64(queue.Remember.Seconds()/2)
	for age, want := range []string{2: "k", 3: "n"} {
		if want == "" {
			continue
		}
		name := string(appendName(nil, d.job(want)))
		hash := int64(name[0]) | int64(name[1])<<8 | int64(name[2])<<16
		at := period - int64(age)
		for _, cmd := range []rueidis.Completed{
			d.in.client.B().Hset().Key(known).FieldValue().FieldValue(fmt.Sprint("s", at), "4096").Build(),
			d.in.client.B().Hset().Key(fmt.Sprint(known, ":", at, ":", hash%4096)).FieldValue().FieldValue(name, "").Build(),
		} {
			if err := d.in.client.Do(t.Context(), cmd).Error(); err != nil {
				t.Fatal(err)
			}
		}
		d.want(want, d.job(want))
	}
}

func TestForeignEntriesAreEventsToo(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	const project = "33333333-3333-4333-8333-333333333333"
	b.do("XADD", b.stream, "1700000000000-7", "project_id", project, "event_name", "flat", "distinct_id", "d", "properties", `{"a":12345678901234567890}`)
	b.do("XADD", b.stream, "*", "data", `{"project_id":"`+project+`","event_name":"json","distinct_id":"d","timestamp":"2024-01-02T03:04:05Z"}`)
	s := b.open(b.client, Options{})
	for i, m := range b.take(s, 2, soon) {
		var e event.Event
		if err := event.DecodeMessage(m, event.Clock{}, &e); err != nil {
			t.Fatal(err)
		}
		want := [...]struct{ name, time, payload string }{
			{"flat", "2023-11-14T22:13:20Z", ""}, {"json", "2024-01-02T03:04:05Z", string(m.Header[0].Value)},
		}[i]
		if e.Name != want.name || e.Timestamp.Format(time.RFC3339) != want.time || string(m.Payload) != want.payload || e.Project.String() != project {
			t.Errorf("entry %d is %q at %v with payload %q; want %+v", i, e.Name, e.Timestamp, m.Payload, want)
		}
		if i == 0 && (m.ID != "1700000000000-7" || m.Mark.Hi != 1700000000000 || m.Mark.Lo != 7 || m.To != b.stream) {
			t.Errorf("entry is %+v", m)
		}
	}
}
