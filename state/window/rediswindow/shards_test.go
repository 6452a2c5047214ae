package rediswindow

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/window"
)

// A shard that does not answer as it should holds up no other: there windows are closed, kept
// and settled.
func TestAShardThatIsAwayHoldsUpNoOther(t *testing.T) {
	client := redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL)
	ctx := t.Context()
	h := harness(t, client, Options{Shards: 3, Options: window.Options{Lease: 30 * time.Second}})
	s := h.Store.(*Store)
	batches := map[int]string{} // one of each shard
	for i := 0; len(batches) < len(s.tags); i++ {
		batch := fmt.Sprint("b", i)
		batches[s.shard(batch)] = batch
	}
	put := func(shard int) {
		t.Helper()
		if err := s.Put(ctx, []window.Record{{Batch: batches[shard], Kind: "event", ID: "1"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	source := s.Open()
	out := make([]*tidemill.Message, len(s.tags))
	for shard := range s.tags {
		put(shard)
		if ok, err := s.CloseNow(ctx, batches[shard]); !ok || err != nil {
			t.Fatal(ok, err)
		}
		m := new(tidemill.Message)
		if n, err := source.Receive(ctx, []*tidemill.Message{m}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		out[shard] = m
		put(shard)
	}
	due := func(shard int) time.Time {
		t.Helper()
		i, err := s.Look(ctx, out[shard].ID)
		if err != nil {
			t.Fatal(err)
		}
		return i.Due
	}
	for _, key := range []string{fmt.Sprint("w", out[0].Mark.Lo), "full"} { // what scripts of the first shard come to
		if err := client.Do(ctx, client.B().Set().Key(s.tags[0]+key).Value("no hash, no set").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}

	before := []time.Time{{}, due(1), due(2)}
	h.Advance(20 * time.Second)
	if err := source.(tidemill.Keeper).Keep(ctx); err == nil {
		t.Error("the lease of a shard that is away was renewed")
	}
	for shard := 1; shard < len(s.tags); shard++ {
		if got := due(shard).Sub(before[shard]); got < 15*time.Second {
			t.Errorf("the lease in shard %d was renewed by %v", shard, got)
		}
	}
	ends := make([]tidemill.Settlement, len(out))
	for i, m := range out {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
	}
	if err := source.Settle(ctx, ends); err == nil || ends[0].Outcome != tidemill.Unanswered {
		t.Errorf("a shard that is away took an end: %v, %v", ends[0].Outcome, err)
	}
	for _, e := range ends[1:] {
		if e.Outcome != tidemill.Applied {
			t.Errorf("the end of %s: %v", e.ID, e.Outcome)
		}
	}
	h.Advance(time.Minute)
	if done, err := s.Sweep(ctx); err == nil || done.Closed != 2 {
		t.Errorf("sweep %+v, %v; want two closed", done, err)
	}
}
