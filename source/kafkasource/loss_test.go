package kafkasource_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// losses collects what a source says is gone.
type losses struct {
	mu  sync.Mutex // guards all
	all []kafkasource.Loss
}

func (l *losses) note(x kafkasource.Loss) { l.mu.Lock(); defer l.mu.Unlock(); l.all = append(l.all, x) }

func (l *losses) records() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.all {
		n += x.Records
	}
	return n
}

// deleteBefore deletes the records of partition 0 below an offset.
func (w *world) deleteBefore(at int64) {
	w.t.Helper()
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: w.topic, Partition: 0, At: at})
	resp, err := w.admin.DeleteRecords(w.t.Context(), os)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// complaint receives until the source says what is wrong with a word of it in it.
func complaint(t *testing.T, s tidemill.Source, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for {
		n, err := s.Receive(ctx, []*tidemill.Message{new(tidemill.Message)})
		if err != nil && strings.Contains(err.Error(), word) {
			return
		}
		if n > 0 || ctx.Err() != nil {
			t.Fatalf("received %d, %v; want an error with %q", n, err, word)
		}
	}
}

func TestRecordsDeletedUnreadStopTheSourceUntilSomebodyDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	w.number(0, 100)
	s := w.source(kafkasource.Options{})
	got := receive(t, s, 30, 10*time.Second)
	settle(t, s, tidemill.Applied, delivered(got[:20]...)...)
	settle(t, s, tidemill.Applied, delivered(got[25:28]...)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w.deleteBefore(60) // 20 to 59 had not ended, but for 25, 26 and 27
	lost := tidemill.Books{Accepted: 100, Settled: tidemill.Count{Delivered: 23}, Pending: 40, Lost: 37}

	var seen losses
	s = w.source(kafkasource.Options{Lost: seen.note})
	complaint(t, s, "37 records of partition 0")
	complaint(t, s, "37 records of partition 0") // each time
	w.books(s, lost)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = w.source(kafkasource.Options{OnLost: kafkasource.Continue, Lost: seen.note})
	got = receive(t, s, 40, 10*time.Second)
	if string(got[0].Payload) != "60" || got[0].Handed != 2 && got[0].Handed != 1 {
		t.Fatalf("it goes on with %s, handed out %d times", got[0].Payload, got[0].Handed)
	}
	settle(t, s, tidemill.Applied, delivered(got...)...)
	lost.Settled.Delivered, lost.Pending = 63, 0
	w.books(s, lost)
	if n := seen.records(); n != 2*37 {
		t.Fatalf("losses of %d records were told, want 37 by each", n)
	}
}

// Deleted while the member reads: what it has read already is not lost.
func TestRecordsDeletedUnderAReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	w.number(0, 1000)
	var seen losses
	s := w.source(kafkasource.Options{OnLost: kafkasource.Continue, Lost: seen.note, Buffer: 10, MaxAhead: 20})
	got := receive(t, s, 5, 10*time.Second)
	w.deleteBefore(500)
	settle(t, s, tidemill.Applied, delivered(got...)...)
	applied := uint64(5)
	for b := (tidemill.Books{Pending: 1}); b.Pending > 0; {
		for _, m := range try(t, s, 10, 100*time.Millisecond) {
			end := delivered(m)
			if err := s.Settle(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			if end[0].Outcome == tidemill.Applied {
				applied++
			}
		}
		var err error
		if b, err = s.Books(t.Context()); err != nil || b.Off() != 0 {
			t.Fatalf("books are %+v, %v", b, err)
		}
	}
	if applied < 505 || applied+seen.records() != 1000 {
		t.Fatalf("%d were applied and %d lost, of 1000", applied, seen.records())
	}
	w.books(s, tidemill.Books{Accepted: 1000, Settled: tidemill.Count{Delivered: applied}, Lost: seen.records()})
}

func TestATopicMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	w.number(0, 100)
	var seen losses
	s := w.source(kafkasource.Options{OnLost: kafkasource.Continue, Lost: seen.note, Drain: 100 * time.Millisecond})
	got := receive(t, s, 100, 10*time.Second)
	settle(t, s, tidemill.Applied, delivered(got[:40]...)...)
	old := map[string]bool{}
	newest := uint64(0)
	for _, m := range got {
		if old[m.ID] = true; s.Version(m) <= newest {
			t.Fatalf("offset %d has version %d, the one before %d", m.Mark.Lo, s.Version(m), newest)
		}
		newest = s.Version(m)
	}
	if resp, err := w.admin.DeleteTopics(t.Context(), w.topic); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	for gone := false; !gone; { // the broker is told of both at once otherwise, and answers for a while as if it had neither
		all, err := w.admin.ListTopics(t.Context(), w.topic)
		if err != nil {
			t.Fatal(err)
		}
		gone = all[w.topic].Err != nil
	}
	w.create(1)
	client, err := w.cluster.Client() // one that never knew the old topic
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 7 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: w.topic, Value: []byte("new")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range receive(t, s, 7, 30*time.Second) {
		if string(m.Payload) != "new" || old[m.ID] || m.Mark.At(got[0].Mark) || m.Handed != 1 {
			t.Errorf("%s at %+v holds %q, handed out %d times; want a new one", m.ID, m.Mark, m.Payload, m.Handed)
		}
		if s.Version(m) <= newest {
			t.Errorf("it has version %d, and one of the topic before %d", s.Version(m), newest)
		}
		settle(t, s, tidemill.Applied, delivered(m)...)
	}
	settle(t, s, tidemill.Stale, delivered(got[50])...)
	if seen.records() != 60 {
		t.Errorf("%d records were told to be lost, want 60", seen.records())
	}
	w.books(s, tidemill.Books{Accepted: 107, Settled: tidemill.Count{Delivered: 47}, Lost: 60})
}

func TestATransactionThatIsRolledBackIsAGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	writer, err := w.cluster.Client(kgo.TransactionalID(testenv.Name("tx-")), kgo.DefaultProduceTopic(w.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	transaction := func(n int, end kgo.TransactionEndTry) {
		t.Helper()
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := writer.ProduceSync(t.Context(), &kgo.Record{Value: []byte{'0' + byte(n)}}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := writer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	s := w.source(kafkasource.Options{})
	transaction(3, kgo.TryCommit)
	transaction(5, kgo.TryAbort)
	transaction(2, kgo.TryCommit)
	got := receive(t, s, 5, 10*time.Second)
	payloads := ""
	for _, m := range got {
		payloads += string(m.Payload)
	}
	if payloads != "33322" {
		t.Fatalf("received %q, want what was committed: 33322", payloads)
	}
	settle(t, s, tidemill.Applied, delivered(got...)...)
	w.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
	transaction(4, kgo.TryAbort)
	if more := try(t, s, 1, 300*time.Millisecond); len(more) > 0 {
		t.Fatalf("%q was rolled back and handed out", more[0].Payload)
	}
	w.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}}) // without a settlement
}

// Somebody else's group goes on where it stands.
func TestAnotherConsumersGroupIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	w.number(0, 10)
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: w.topic, Partition: 0, At: 4, LeaderEpoch: -1, Metadata: "theirs"})
	if err := w.admin.CommitAllOffsets(t.Context(), w.group, os); err != nil {
		t.Fatal(err)
	}
	s := w.source(kafkasource.Options{})
	got := receive(t, s, 6, 10*time.Second)
	if string(got[0].Payload) != "4" {
		t.Fatalf("it goes on with %s, want 4", got[0].Payload)
	}
	settle(t, s, tidemill.Applied, delivered(got...)...)
	w.books(s, tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 6}})
}
