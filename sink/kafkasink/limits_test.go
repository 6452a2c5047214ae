package kafkasink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/sink/kafkasink"
)

// limit lets a topic take so many bytes at once.
func limit(t *testing.T, brokers []string, topic string, n int) {
	t.Helper()
	value := fmt.Sprint(n)
	admin := kadm.NewClient(client(t, through(t, brokers, nil)))
	answers, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &value}}, topic)
	if err == nil && answers[0].Err != nil {
		err = answers[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // until the broker says so
		said, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err == nil {
			for _, c := range said[0].Configs {
				if c.Key == "max.message.bytes" && c.Value != nil && *c.Value == value {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the limit is not set: %v, %v", said, err)
		}
	}
}

// noise are messages that cannot be made smaller.
func noise(to string, from, n, size int) (all []*tidemill.Message) {
	r := rand.New(rand.NewPCG(uint64(from), uint64(size)))
	for i := range n {
		m := &tidemill.Message{ID: fmt.Sprint(from + i), To: to, Key: fmt.Append(nil, i%10), Payload: make([]byte, size)}
		for k := range m.Payload {
			m.Payload[k] = byte(r.Uint32())
		}
		all = append(all, m)
	}
	return all
}

// refused are the messages that an error names, by their kinds.
func refused(t *testing.T, err error) map[int]tidemill.Kind {
	t.Helper()
	all := map[int]tidemill.Kind{}
	if err == nil {
		return all
	}
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		t.Fatalf("got %v, want that some failed", err)
	}
	for _, f := range partly.Failed {
		all[f.Index] = tidemill.KindOf(f.Err)
	}
	return all
}

func TestAMessageThatIsTooLargeFailsAlone(t *testing.T) {
	brokers := testenv.Kafka(t)
	for name, make := range map[string]func(t *testing.T) func([]*tidemill.Message) error{
		"each by itself": func(t *testing.T) func([]*tidemill.Message) error {
			s, err := kafkasink.New(through(t, brokers, nil), kafkasink.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return func(batch []*tidemill.Message) error { return s.Write(t.Context(), batch) }
		},
		"in a transaction": func(t *testing.T) func([]*tidemill.Message) error {
			all := transactions(t, through(t, brokers, nil), kafkasink.TransactionOptions{ID: testenv.Name("tx-")})
			return func(batch []*tidemill.Message) error {
				x := begin(t, all)
				defer x.Abort(context.Background())
				if err := x.Write(t.Context(), batch); err != nil {
					return err
				}
				return x.Commit(t.Context())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, write := topic(t, brokers, 1), make(t)
			limit(t, brokers, to, 20_000)
			batch := noise(to, 0, 100, 1000) // more than is taken at once
			batch[50] = noise(to, 50, 1, 30_000)[0]
			if got := refused(t, write(batch)); len(got) != 1 || got[50] != tidemill.Validation {
				t.Fatalf("refused %v, want the large one alone", got)
			}
			limit(t, brokers, to, 6_000) // somebody changes it while we run
			for _, kind := range refused(t, write(noise(to, 100, 100, 1000))) {
				if kind != tidemill.Transient {
					t.Fatalf("when the limit has changed a message fails as %v", kind)
				}
			}
			if got := refused(t, write(noise(to, 200, 100, 1000))); len(got) != 0 {
				t.Errorf("refused %v, want none", got)
			}
			here := map[string]bool{}
			for _, r := range read(t, brokers, to, kgo.FetchIsolationLevel(kgo.ReadCommitted())).until(300, 2*time.Second) {
				here[string(r.Value)] = true
			}
			for i, m := range noise(to, 200, 100, 1000) {
				if !here[string(m.Payload)] {
					t.Errorf("message %d did not arrive", 200+i)
				}
			}
		})
	}
}
