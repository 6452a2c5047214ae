package redisdeadletter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
)

// keys of a stream and its companions.
func keys(stream string) []string {
	all := []string{stream}
	for _, k := range []string{"seq", "mark", "ids", "meta", "history", "order", "deaths", "known", "group", "died", "causes", "pipelines"} {
		all = append(all, "{"+stream+"}:"+k)
	}
	for _, p := range []string{"p", "q", "analytics"} {
		for _, k := range []string{"held", "ready", "later", "books", "wakes", "groups", "owners"} {
			all = append(all, "{"+stream+"}:"+k+":"+p)
		}
	}
	return all
}

// remove deletes a stream and its companions.
func remove(t *testing.T, client rueidis.Client, stream string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := client.Do(ctx, client.B().Del().Key(keys(stream)...).Build()).Error(); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// letters is a store on its own stream, with what a test does to it.
type letters struct {
	*testing.T
	client rueidis.Client
	stream string
	*redisdeadletter.Store
}

func onOne(t *testing.T) *letters {
	t.Helper()
	l := &letters{T: t, client: redistest.Connect(t, testenv.Redis(t)), stream: testenv.Name("dlq:")}
	t.Cleanup(func() { remove(t, l.client, l.stream) })
	l.open()
	return l
}

func (l *letters) open() {
	l.Helper()
	var err error
	if l.Store, err = redisdeadletter.New(l.Context(), l.client, redisdeadletter.Options{Stream: l.stream, Pipeline: "p"}); err != nil {
		l.Fatal(err)
	}
}

// do runs a command as another program would.
func (l *letters) do(command ...string) rueidis.RedisResult {
	l.Helper()
	r := l.client.Do(l.Context(), l.client.B().Arbitrary(command...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		l.Fatalf("%q: %v", command, err)
	}
	return r
}

func (l *letters) entries() []rueidis.XRangeEntry {
	l.Helper()
	es, err := l.do("XRANGE", l.stream, "-", "+").AsXRange()
	if err != nil {
		l.Fatal(err)
	}
	return es
}

func (l *letters) put(id, payload string, row []byte) {
	l.Helper()
	if err := l.Put(l.Context(), []tidemill.DeadLetter{{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500", Tries: 3, Row: row, At: time.Now(),
		Message: &tidemill.Message{ID: id, Tenant: "t", Payload: []byte(payload), Mark: tidemill.Mark{Hi: 1, Lo: 2}}}}); err != nil {
		l.Fatal(err)
	}
}

func (l *letters) list() (all []*deadletter.Letter) {
	l.Helper()
	for x, err := range l.List(l.Context(), deadletter.Filter{}) {
		if err != nil {
			l.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func (l *letters) replay(want int) {
	l.Helper()
	if n, err := l.Replay(l.Context(), deadletter.Filter{}); n != want || err != nil {
		l.Fatalf("Replay: %d, %v; want %d", n, err, want)
	}
}

// received is what a source hands out at once.
func (l *letters) received(s tidemill.Source) []*tidemill.Message {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Second)
	defer cancel()
	into := []*tidemill.Message{{}, {}, {}, {}}
	n, err := s.Receive(ctx, into)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		l.Fatal(err)
	}
	return into[:n]
}

func (l *letters) deliver(s tidemill.Source, ms ...*tidemill.Message) {
	l.Helper()
	for _, m := range ms {
		e := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}
		if err := s.Settle(l.Context(), e); err != nil || e[0].Outcome != tidemill.Applied {
			l.Fatalf("Settle: %v, took %d", err, e[0].Outcome)
		}
	}
}

func (l *letters) booked(want tidemill.Books) {
	l.Helper()
	got, err := l.Open("p").(tidemill.Bookkeeper).Books(l.Context())
	if err != nil || got != want || got.Off() != 0 {
		l.Errorf("books %+v, %v; want %+v", got, err, want)
	}
}

func TestOtherReadersFindTheRowInData(t *testing.T) {
	l := onOne(t)
	l.put("row", "as received \x00", []byte(`{"event_id":"1"}`))
	l.put("object", ` {"a":1,"a":12345678901234567890}`, nil)
	l.put("neither", `[1]`, nil)
	l.put("same", `{"b":2}`, []byte(`{"b":2}`))
	for i, want := range []map[string]string{
		{"data": `{"event_id":"1"}`, "payload": "as received \x00", "id": "row", "reason": "partner_error", "error": "answered 500", "attempts": "3"},
		{"data": ` {"a":1,"a":12345678901234567890}`, "id": "object"},
		{"data": `{}`, "payload": `[1]`, "id": "neither"},
		{"data": `{"b":2}`, "id": "same"},
	} {
		got := l.entries()[i].FieldValues
		for k, v := range want {
			if got[k] != v {
				t.Errorf("entry %d: %s is %q, want %q", i, k, got[k], v)
			}
		}
		if _, ok := got["payload"]; ok && want["payload"] == "" {
			t.Errorf("entry %d has its payload twice", i)
		}
	}
	for i, want := range []struct{ payload, row string }{{"as received \x00", `{"event_id":"1"}`}, {` {"a":1,"a":12345678901234567890}`, ""}, {`[1]`, ""}, {`{"b":2}`, `{"b":2}`}} {
		if got := l.list()[i]; string(got.Payload) != want.payload || string(got.Row) != want.row || got.Damaged != "" {
			t.Errorf("letter %d: payload %q, row %q, %s; want %+v", i, got.Payload, got.Row, got.Damaged, want)
		}
	}
	l.put("row", "again", nil)
	if es := l.entries(); len(es) != 4 || es[3].FieldValues["id"] != "row" {
		t.Errorf("%d entries, the last %v; want the old one of what died again gone", len(es), es[3])
	}
}

func TestEntriesOfOtherProgramsAreLetters(t *testing.T) {
	l := onOne(t)
	row := `{"project_id":"33333333-3333-4333-8333-333333333333","event_name":"view","n":12345678901234567890}`
	id, err := l.do("XADD", l.stream, "*", "data", row).ToString()
	if err != nil {
		t.Fatal(err)
	}
	l.put("ours", "x", nil)
	l.do("XADD", l.stream, "*", "data", row) // the same row dead twice: never lost
	l.do("XADD", l.stream, "*", "junk", "1")
	l.booked(tidemill.Books{Accepted: 4, Pending: 4})
	got := map[string]*deadletter.Letter{}
	for _, x := range l.list() {
		got[x.ID] = x
	}
	if x := got[id]; len(got) != 4 || x == nil || string(x.Payload) != row || string(x.Row) != row || x.Pipeline != "p" || x.Type != "view" ||
		x.Tenant != "33333333-3333-4333-8333-333333333333" || x.State != deadletter.Held || x.Cause == "" || x.Kind != tidemill.Transient {
		t.Errorf("%d letters, it is %+v", len(got), x)
	}
	l.open() // does not find them twice
	l.booked(tidemill.Books{Accepted: 4, Pending: 4})
	l.replay(4)
	s := l.Open("p")
	ms := l.received(s)
	if len(ms) != 4 {
		t.Fatalf("received %d, want 4", len(ms))
	}
	for _, m := range ms {
		if m.ID == id && (string(m.Payload) != row || string(m.Get(deadletter.RowHeader)) != row) {
			t.Errorf("received %+v", m)
		}
	}
	dead := []tidemill.Settlement{{ID: ms[0].ID, Mark: ms[0].Mark, Fate: tidemill.Dead, Kind: tidemill.Partner, Cause: "again"}}
	if err := s.Settle(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	l.deliver(s, ms[1:]...)
	if x := l.list(); len(x) != 1 || x[0].Replays != 1 || x[0].Cause != "again" || x[0].Damaged != "" {
		t.Errorf("left: %+v", x)
	}
	if n := len(l.entries()); n != 1 {
		t.Errorf("%d entries, want those gone that are done", n)
	}
	l.booked(tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 3}, Pending: 1})
}

// A stream's name may be that of a key of another program.
func TestAKeyThatIsNoStreamGetsNothing(t *testing.T) {
	l := onOne(t)
	l.do("SET", l.stream, "of another program")
	letters := []tidemill.DeadLetter{{Pipeline: "p", Kind: tidemill.Partner, Message: &tidemill.Message{ID: "a", Payload: []byte("x")}}}
	for range 3 {
		if err := l.Put(t.Context(), letters); err == nil {
			t.Fatal("a letter was put where no stream is")
		}
	}
	l.do("DEL", l.stream)
	if err := l.Put(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	l.booked(tidemill.Books{Accepted: 1, Pending: 1})
}

func TestManyEntriesOfOthersAreAllFound(t *testing.T) {
	l := onOne(t)
	const n = 1234
	cmds := make(rueidis.Commands, n)
	for i := range cmds {
		cmds[i] = l.client.B().Xadd().Key(l.stream).Id("*").FieldValue().FieldValue("data", "{}").Build()
	}
	for _, r := range l.client.DoMulti(t.Context(), cmds...) {
		if r.Error() != nil {
			t.Fatal(r.Error())
		}
	}
	var g sync.WaitGroup
	for range 4 { // several instances look at once
		g.Go(func() {
			if k, err := l.Count(t.Context(), deadletter.Filter{}); err != nil || k != n {
				t.Errorf("Count: %d, %v; want %d", k, err, n)
			}
		})
	}
	g.Wait()
	l.booked(tidemill.Books{Accepted: n, Pending: n})
}

func TestLostCompanionsAreMadeAnewFromTheStream(t *testing.T) {
	l := onOne(t)
	l.put("a", "one\x00\xff", []byte(`{"r":1}`))
	l.put("b", "two", nil)
	before := l.list()
	l.do(append([]string{"DEL"}, keys(l.stream)[1:]...)...)
	after := l.list()
	if len(after) != 2 {
		t.Fatalf("%d letters, want 2", len(after))
	}
	for i, want := range before {
		if got := after[i]; fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", *want) {
			t.Errorf("got  %+v\nwant %+v", *got, *want)
		}
	}
	l.put("c", "three", nil)
	if x := l.list(); x[2].Seq <= x[1].Seq {
		t.Errorf("Seq %d after %d", x[2].Seq, x[1].Seq)
	}
	l.booked(tidemill.Books{Accepted: 3, Pending: 3})
}

func TestWhatIsNotWhatWasWrittenIsNeverReplayed(t *testing.T) {
	for name, do := range map[string]func(l *letters, e rueidis.XRangeEntry){
		"its entry was removed": func(l *letters, e rueidis.XRangeEntry) { l.do("XDEL", l.stream, e.ID) },
		"another payload":       func(l *letters, e rueidis.XRangeEntry) { rewrite(l, e, "payload", "other") },
		"another row":           func(l *letters, e rueidis.XRangeEntry) { rewrite(l, e, "data", "{}") },
		"no rest":               func(l *letters, e rueidis.XRangeEntry) { rewrite(l, e, "letter", "\x01") },
		"another checksum": func(l *letters, e rueidis.XRangeEntry) {
			rewrite(l, e, "letter", e.FieldValues["letter"][:len(e.FieldValues["letter"])-1]+"x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := onOne(t)
			l.put("a", "one", []byte(`{"r":1}`))
			do(l, l.entries()[0])
			l.put("b", "two", nil)
			x := l.list()
			if len(x) != 2 || x[0].Damaged == "" || x[0].ID != "a" || x[1].Damaged != "" {
				t.Fatalf("listed as %+v", x)
			}
			l.replay(2)
			s := l.Open("p")
			if ms := l.received(s); len(ms) != 1 || ms[0].ID != "b" {
				t.Fatalf("received %d", len(ms))
			}
			if x := l.list()[0]; x.State != deadletter.Held || x.Kind != tidemill.Internal || len(x.History) != 2 {
				t.Errorf("after the replay: %+v", x)
			}
			l.replay(0)
			if n, err := l.Delete(t.Context(), deadletter.Filter{IDs: []string{"a"}}); n != 1 || err != nil {
				t.Errorf("Delete: %d, %v", n, err)
			}
			l.booked(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Skipped: 1}, Pending: 1})
		})
	}
}

