package scale

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// load sends the events, to one instance after the other.
func (f *fleet) load(ctx context.Context, n int) error {
	switch {
	case f.system.Streams():
		return f.fill(ctx, n)
	case f.system.Name == "windows":
		return f.produce(ctx, n)
	}
	bodies, _ := f.system.Bodies(n)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(bodies) && errs[w] == nil; i += len(errs) {
				errs[w] = cmp.Or(f.instances[i%len(f.instances)].Post(f.system.Path, batch(i), bodies[i]), ctx.Err())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fill writes the events to the bridge's stream.
func (f *fleet) fill(ctx context.Context, n int) error {
	client, err := redisconn.Open(ctx, tidemill.NewSecret("redis://"+f.servers.Addr("redis")), redisconn.Options{Name: "bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = f.system.Write(ctx, client, n)
	return err
}

// batches is how many batches, each a window, the records of windows belong to.
const batches = 20

// produce writes the events to the topic of mentions, as adapters do.
func (f *fleet) produce(ctx context.Context, n int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.servers.Addr("kafka")), kgo.DefaultProduceTopic("adapter-mention"))
	if err != nil {
		return err
	}
	defer client.Close()
	events, _ := f.system.Events(n)
	all := make([]*kgo.Record, n)
	for i, e := range events {
		header := kgo.RecordHeader{Key: record.BatchHeader, Value: []byte(batch(i % batches))}
		all[i] = &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: []byte(e), Headers: []kgo.RecordHeader{header}}
	}
	return client.ProduceSync(ctx, all...).FirstErr()
}

// batch is the id of a batch of windows.
func batch(i int) string { return strconv.Itoa(20260115100000 + i) }
