package windows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// partitions of every topic.
const partitions = 3

// bench is one run.
type bench struct {
	options
	services *process.Services
	folder   string
	bin      string // the product's
	redis    rueidis.Client
	kafka    *kgo.Client
	admin    *kadm.Client
	full     map[int]string // topics that have so many records
	plays    int
}

// start starts a Redis and a Kafka.
func (b *bench) start(ctx context.Context, folder string) (err error) {
	settings := []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}
	if b.services, err = process.StartServices(ctx, folder, settings, "redis", "kafka"); err != nil {
		return err
	}
	b.full = map[int]string{}
	if b.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{b.services.Addr("redis")}, DisableCache: true, ForceSingleClient: true}); err != nil {
		b.stop()
		return err
	}
	b.kafka, err = kgo.NewClient(kgo.SeedBrokers(b.services.Addr("kafka")), kgo.ProducerBatchCompression(kgo.NoCompression()), // as the source system's adapters do
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MaxBufferedRecords(20_000))
	if err != nil {
		b.stop()
		return err
	}
	b.admin = kadm.NewClient(b.kafka)
	return nil
}

func (b *bench) stop() {
	if b.redis != nil {
		b.redis.Close()
	}
	if b.kafka != nil {
		b.kafka.Close()
	}
	b.services.Stop()
}

// empty empties Redis.
func (b *bench) empty(ctx context.Context) error {
	return b.redis.Do(ctx, b.redis.B().Flushall().Sync().Build()).Error()
}

func (b *bench) topics(ctx context.Context, name string) error {
	made, err := b.admin.CreateTopics(ctx, partitions, 1, nil, name+event, name+mention)
	if err == nil {
		err = made.Error()
	}
	return err
}

func (b *bench) drop(ctx context.Context, name string) error {
	gone, err := b.admin.DeleteTopics(ctx, name+event, name+mention)
	if err == nil {
		err = gone.Error()
	}
	return err
}

// filled are topics with so many records; they are filled once.
func (b *bench) filled(ctx context.Context, n int) (name string, err error) {
	if name := b.full[n]; name != "" {
		return name, nil
	}
	name = fmt.Sprintf("in-%d", n)
	if err := b.topics(ctx, name); err != nil {
		return "", err
	}
	header := []kgo.RecordHeader{{Key: record.BatchHeader, Value: []byte(batchID)}}
	wrong := make(chan error, 1)
	for rs := newRecords(); rs.n < n; {
		d := rs.next()
		topic := name + event
		if d.kind == record.Mention {
			topic = name + mention
		}
		b.kafka.Produce(ctx, &kgo.Record{Topic: topic, Key: []byte(d.id), Value: d.body, Headers: header}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case wrong <- err:
				default:
				}
			}
		})
	}
	if err := b.kafka.Flush(ctx); err != nil {
		return "", err
	}
	select {
	case err := <-wrong:
		return "", err
	default:
	}
	b.full[n] = name
	return name, nil
}

// written is how many offsets of topics can be read. If more are expected it asks again for a
// while: brokers end a transaction after they have said so.
func (b *bench) written(ctx context.Context, name string, want int) (n int, err error) {
	for range 50 {
		ends, err := b.admin.ListCommittedOffsets(ctx, name+event, name+mention)
		if err != nil {
			return 0, err
		}
		n = 0
		ends.Each(func(o kadm.ListedOffset) {
			n += int(o.Offset)
			err = errors.Join(err, o.Err)
		})
		if err != nil || n >= want {
			return n, err
		}
		time.Sleep(100 * time.Millisecond) // between two polls of another process
	}
	return n, nil
}

// window makes a window in Redis that waits to be closed.
func (b *bench) window(ctx context.Context, n int) error {
	s, err := b.store()
	if err != nil {
		return err
	}
	return put(ctx, s, n)
}
