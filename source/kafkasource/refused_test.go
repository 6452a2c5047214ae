package kafkasource_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// refusing is a world whose brokers are in this process, and answer what a test wants.
func refusing(t *testing.T) (*kfake.Cluster, *world) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return fake, newWorld(t, fake.ListenAddrs(), 1)
}

// A commit that the group refuses because of its generation is not durable: it is sent again
// while there is time, and nothing is Applied before it is taken.
func TestACommitOfAnOldGenerationIsNotApplied(t *testing.T) {
	t.Parallel()
	fake, w := refusing(t)
	s, other := w.source(kafkasource.Options{}), w.source(kafkasource.Options{})
	w.number(0, 4)
	got := receive(t, s, 4, 10*time.Second)

	once := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: w.group, Err: kerr.IllegalGeneration})
	settle(t, s, tidemill.Applied, delivered(got[0])...)
	if once.Hits() != 1 {
		t.Fatalf("%d commits were refused, want one", once.Hits())
	}
	w.books(other, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 1}, Pending: 3})

	always := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: w.group, Err: kerr.IllegalGeneration, Count: -1})
	ends := delivered(got[1:]...)
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Settle(brief, ends); err == nil || always.Hits() == 0 {
		t.Fatalf("after %d refusals Settle says %v", always.Hits(), err)
	}
	for i := range ends {
		if ends[i].Outcome != tidemill.Unanswered {
			t.Fatalf("settlement %d was taken as %d while its commit is refused, want unanswered", i, ends[i].Outcome)
		}
	}
	w.books(other, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 1}, Pending: 3})
	always.Remove()
	settle(t, s, tidemill.Applied, ends...)
	w.books(other, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 4}})
}

// A commit arrives and its answer does not, and then the member loses its partitions and has
// them again: what was settled does not come again, and its settlement is Applied.
func TestACommitThatArrivedBeforeThePartitionWasLost(t *testing.T) {
	t.Parallel()
	fake, w := refusing(t)
	s, other := w.source(kafkasource.Options{}), w.source(kafkasource.Options{})
	w.number(0, 4)
	got := receive(t, s, 4, 10*time.Second)

	lost := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: w.group, Err: kerr.RequestTimedOut, Count: -1})
	ends := delivered(got[:2]...)
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Settle(brief, ends); err == nil || ends[0].Outcome != tidemill.Unanswered {
		t.Fatalf("without an answer the settlement was taken as %d, %v", ends[0].Outcome, err)
	}
	w.books(other, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 2}, Pending: 2})
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: w.group, Err: kerr.UnknownMemberID})
	lost.Remove()
	back := receive(t, s, 2, 20*time.Second) // of the new generation
	for err := error(nil); ; {
		if err = s.Settle(t.Context(), ends); err == nil {
			break
		}
	}
	for i := range ends {
		if ends[i].Outcome != tidemill.Applied {
			t.Errorf("settlement %d was taken as %d, want applied: it is in the books", i, ends[i].Outcome)
		}
	}
	settle(t, s, tidemill.Stale, delivered(got[0])...)
	settle(t, s, tidemill.Applied, delivered(back...)...)
	w.books(other, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 4}})
}
