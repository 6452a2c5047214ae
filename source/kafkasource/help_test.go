package kafkasource_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// A world is one topic and one group that no other test has.
type world struct {
	t       testing.TB
	brokers []string
	cluster *kafkaconn.Cluster
	topic   string
	group   string
	admin   *kadm.Client
	client  *kgo.Client // writes, asks
	intake  *kafkasource.Intake

	mu   sync.Mutex // guards open
	open []*kafkasource.Source
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

func cluster(t testing.TB, brokers []string, d dial) *kafkaconn.Cluster {
	t.Helper()
	c, err := kafkaconn.Parse(strings.Join(brokers, ","), kafkaconn.Options{Dial: d})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// brokers are the real ones where real servers are used, else one that speaks the protocol
// in this process.
func brokers(t testing.TB) []string {
	t.Helper()
	if testenv.Enabled(t) {
		return testenv.Kafka(t)
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return fake.ListenAddrs()
}

func newWorld(t testing.TB, brokers []string, partitions int32) *world {
	t.Helper()
	w := newWorldOn(t, cluster(t, brokers, nil), partitions)
	w.brokers = brokers
	return w
}

func newWorldOn(t testing.TB, cluster *kafkaconn.Cluster, partitions int32) *world {
	t.Helper()
	client, err := cluster.Client(append(kafkasource.Producer(), kgo.ProducerBatchMaxBytes(4<<20))...)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cluster: cluster, client: client, admin: kadm.NewClient(client), topic: testenv.Name("t-"), group: testenv.Name("g-")}
	t.Cleanup(func() {
		w.each((*kafkasource.Source).Kill)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = w.admin.DeleteTopics(ctx, w.topic)
		_, _ = w.admin.DeleteGroups(ctx, w.group)
		client.Close()
	})
	w.create(partitions)
	if w.intake, err = kafkasource.NewIntake(client, kafkasource.IntakeOptions{Topic: func(string) string { return w.topic }}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) create(partitions int32) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	large := "4194304"
	resp, err := w.admin.CreateTopics(ctx, partitions, 1, map[string]*string{"max.message.bytes": &large}, w.topic)
	if err == nil {
		err = resp.Error()
	}
	for ctx.Err() == nil && err == nil { // until every partition has a leader
		var ends kadm.ListedOffsets
		if ends, err = w.admin.ListEndOffsets(ctx, w.topic); err == nil && ends.Error() == nil && len(ends[w.topic]) == int(partitions) {
			return
		}
		err = nil
		time.Sleep(poll)
	}
	w.t.Fatalf("create topic %s: %v", w.topic, err)
}

// each takes every open source away and does something with it.
func (w *world) each(do func(*kafkasource.Source)) {
	w.mu.Lock()
	open := w.open
	w.open = nil
	w.mu.Unlock()
	for _, s := range open {
		do(s)
	}
}

// source opens one more member.
func (w *world) source(o kafkasource.Options) *kafkasource.Source {
	w.t.Helper()
	if o.Session == 0 {
		o.Session = 6 * time.Second // the least that brokers take
	}
	s, err := kafkasource.New(w.cluster, w.topic, w.group, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.open = append(w.open, s)
	w.mu.Unlock()
	return s
}

func (w *world) add(ms ...*tidemill.Message) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, m := range ms {
		m.To = "queue"
	}
	if err := w.intake.Add(ctx, ms, nil); err != nil {
		w.t.Fatal(err)
	}
}

// number adds messages with the payloads from, from+1 … to-1.
func (w *world) number(from, to int) {
	w.t.Helper()
	ms := make([]*tidemill.Message, 0, to-from)
	for i := from; i < to; i++ {
		ms = append(ms, &tidemill.Message{ID: fmt.Sprintf("id-%06d", i), Key: fmt.Appendf(nil, "key-%d", i), Payload: fmt.Appendf(nil, "%d", i)})
	}
	w.add(ms...)
}

// books must become as wanted.
func (w *world) books(s *kafkasource.Source, want tidemill.Books) {
	w.t.Helper()
	var got tidemill.Books
	var err error
	for end := time.Now().Add(busy); time.Now().Before(end); time.Sleep(poll) {
		if got, err = s.Books(w.t.Context()); err == nil && got == want {
			return
		}
	}
	w.t.Fatalf("books are\n%+v, %v; want\n%+v", got, err, want)
}

const (
	busy = time.Minute           // how much later a busy machine may be with what is right
	poll = 20 * time.Millisecond // between questions to a broker: forty tests that ask without a pause leave it no time to answer
)

// receive gets exactly n messages within d; on a busy machine they may come later.
func receive(t testing.TB, s tidemill.Source, n int, d time.Duration) []*tidemill.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d+busy)
	defer cancel()
	var all []*tidemill.Message
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := s.Receive(ctx, into)
		all = append(all, into[:got]...)
		if ctx.Err() != nil {
			t.Fatalf("received %d messages within %v, want %d: %v", len(all), d+busy, n, err)
		}
	}
	return all
}

func delivered(ms ...*tidemill.Message) []tidemill.Settlement {
	ends := make([]tidemill.Settlement, len(ms))
	for i, m := range ms {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
	}
	return ends
}

func settle(t testing.TB, s tidemill.Source, want tidemill.Outcome, ends ...tidemill.Settlement) {
	t.Helper()
	if err := s.Settle(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	for i := range ends {
		if ends[i].Outcome != want {
			t.Fatalf("settlement %d (%s) was taken as %d, want %d", i, ends[i].ID, ends[i].Outcome, want)
		}
	}
}
