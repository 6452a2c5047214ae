package kafkasink

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// limits know how many bytes a topic accepts at once (max.message.bytes). Brokers refuse
// whole batches, with all records in them. If batches are never larger than that, the client
// refuses a record that is too large, alone.
type limits struct {
	within time.Duration // timeout of an answer
	mu     sync.Mutex    // guards of
	of     map[string]int32
}

// usual is the largest batch, also where a topic accepts more: what Kafka's own clients
// send. A client accepts no limit below least.
const (
	usual = 1_000_012
	least = 512
)

// batch is how large a batch of a topic may be. It is a client's option, which the client
// reads once when it first writes to a partition.
func (l *limits) batch(topic string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.of[topic]; ok {
		return n
	}
	return usual
}

// learn asks the brokers about topics that are not known yet.
func (l *limits) learn(ctx context.Context, client *kgo.Client, of func(*tidemill.Message) (string, error), batch []*tidemill.Message) error {
	var unknown []string
	for last, i := "", 0; i < len(batch); i++ {
		topic, err := of(batch[i])
		if err != nil || topic == "" || topic == last {
			continue
		}
		last = topic
		l.mu.Lock()
		_, known := l.of[topic]
		l.mu.Unlock()
		if !known && !slices.Contains(unknown, topic) {
			unknown = append(unknown, topic)
		}
	}
	return l.ask(ctx, client, unknown)
}

// ask asks the brokers. Where they refuse to say, the usual limit applies.
func (l *limits) ask(ctx context.Context, client *kgo.Client, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	answers, err := kadm.NewClient(client).DescribeTopicConfigs(asking, topics...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && kafkaconn.Kind(err) != tidemill.Credentials {
		return kafkaconn.Error(err, "ask how much the topics %q take at once", topics)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]int32{}
	}
	if err != nil {
		for _, topic := range topics {
			l.of[topic] = usual
		}
	}
	for _, a := range answers {
		if a.Err != nil && kafkaconn.Kind(a.Err) != tidemill.Credentials { // it does not exist: writing to it will say so
			continue
		}
		l.of[a.Name] = usual
		for _, c := range a.Configs {
			if c.Key != "max.message.bytes" || c.Value == nil {
				continue
			}
			if n, err := strconv.ParseInt(*c.Value, 10, 32); err == nil {
				l.of[a.Name] = int32(min(max(n, least), usual))
			}
		}
	}
	return nil
}

// tooLarge handles the error of a batch. Where brokers refused less than they had said they
// accept, their limit is lower now: then no record is to blame, and the batch can be written
// again when the client has forgotten the topics that tooLarge returns.
func (l *limits) tooLarge(ctx context.Context, client *kgo.Client, of func(*tidemill.Message) (string, error), batch []*tidemill.Message, err error) (changed []string) {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		return nil
	}
	before := map[string]int32{}
	for _, f := range partly.Failed {
		if errors.Is(f.Err, kerr.MessageTooLarge) {
			if topic, err := of(batch[f.Index]); err == nil {
				before[topic] = l.batch(topic)
			}
		}
	}
	for topic, was := range before {
		if l.ask(ctx, client, []string{topic}) == nil && l.batch(topic) < was {
			changed = append(changed, topic)
		}
	}
	slices.Sort(changed)
	for i, f := range partly.Failed {
		if topic, _ := of(batch[f.Index]); errors.Is(f.Err, kerr.MessageTooLarge) && slices.Contains(changed, topic) {
			partly.Failed[i].Err = tidemill.Fail(tidemill.Transient, "write to topic %s: it takes less at once than it did, records are sent in smaller batches from now on", topic)
		}
	}
	return changed
}
