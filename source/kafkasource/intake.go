package kafkasource

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/state/queue"
)

// IntakeOptions tune an intake; the zero value is ready to use.
type IntakeOptions struct {
	// Topic is where the jobs of a queue go; nil: to the topic of the queue's name.
	Topic func(queue string) string
	// Key returns a record's key, in memory of its own: records of one key are in one
	// partition, in order. Nil: the message's key.
	Key func(*tidemill.Message) []byte
	// Seen says which of the jobs were added before, by Tenant and ID: they are Known and
	// not written. Kafka itself cannot tell. Nil: none was.
	Seen func(ctx context.Context, jobs []*tidemill.Message, seen []bool) error
}

// Intake writes jobs into topics; a Source hands them out unchanged. The record's key is
// the job's unless Options.Key says otherwise, so jobs of one key are in one partition, in
// order. A job counts as added when all replicas in sync have it.
//
// Adding a job again writes it again, unless Options.Seen knows it: consumers recognise it
// by its ID. After an error some of the jobs may have been written.
type Intake struct {
	client *kgo.Client
	o      IntakeOptions
}

var _ queue.Intake = (*Intake)(nil)

// NewIntake makes an intake on a separate client, opened with the Producer options; the
// caller closes it afterwards.
func NewIntake(client *kgo.Client, o IntakeOptions) (*Intake, error) {
	switch {
	case client == nil:
		return nil, errors.New("kafka intake: a client is needed")
	case client.OptValue(kgo.RequiredAcks) != kgo.AllISRAcks():
		return nil, errors.New("kafka intake: the client has to wait for all replicas in sync; open it with kafkasource.Producer()")
	}
	if o.Topic == nil {
		o.Topic = func(queue string) string { return queue }
	}
	return &Intake{client, o}, nil
}

// delivery bounds the tries to write a record; then adding its job fails.
const delivery = 30 * time.Second

// Producer returns the client options for an intake: every replica in sync has a record
// before it is acknowledged, and the client's own retries write none twice.
func Producer() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.ProducerLinger(0), // callers bring whole batches
		kgo.RecordDeliveryTimeout(delivery),
		kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(64 << 20),
	}
}

// Add implements queue.Intake. It never answers Full: full brokers refuse, which is an
// error.
func (i *Intake) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if added != nil && len(added) != len(jobs) {
		return tidemill.Fail(tidemill.Internal, "add %d jobs: there is room for %d answers", len(jobs), len(added))
	}
	for _, m := range jobs {
		if err := queue.Check(m); err != nil {
			return err
		}
	}
	known, err := i.known(ctx, jobs)
	if err != nil {
		return err
	}
	if err := i.write(ctx, jobs, known); err != nil {
		return err
	}
	for n := range added {
		if added[n] = queue.New; known[n] {
			added[n] = queue.Known
		}
	}
	return nil
}

// known says which jobs are not to be written.
func (i *Intake) known(ctx context.Context, jobs []*tidemill.Message) ([]bool, error) {
	known := make([]bool, len(jobs))
	if i.o.Seen != nil {
		if err := i.o.Seen(ctx, jobs, known); err != nil {
			return nil, err
		}
	}
	type name struct{ queue, tenant, id string }
	names := make(map[name]bool, len(jobs))
	for n, m := range jobs {
		this := name{m.To, m.Tenant, m.ID}
		known[n] = known[n] || names[this]
		names[this] = true
	}
	return known, nil
}

// write writes the jobs that are not known and waits until all are durable. Their bytes
// are copied, because the client may hold them longer than ctx lasts.
func (i *Intake) write(ctx context.Context, jobs []*tidemill.Message, known []bool) error {
	total, records := 0, 0
	for n, m := range jobs {
		if !known[n] {
			total, records = total+size(m), records+1
		}
	}
	bytes := make([]byte, 0, total)
	answers := make(chan error, records)
	for n, m := range jobs {
		if !known[n] {
			r := record(m, i.o.Topic(m.To), &bytes)
			if i.o.Key != nil {
				r.Key = i.o.Key(m)
			}
			i.client.Produce(ctx, r, func(r *kgo.Record, err error) {
				answers <- kafkaconn.Error(err, "write to topic %s", r.Topic)
			})
		}
	}
	var wrong []error
	for range records {
		select {
		case err := <-answers:
			if err != nil && !slices.ContainsFunc(wrong, func(e error) bool { return e.Error() == err.Error() }) && len(wrong) < 3 {
				wrong = append(wrong, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(wrong...)
}
