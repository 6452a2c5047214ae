package kafkasource_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/kafkasource"
	"github.com/tidemill/tidemill/state/queue"
)

func TestIntakeSaysWhatItKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	in, err := kafkasource.NewIntake(w.client, kafkasource.IntakeOptions{
		Topic: func(string) string { return w.topic },
		Seen: func(_ context.Context, jobs []*tidemill.Message, seen []bool) error {
			for i, m := range jobs {
				seen[i] = m.ID == "old"
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	job := func(tenant, id string) *tidemill.Message {
		return &tidemill.Message{To: "q", Tenant: tenant, ID: id, Payload: []byte(id)}
	}
	added := make([]queue.Added, 5)
	if err := in.Add(t.Context(), []*tidemill.Message{job("a", "1"), job("a", "old"), job("a", "1"), job("b", "1"), job("a", "2")}, added); err != nil {
		t.Fatal(err)
	}
	for i, want := range []queue.Added{queue.New, queue.Known, queue.Known, queue.New, queue.New} {
		if added[i] != want {
			t.Errorf("job %d is %d, want %d", i, added[i], want)
		}
	}
	s := w.source(kafkasource.Options{})
	settle(t, s, tidemill.Applied, delivered(receive(t, s, 3, 10*time.Second)...)...)
	w.books(s, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

func TestIntakeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	for name, c := range map[string]struct {
		job  *tidemill.Message
		kind tidemill.Kind
	}{
		"without a queue": {&tidemill.Message{ID: "1"}, tidemill.Validation},
		"without a name":  {&tidemill.Message{To: "q"}, tidemill.Validation},
		"too large":       {&tidemill.Message{To: "q", ID: "1", Payload: make([]byte, 5<<20)}, tidemill.Validation},
	} {
		if err := w.intake.Add(t.Context(), []*tidemill.Message{c.job}, nil); err == nil || tidemill.KindOf(err) != c.kind {
			t.Errorf("%s: %v of kind %v, want %v", name, err, tidemill.KindOf(err), c.kind)
		}
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if err := w.intake.Add(gone, []*tidemill.Message{{To: "q", ID: "1"}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that has ended: %v", err)
	}
	careless, err := w.cluster.Client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	if err != nil {
		t.Fatal(err)
	}
	defer careless.Close()
	if _, err := kafkasource.NewIntake(careless, kafkasource.IntakeOptions{}); err == nil {
		t.Error("a client that does not wait for all replicas was taken")
	}
}

func TestAJobIsNotHandedOutBeforeItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	at := time.Now().Add(3 * time.Second) // more than adding takes on a busy machine
	w.add(&tidemill.Message{ID: "later", At: at, Payload: []byte("later")}, &tidemill.Message{ID: "now", Payload: []byte("now")})
	s := w.source(kafkasource.Options{})
	first := receive(t, s, 1, 10*time.Second)[0]
	second := receive(t, s, 1, 10*time.Second)[0]
	if first.ID != "now" || second.ID != "later" || time.Now().Before(at) || second.Handed != 1 {
		t.Fatalf("received %s, then %s (hand-out %d) at %v, want now, then later at %v", first.ID, second.ID, second.Handed, time.Now(), at)
	}
	settle(t, s, tidemill.Applied, delivered(second, first)...)
}

// Records of other producers come as they are.
func TestRecordsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	when := time.UnixMilli(1_700_000_000_123)
	r := &kgo.Record{Topic: w.topic, Key: []byte("k"), Value: []byte("v"), Timestamp: when,
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "tidemill-time", Value: []byte("junk")}}}
	other, err := w.cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.ProduceSync(t.Context(), r, &kgo.Record{Topic: w.topic}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s := w.source(kafkasource.Options{})
	got := receive(t, s, 2, 10*time.Second)
	m := got[0]
	if !strings.HasPrefix(m.ID, w.topic+"/0/0@") || string(m.Key) != "k" || string(m.Payload) != "v" || !m.Time.Equal(when) || len(m.Header) != 2 || m.To != w.topic {
		t.Errorf("received %+v", m)
	}
	if len(got[1].Payload) > 0 || len(got[1].Header) != 0 {
		t.Errorf("received %+v", got[1])
	}
	settle(t, s, tidemill.Applied, delivered(got...)...)
}

func TestNewRefusesNonsense(t *testing.T) {
	c := cluster(t, []string{"nowhere:1"}, nil)
	for name, o := range map[string]kafkasource.Options{
		"drains longer than the group waits": {Drain: time.Hour},
		"ahead of what a commit can hold":    {MaxAhead: 1 << 20},
		"no buffer":                          {Buffer: -1},
		"an unknown decision":                {OnLost: 7},
	} {
		if _, err := kafkasource.New(c, "t", "g", o); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if _, err := kafkasource.New(c, "", "g", kafkasource.Options{}); err == nil {
		t.Error("it was taken without a topic")
	}
}

func TestBrokersThatAreAwayAreSaidAndCloseIsQuick(t *testing.T) {
	away := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") }
	s, err := kafkasource.New(cluster(t, []string{"nowhere:1"}, away), "t", "g", kafkasource.Options{Answer: 300 * time.Millisecond, Drain: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Books(t.Context()); err == nil {
		t.Error("books of brokers that are away")
	}
	if got := try(t, s, 1, 200*time.Millisecond); len(got) > 0 {
		t.Error("received something from nowhere")
	}
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
	if _, err := s.Receive(t.Context(), []*tidemill.Message{new(tidemill.Message)}); err == nil {
		t.Error("a closed source receives")
	}
}
