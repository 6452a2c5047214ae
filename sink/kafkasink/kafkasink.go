// Package kafkasink delivers messages to topics of Kafka. Use it where other programs read
// what a system has made.
//
//	cluster, err := kafkaconn.Parse("kafka://one:9092", kafkaconn.Options{})
//	sink, err := kafkasink.New(cluster, kafkasink.Options{})
//	defer sink.Close()
//
// A message is delivered when all replicas in sync have it (acks=all); what the client
// repeats by itself is written once (an idempotent producer). Where many messages are to
// appear wholly or not at all, write them in a Transaction.
package kafkasink

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// Options tune a sink; the zero value is ready to use.
type Options struct {
	// Topic of a message; nil means its To. An error fails the message.
	Topic func(*tidemill.Message) (string, error)
	// Within is how long a record is tried to be written, until its message fails; 0: 30
	// seconds. The brokers may have taken it all the same where only their answer is
	// missing: who writes it again may write it twice.
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
// client, which puts what they write at one time into one request.
type Sink struct {
	client *kgo.Client
	o      Options
}

// New makes a sink with a client of its own, which connects when it is first used.
func New(cluster *kafkaconn.Cluster, o Options) (*Sink, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := cluster.Client(append(producer(o), kgo.AllowIdempotentProduceCancellation())...)
	if err != nil {
		return nil, err
	}
	return &Sink{client, o}, nil
}

// producer are the options of a client that writes.
func producer(o Options) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // the same partition for a key as Java's own
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.ProducerLinger(0), // those who write bring whole batches
		kgo.RecordDeliveryTimeout(o.Within),
		kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(64 << 20),
	}
}

// Close ends the client. What is being written fails.
func (s *Sink) Close() { s.client.Close() }

// Write writes the batch and waits until the brokers have acknowledged every record of it:
// messages of one key in order, in one partition. Nil means that all are durable; a
// *tidemill.Partial names the others. When ctx ends first, nobody knows which were written.
func (s *Sink) Write(ctx context.Context, batch []*tidemill.Message) error {
	return write(ctx, s.client, s.o.Topic, batch)
}

// answer is what the brokers say of one message.
type answer struct {
	index int
	err   error
}

// write writes a batch with a client. The client may hold records for longer than ctx
// lasts, so it gets copies.
func write(ctx context.Context, client *kgo.Client, topic func(*tidemill.Message) (string, error), batch []*tidemill.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	copies := make([]byte, 0, size(batch))
	answers := make(chan answer, len(batch)) // with room for all: who answers late waits for nobody
	for i, m := range batch {
		to, err := topic(m)
		if err == nil && to == "" {
			err = tidemill.Fail(tidemill.Validation, "message %q says of no topic where it goes", m.ID)
		}
		if err != nil {
			answers <- answer{i, err}
			continue
		}
		client.Produce(ctx, record(m, to, &copies), func(_ *kgo.Record, err error) { answers <- answer{i, err} })
	}
	var failed []tidemill.Failed
	for range batch {
		select {
		case a := <-answers:
			if a.err != nil {
				failed = append(failed, tidemill.Failed{Index: a.index, Err: kafkaconn.Error(a.err, "write to topic %s", batch[a.index].To)})
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if failed != nil {
		return &tidemill.Partial{Failed: failed}
	}
	return nil
}

// record is a message as Kafka has it: key, value and headers as they are.
func record(m *tidemill.Message, topic string, copies *[]byte) *kgo.Record {
	own := func(b []byte) []byte {
		start := len(*copies)
		*copies = append(*copies, b...)
		return (*copies)[start:len(*copies):len(*copies)]
	}
	r := &kgo.Record{Topic: topic, Value: own(m.Payload)} // not nil: a record without a value means that its key is deleted
	if len(m.Key) > 0 {
		r.Key = own(m.Key)
	}
	for _, f := range m.Header {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(f.Name), Value: own(f.Value)})
	}
	return r
}

// size is how many bytes record copies of a batch.
func size(batch []*tidemill.Message) (n int) {
	for _, m := range batch {
		n += len(m.Payload) + len(m.Key)
		for _, f := range m.Header {
			n += len(f.Value)
		}
	}
	return n
}
