package kafkasink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/sink/kafkasink"
)

var committed = kgo.FetchIsolationLevel(kgo.ReadCommitted())

func transactions(t *testing.T, c *kafkaconn.Cluster, o kafkasink.TransactionOptions) *kafkasink.Transactions {
	t.Helper()
	all, err := kafkasink.NewTransactions(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	return all
}

func begin(t *testing.T, all *kafkasink.Transactions) *kafkasink.Transaction {
	t.Helper()
	x, err := all.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func numbered(to string, from, n int) []*tidemill.Message {
	batch := make([]*tidemill.Message, n)
	for i := range batch {
		batch[i] = &tidemill.Message{To: to, Key: fmt.Appendf(nil, "%d", from+i), Payload: fmt.Appendf(nil, "%d", from+i)}
	}
	return batch
}

func put(t *testing.T, x *kafkasink.Transaction, batch []*tidemill.Message) {
	t.Helper()
	if err := x.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, x *kafkasink.Transaction) {
	t.Helper()
	if err := x.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestATransactionAppearsWhollyOrNotAtAll(t *testing.T) {
	brokers := testenv.Kafka(t)
	to := topic(t, brokers, 3)
	all := transactions(t, through(t, brokers, nil), kafkasink.TransactionOptions{ID: testenv.Name("x-")})
	r := read(t, brokers, to, committed)

	x := begin(t, all)
	for page := range 5 {
		put(t, x, numbered(to, 100*page, 100))
	}
	if got := r.until(1, 2*time.Second); len(got) != 0 {
		t.Fatalf("%d records appeared before they were committed", len(got))
	}
	commit(t, x)
	if got := r.until(500, 20*time.Second); len(got) != 500 {
		t.Fatalf("%d records appeared, want 500", len(got))
	}

	x = begin(t, all)
	put(t, x, numbered(to, 1000, 100))
	x.Abort(t.Context())
	x.Abort(t.Context()) // once more does nothing
	if err := x.Write(t.Context(), numbered(to, 2000, 1)); tidemill.KindOf(err) != tidemill.Internal {
		t.Errorf("a transaction that has ended takes records: %v", err)
	}
	if err := x.Commit(t.Context()); tidemill.KindOf(err) != tidemill.Internal {
		t.Errorf("a transaction that has ended is committed: %v", err)
	}

	x = begin(t, all) // the next one goes on
	put(t, x, numbered(to, 3000, 1))
	commit(t, x)
	got := r.until(501, 20*time.Second)
	if len(got) != 501 || string(got[500].Value) != "3000" {
		t.Fatalf("%d records appeared, the last %q; want 501 and 3000", len(got), got[len(got)-1].Value)
	}
	if all := read(t, brokers, to).until(601, 20*time.Second); len(all) < 601 {
		t.Errorf("%d records are there, want the aborted ones too: the test shows nothing", len(all))
	}
}

func TestWhatCannotBeWrittenIsNotCommitted(t *testing.T) {
	brokers := testenv.Kafka(t)
	to := topic(t, brokers, 1)
	all := transactions(t, through(t, brokers, nil), kafkasink.TransactionOptions{ID: testenv.Name("x-")})
	x := begin(t, all)
	put(t, x, numbered(to, 0, 10))
	bad := numbered(to, 10, 2)
	bad[1].To = ""
	err := x.Write(t.Context(), bad)
	if partly, ok := errors.AsType[*tidemill.Partial](err); !ok || len(partly.Failed) != 1 || partly.Failed[0].Index != 1 {
		t.Fatalf("got %v", err)
	}
	if again := x.Commit(t.Context()); !errors.Is(again, err) {
		t.Fatalf("it was committed, or for another reason not: %v", again)
	}
	x = begin(t, all)
	put(t, x, numbered(to, 20, 1))
	commit(t, x)
	if got := read(t, brokers, to, committed).until(1, 20*time.Second); len(got) != 1 || string(got[0].Value) != "20" {
		t.Errorf("%d records appeared", len(got))
	}
}

func TestWhoComesBackEndsWhatItLeftOpen(t *testing.T) {
	brokers := testenv.Kafka(t)
	to, id := topic(t, brokers, 1), testenv.Name("x-")
	died := transactions(t, through(t, brokers, nil), kafkasink.TransactionOptions{ID: id})
	old := begin(t, died)
	put(t, old, numbered(to, 0, 10))

	now := transactions(t, through(t, brokers, nil), kafkasink.TransactionOptions{ID: id})
	x := begin(t, now)
	put(t, x, numbered(to, 100, 10))
	commit(t, x)
	r := read(t, brokers, to, committed)
	if got := r.until(10, 20*time.Second); len(got) != 10 || string(got[0].Value) != "100" { // an open one would hold them back for minutes
		t.Fatalf("%d records appeared, want the ten of the newer", len(got))
	}
	if err := old.Commit(t.Context()); err == nil {
		t.Fatal("who was shut out has committed")
	}
	x = begin(t, now)
	put(t, x, numbered(to, 200, 1))
	commit(t, x)
	if got := r.until(11, 20*time.Second); len(got) != 11 || string(got[10].Value) != "200" {
		t.Fatalf("%d records appeared, want eleven", len(got))
	}
}

func TestOfSeveralEachWaitsForAFreeWriter(t *testing.T) {
	brokers := testenv.Kafka(t)
	to := topic(t, brokers, 1)
	all := transactions(t, through(t, brokers, nil), kafkasink.TransactionOptions{ID: testenv.Name("x-"), AtOnce: 2})
	one, two := begin(t, all), begin(t, all)
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := all.Begin(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a third began: %v", err)
	}
	put(t, one, numbered(to, 0, 1))
	put(t, two, numbered(to, 1, 1))
	two.Abort(t.Context())
	three := begin(t, all)
	put(t, three, numbered(to, 2, 1))
	commit(t, three)
	commit(t, one)
	if got := read(t, brokers, to, committed).until(2, 20*time.Second); len(got) != 2 {
		t.Fatalf("%d records appeared, want 2", len(got))
	}
}

func TestABrokerThatIsAwaySpoilsATransactionAndNotTheNext(t *testing.T) {
	brokers := testenv.Kafka(t)
	to, link := topic(t, brokers, 1), testenv.NewLink(t, brokers[0])
	all := transactions(t, through(t, brokers, link), kafkasink.TransactionOptions{ID: testenv.Name("x-"), Options: kafkasink.Options{Within: 2 * time.Second}})
	x := begin(t, all)
	put(t, x, numbered(to, 0, 5))
	link.Refuse()
	brief, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := x.Write(brief, numbered(to, 5, 5)); err == nil {
		t.Fatal("what no broker has seen was said to be written")
	}
	link.Heal()
	x.Abort(t.Context())
	x = begin(t, all)
	put(t, x, numbered(to, 100, 5))
	commit(t, x)
	if got := read(t, brokers, to, committed).until(5, 30*time.Second); len(got) != 5 || string(got[0].Value) != "100" {
		t.Fatalf("%d records appeared, want the five of the second", len(got))
	}
}