// rewrite writes an entry anew with one field changed: the only one, so that its id can be
// given again.
func rewrite(l *letters, e rueidis.XRangeEntry, field, value string) {
	l.Helper()
	e.FieldValues[field] = value
	command := []string{"XADD", l.stream, e.ID}
	for k, v := range e.FieldValues {
		command = append(command, k, v)
	}
	l.do("DEL", l.stream)
	l.do(command...)
}

func TestAReplayWakesASourceOfAnotherInstance(t *testing.T) {
	l := onOne(t)
	other := &letters{T: t, client: redistest.Connect(t, testenv.Redis(t)), stream: l.stream}
	other.open()
	l.put("a", "one", nil)
	got := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		s := other.Open("p")
		if _, err := s.Receive(t.Context(), []*tidemill.Message{{}}); err != nil {
			t.Error(err)
		}
		close(got)
	})
	for { // until it waits: then nothing but the wake can make it look
		info, err := l.do("CLIENT", "LIST", "TYPE", "normal").ToString()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, "cmd=xread") {
			break
		}
	}
	l.replay(1)
	<-got
	g.Wait()
}

// With any answer, each dead letter is put once, and ended once.
func TestAConnectionThatBreaksLosesAndDoublesNothing(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, server.Addr)
	broken := &letters{T: t, client: redistest.Connect(t, "redis://"+link.Addr), stream: "events:dlq"}
	sound := &letters{T: t, client: redistest.Connect(t, server.URL), stream: "events:dlq"}
	broken.open()
	sound.open()
	const n = 40
	lost := 0
	for i := range n {
		l := []tidemill.DeadLetter{{Pipeline: "p", Cause: "c", At: time.UnixMilli(int64(i) + 1), Message: &tidemill.Message{ID: fmt.Sprint("id", i), Mark: tidemill.Mark{Lo: uint64(i)}}}}
		if i%4 == 0 {
			link.LoseAnswers(1)
		}
		for { // as the engine does it
			err := broken.Put(t.Context(), l)
			if err == nil {
				break
			}
			if k := tidemill.KindOf(err); k != tidemill.Transient && k != tidemill.Timeout {
				t.Fatalf("Put: %v of kind %v", err, k)
			}
			lost++
			link.Heal()
		}
		link.Heal()
	}
	sound.booked(tidemill.Books{Accepted: n, Pending: n})
	for i, x := range sound.list() {
		if len(x.History) != 1 || x.ID != fmt.Sprint("id", i) {
			t.Errorf("letter %s with %d failures", x.ID, len(x.History))
		}
	}
	sound.replay(n)
	s := sound.Open("p")
	for done := 0; done < n; {
		ms := sound.received(s)
		sound.deliver(s, ms...)
		done += len(ms)
	}
	sound.booked(tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}})
	if lost == 0 {
		t.Error("no answer was lost: nothing was tested")
	}
	t.Logf("%d answers were lost", lost)
}
