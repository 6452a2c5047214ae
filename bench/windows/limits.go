package windows

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// A limit moves the same records and nothing else: it decodes, checks and counts nothing, knows
// no names, and nobody could say afterwards what became of a record.

// pollRecords is how many records a limit moves at a time, at most.
const pollRecords = 2000

// playLimit plays a part with a limit of the product.
func playLimit(ctx context.Context, p *part) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.Redis}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()
	if p.What == "deliver" {
		return limitDeliver(ctx, p, client)
	}
	return limitStore(ctx, p, client)
}

// hashOf is the hash of a limit's records of a kind, by their ids.
func hashOf(k record.Kind) string { return "limit:" + k.String() + ":" + batchID }

// limitStore consumes, writes by pipelines of HSET, and commits what was written. Meanwhile it
// reads the next records.
func limitStore(ctx context.Context, p *part, client rueidis.Client) error {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(p.Kafka), kgo.ConsumerGroup(p.Group), kgo.ConsumeTopics(p.In+event, p.In+mention),
		kgo.DisableAutoCommit(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	began := false
	last := make(chan error, 1) // of the running write
	last <- nil
	for stored := 0; stored < p.Records; {
		fetches := consumer.PollRecords(ctx, pollRecords)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		all := fetches.Records()
		if len(all) > 0 && !began {
			began = true
			if err := p.Begin(); err != nil {
				return err
			}
		}
		cmds := p.limitCommands(client, all)
		if err := <-last; err != nil {
			return err
		}
		go func() {
			err := limitWrite(ctx, client, cmds)
			if err == nil {
				err = consumer.CommitRecords(ctx, all...)
			}
			last <- err
		}()
		stored += len(all)
	}
	if err := <-last; err != nil {
		return err
	}
	p.End()
	r := report{}
	for _, k := range []record.Kind{record.Event, record.Mention} {
		n, err := client.Do(ctx, client.B().Hlen().Key(hashOf(k)).Build()).AsInt64()
		if err != nil {
			return err
		}
		r.Stored += int(n)
	}
	return p.Report(r)
}

// limitCommands writes records, by a command each or by one for all of a kind. A mention's name
// is its key and offset, so that its document need not be parsed.
func (p *part) limitCommands(client rueidis.Client, all []*kgo.Record) (cmds rueidis.Commands) {
	hashes := [...]string{hashOf(record.Event), hashOf(record.Mention)}
	of := func(r *kgo.Record) (hash, id string) {
		if r.Topic == p.In+event {
			return hashes[0], string(r.Key)
		}
		return hashes[1], string(r.Key) + "_" + strconv.FormatInt(r.Offset<<8|int64(r.Partition), 10)
	}
	if !p.Many {
		for _, r := range all {
			hash, id := of(r)
			cmds = append(cmds, client.B().Hset().Key(hash).FieldValue().FieldValue(id, rueidis.BinaryString(r.Value)).Build())
		}
		return cmds
	}
	for _, hash := range hashes {
		cmd, some := client.B().Hset().Key(hash).FieldValue(), false
		for _, r := range all {
			if own, id := of(r); own == hash {
				cmd, some = cmd.FieldValue(id, rueidis.BinaryString(r.Value)), true
			}
		}
		if some {
			cmds = append(cmds, cmd.Build())
		}
	}
	return cmds
}

func limitWrite(ctx context.Context, client rueidis.Client, cmds rueidis.Commands) error {
	for _, r := range client.DoMulti(ctx, cmds...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// limitFill writes what limitDeliver reads: records in their outgoing form.
func limitFill(ctx context.Context, client rueidis.Client, n int) error {
	rs := newRecords()
	for rs.n < n {
		var cmds rueidis.Commands
		for len(cmds) < pollRecords && rs.n < n {
			d := rs.next()
			out, err := d.out()
			if err != nil {
				return err
			}
			cmds = append(cmds, client.B().Hset().Key(hashOf(d.kind)).FieldValue().FieldValue(d.key, rueidis.BinaryString(out)).Build())
		}
		for _, r := range client.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}

// limitDeliver reads records by their ids, which it knows, and writes them with the product's
// settings: acks of all, an idempotent producer. Two read at once.
func limitDeliver(ctx context.Context, p *part, client rueidis.Client) error {
	opts := []kgo.Opt{kgo.SeedBrokers(p.Kafka), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(64 << 20)}
	if p.Whole {
		opts = append(opts, kgo.TransactionalID("limit-"+p.Group))
	}
	producer, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer producer.Close()
	keys := map[record.Kind][]string{}
	for rs := newRecords(); rs.n < p.Records; {
		d := rs.next()
		keys[d.kind] = append(keys[d.kind], d.key)
	}
	if err := p.Begin(); err != nil {
		return err
	}
	if p.Whole {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
	}
	w := &limitWriting{ctx: ctx, client: client, producer: producer}
	var both sync.WaitGroup
	both.Go(func() { w.kind(hashOf(record.Event), p.Out+event, keys[record.Event]) })
	both.Go(func() { w.kind(hashOf(record.Mention), p.Out+mention, keys[record.Mention]) })
	both.Wait()
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	if p.Whole {
		if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return err
		}
	}
	for _, k := range []record.Kind{record.Event, record.Mention} {
		if err := client.Do(ctx, client.B().Unlink().Key(hashOf(k)).Build()).Error(); err != nil {
			return err
		}
	}
	p.End()
	if err, ok := w.wrong.Load().(error); ok {
		return err
	}
	return p.Report(report{Delivered: int(w.sent.Load())})
}

type limitWriting struct {
	ctx      context.Context
	client   rueidis.Client
	producer *kgo.Client
	sent     atomic.Int64
	wrong    atomic.Value
}

// kind moves all records of a kind.
func (w *limitWriting) kind(hash, topic string, keys []string) {
	for at := 0; at < len(keys); at += pollRecords {
		some := keys[at:min(at+pollRecords, len(keys))]
		bodies, err := w.client.Do(w.ctx, w.client.B().Hmget().Key(hash).Field(some...).Build()).ToArray()
		if err != nil {
			w.wrong.Store(err)
			return
		}
		for i := range bodies {
			body, err := bodies[i].AsBytes()
			if err != nil {
				w.wrong.Store(err)
				return
			}
			w.producer.Produce(w.ctx, &kgo.Record{Topic: topic, Key: []byte(some[i]), Value: body}, func(_ *kgo.Record, err error) {
				if err != nil {
					w.wrong.Store(err)
					return
				}
				w.sent.Add(1)
			})
		}
	}
}
