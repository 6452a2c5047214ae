// Package kafkasink delivers messages to topics of Kafka. Use it where other programs read
// what a system has made.
//
//	cluster, err := kafkaconn.Parse("kafka://one:9092", kafkaconn.Options{})
//	sink, err := kafkasink.New(cluster, kafkasink.Options{})
//	defer sink.Close()
//
// A message is delivered when all replicas in sync have it (acks=all); a record that the
// client repeats by itself is written once (an idempotent producer). Where many messages
// are to appear wholly or not at all, write them in a Transaction.
package kafkasink

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// Options tune a sink; the zero value is ready to use.
type Options struct {
	// Topic of a message; nil means its To. An error fails the message.
	Topic func(*tidemill.Message) (string, error)
	// Within is how long the sink tries to write a record before its message fails; 0: 30
	// seconds. If only the brokers' answer is missing, they may have the record anyway, and
	// writing it again may write it twice.
	Within time.Duration
}

// within is Options.Within where it is not given.
const within = 30 * time.Second

func (o Options) withDefaults() (Options, error) {
	if o.Within < 0 {
		return o, errors.New("kafka sink: Within must not be negative")
	}
	if o.Within == 0 {
		o.Within = within
	}
	if o.Topic == nil {
		o.Topic = func(m *tidemill.Message) (string, error) { return m.To, nil }
	}
	return o, nil
}

// Sink is a tidemill.Sink. Its Write may be called from several goroutines: they share a
// client, which combines concurrent writes into one request.
type Sink struct {
	client   *kgo.Client
	o        Options
	writings writings
	limits   *limits
}

// New makes a sink with its own client, which connects when it is first used.
func New(cluster *kafkaconn.Cluster, o Options) (*Sink, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &limits{within: o.Within}
	client, err := cluster.Client(append(producer(o, l), kgo.AllowIdempotentProduceCancellation())...)
	if err != nil {
		return nil, err
	}
	return &Sink{client: client, o: o, limits: l}, nil
}

// producer are the options of a client that writes.
func producer(o Options, l *limits) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // the same partition for a key as Java's own
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.ProducerBatchMaxBytesFn(l.batch),
		kgo.ProducerLinger(0), // callers bring whole batches
		kgo.RecordDeliveryTimeout(o.Within),
		kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(64 << 20),
	}
}

// Close ends the client. Unfinished writes fail.
func (s *Sink) Close() { s.client.Close() }

// Ping returns nil when a broker answers, whatever it would say to a record.
func (s *Sink) Ping(ctx context.Context) error {
	return kafkaconn.Error(s.client.Ping(ctx), "ask the brokers whether they are there")
}

// Write writes the batch and waits until the brokers have acknowledged every record of it:
// messages of one key in order, in one partition. Nil means that all are durable; a
// *tidemill.Partial names the others. A message larger than its topic accepts fails alone.
// When ctx ends first, it is unknown which were written.
func (s *Sink) Write(ctx context.Context, batch []*tidemill.Message) error {
	if err := s.limits.learn(ctx, s.client, s.o.Topic, batch); err != nil {
		return err
	}
	err := s.writings.write(ctx, s.client, s.o.Topic, batch)
	if changed := s.limits.tooLarge(ctx, s.client, s.o.Topic, batch, err); changed != nil {
		s.client.PurgeTopicsFromProducing(changed...) // it has kept the old limit
	}
	return err
}

// write writes a batch with a client.
func (p *writings) write(ctx context.Context, client *kgo.Client, topic func(*tidemill.Message) (string, error), batch []*tidemill.Message) error {
	if err := ctx.Err(); err != nil || len(batch) == 0 {
		return err
	}
	w := p.take(batch)
	for i, m := range batch {
		to, err := topic(m)
		if err == nil && to == "" {
			err = tidemill.Fail(tidemill.Validation, "message %q says of no topic where it goes", m.ID)
		}
		if err != nil {
			w.answer(i, err)
			continue
		}
		client.Produce(ctx, w.record(i, m, to), w.answered)
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return ctx.Err() // the client may hold records for longer: it keeps their memory
	}
	if w.failed == nil {
		p.giveBack(w)
		return nil
	}
	slices.SortFunc(w.failed, func(a, b tidemill.Failed) int { return a.Index - b.Index })
	for i, f := range w.failed {
		w.failed[i].Err = kafkaconn.Error(f.Err, "write to topic %s", batch[f.Index].To)
	}
	return &tidemill.Partial{Failed: w.failed}
}
