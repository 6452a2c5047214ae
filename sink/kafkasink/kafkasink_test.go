package kafkasink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/sink/kafkasink"
	"github.com/tidemill/tidemill/sink/sinktest"
)

// through opens a cluster whose connections go through a link; nil: straight.
func through(t *testing.T, brokers []string, link *testenv.Link) *kafkaconn.Cluster {
	t.Helper()
	var o kafkaconn.Options
	if link != nil {
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, link.Addr)
		}
	}
	c, err := kafkaconn.Parse(strings.Join(brokers, ","), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func client(t *testing.T, c *kafkaconn.Cluster, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	k, err := c.Client(more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// topic makes a topic.
func topic(t *testing.T, brokers []string, partitions int) string {
	t.Helper()
	name := testenv.Name("t-")
	if err := kafkaconn.MakeTopic(t.Context(), client(t, through(t, brokers, nil)), name, partitions, 0); err != nil {
		t.Fatal(err)
	}
	return name
}

// reader reads a topic from its beginning.
type reader struct {
	client *kgo.Client
	got    []*kgo.Record
}

func read(t *testing.T, brokers []string, topic string, more ...kgo.Opt) *reader {
	return &reader{client: client(t, through(t, brokers, nil), append(more, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)}
}

// until reads until there are n records, or for as long as patience lasts.
func (r *reader) until(n int, patience time.Duration) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(r.got) < n && ctx.Err() == nil {
		r.got = append(r.got, r.client.PollFetches(ctx).Records()...)
	}
	return r.got
}

func TestSink(t *testing.T) {
	brokers := testenv.Kafka(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		to, link := topic(t, brokers, 1), testenv.NewLink(t, brokers[0])
		s, err := kafkasink.New(through(t, brokers, link), kafkasink.Options{Within: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		r := read(t, brokers, to)
		return sinktest.Harness{
			Sink:    s,
			Message: func(p []byte) *tidemill.Message { return &tidemill.Message{To: to, Key: []byte("k"), Payload: p} },
			Invalid: func() *tidemill.Message {
				return &tidemill.Message{To: to, Payload: bytes.Repeat([]byte("too large"), 1<<20)}
			},
			Delivered: func(n int) (all [][]byte) {
				for _, k := range r.until(n, 30*time.Second) {
					all = append(all, k.Value)
				}
				return all
			},
			Cut:     func() { link.Reset(0); link.Refuse() },
			Heal:    link.Heal,
			Stick:   link.BlackHole,
			Repeats: true,
		}
	})
}

func TestKeysAndHeadersAreKept(t *testing.T) {
	brokers := testenv.Kafka(t)
	to := topic(t, brokers, 3)
	s, err := kafkasink.New(through(t, brokers, nil), kafkasink.Options{Topic: func(m *tidemill.Message) (string, error) { return strings.TrimPrefix(m.To, "topic:"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var batch []*tidemill.Message
	for i := range 30 {
		batch = append(batch, &tidemill.Message{To: "topic:" + to, Key: fmt.Appendf(nil, "%d", i%10), Payload: []byte{},
			Header: []tidemill.Field{{Name: []byte("X-Batch-ID"), Value: []byte("\xff\x00")}, {Name: []byte("again"), Value: nil}, {Name: []byte("again"), Value: []byte("2")}}})
	}
	if err := s.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	partitions := map[string]int32{}
	for _, r := range read(t, brokers, to).until(30, 20*time.Second) {
		if at, ok := partitions[string(r.Key)]; ok && at != r.Partition {
			t.Errorf("key %s is in partitions %d and %d", r.Key, at, r.Partition)
		}
		partitions[string(r.Key)] = r.Partition
		if r.Value == nil || fmt.Sprintf("%q", r.Headers) != `[{"X-Batch-ID" "\xff\x00"} {"again" ""} {"again" "2"}]` {
			t.Errorf("got value %v, headers %q", r.Value, r.Headers)
		}
	}
	if len(partitions) != 10 {
		t.Errorf("%d keys arrived, want 10", len(partitions))
	}
}

func TestAMessageWithoutTopicFailsAlone(t *testing.T) {
	brokers := testenv.Kafka(t)
	to := topic(t, brokers, 1)
	s, err := kafkasink.New(through(t, brokers, nil), kafkasink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Write(t.Context(), []*tidemill.Message{{ID: "one"}, {ID: "two", To: to, Payload: []byte("x")}})
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(partly.Failed) != 1 || partly.Failed[0].Index != 0 || tidemill.KindOf(partly.Failed[0].Err) != tidemill.Validation {
		t.Fatalf("got %v, want that the first has no topic", err)
	}
	if got := read(t, brokers, to).until(1, 20*time.Second); len(got) != 1 {
		t.Errorf("%d arrived, want the other", len(got))
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	c, err := kafkaconn.Parse("127.0.0.1:1", kafkaconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kafkasink.New(c, kafkasink.Options{Within: -1}); err == nil {
		t.Error("a negative time was taken")
	}
	for _, o := range []kafkasink.TransactionOptions{{}, {ID: "a", AtOnce: -1}, {ID: "a", Timeout: -1}, {ID: "a", Options: kafkasink.Options{Within: -1}}} {
		if _, err := kafkasink.NewTransactions(c, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
