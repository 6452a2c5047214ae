package redisqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Queues implements queue.Meter.
func (s *Store) Queues(ctx context.Context) (names []string, err error) {
	for _, tag := range s.tags {
		some, err := s.client.Do(ctx, s.client.B().Hkeys().Key(tag+"queues").Build()).AsStrSlice()
		if err != nil {
			return nil, failed(err, "list the queues")
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Depths implements queue.Meter.
func (s *Store) Depths(ctx context.Context, name string) (all []queue.Depth, err error) {
	all, _, err = s.depths(ctx, name, 0, 0)
	return all, err
}

// Standing implements queue.Meter.
func (s *Store) Standing(ctx context.Context) ([]queue.Standing, error) {
	names, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.standing(ctx, names...)
	if err != nil {
		return nil, failed(err, "see how the queues stand")
	}
	return all, nil
}

// Questions about many queues: their scripts are sent together, each about a few, so that the work of
// queues, which is behind them, waits for little.
const (
	queuesAtOnce = 16 // of a script that counts
	asked        = 8  // scripts of these that are under way
)

// standing says how some queues stand. Settings are those of the first shard, which decides.
func (s *Store) standing(ctx context.Context, names ...string) ([]queue.Standing, error) {
	all := make([]queue.Standing, len(names))
	for i, name := range names {
		all[i].Queue = name
	}
	var mu sync.Mutex // guards all
	err := s.ask(ctx, len(names), queuesAtOnce, func(ctx context.Context, shard, from, to int) error {
		got, err := s.stand(ctx, shard, names[from:to])
		mu.Lock()
		defer mu.Unlock()
		for i := range got {
			of := &all[from+i]
			got[i].addTo(of)
			if shard == 0 {
				of.Settings = got[i].settings
			}
		}
		return err
	})
	return all, err
}

// ask asks each shard about n things, some at once, in questions that are sent together.
func (s *Store) ask(ctx context.Context, n, some int, do func(ctx context.Context, shard, from, to int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(asked)
	for shard := range s.tags {
		for from := 0; from < n; from += some {
			all.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return do(ctx, shard, from, min(n, from+some))
			})
		}
	}
	return all.Wait()
}

// stands is how a queue stands in a shard.
type stands struct {
	counts   []int64 // as standing.lua has them
	settings queue.Settings
}

// standsCounts is how many counts there are: waiting, delayed, leased, completed, failed, when the
// oldest was added, accepted, delivered, skipped, dead.
const standsCounts = 10

func (n *stands) addTo(all *queue.Standing) {
	st, books := &all.Stats, &all.Books
	for i, to := range []*int64{&st.Waiting, &st.Delayed, &st.Leased, &st.Completed, &st.Failed} {
		*to += n.counts[i]
	}
	st.Oldest = older(st.Oldest, n.counts[5])
	books.Accepted += uint64(n.counts[6])
	books.Settled.Add(tidemill.Count{Delivered: uint64(n.counts[7]), Skipped: uint64(n.counts[8]), Dead: uint64(n.counts[9])})
}

// stand asks a shard how queues stand, those again that it has more to look through for.
func (s *Store) stand(ctx context.Context, shard int, names []string) ([]stands, error) {
	all, left := make([]stands, len(names)), make([]int, len(names))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		args := make([]string, len(left))
		for i, at := range left {
			args[i] = names[at]
		}
		got, err := s.run(ctx, standingScript, shard, args...).ToArray()
		if err != nil {
			return nil, err
		}
		if len(got) != len(left)*(standsCounts+1) {
			return nil, reply("count jobs")
		}
		var again []int
		for i, at := range left {
			one := got[i*(standsCounts+1):][:standsCounts+1]
			if all[at], err = readStands(one); err != nil {
				return nil, err
			}
			if all[at].counts[5] == lookAgain {
				again = append(again, at)
			}
		}
		if left = again; ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return all, nil
}

// lookAgain is an oldest job that was not found yet.
const lookAgain = -2

func readStands(got []rueidis.RedisMessage) (n stands, err error) {
	n.counts = make([]int64, standsCounts)
	for i := range n.counts {
		if n.counts[i], err = got[i].AsInt64(); err != nil {
			return n, reply("count jobs")
		}
	}
	text, err := got[standsCounts].ToString()
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &n.settings)
	}
	if err != nil {
		return n, reply("read settings")
	}
	return n, nil
}

// Tenants implements queue.Meter.
func (s *Store) Tenants(ctx context.Context, name string, most int) (all []queue.Depth, err error) {
	most = cmp.Or(most, 100)
	if name != "" {
		_, all, err = s.depths(ctx, name, 10*most, most)
		slices.SortFunc(all, rules.Deeper)
		return all[:min(len(all), most)], err
	}
	names, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names { // one after the other, as each takes long, and the work of queues is behind it
		some, err := s.Tenants(ctx, name, most)
		if err != nil {
			return nil, err
		}
		for _, d := range some {
			d.Queue = name
			all = append(all, d)
		}
	}
	return all, nil
}

// Tenant implements queue.Meter.
func (s *Store) Tenant(ctx context.Context, tenant string) (all []queue.Depth, err error) {
	names, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	of := make([]queue.Depth, len(names))
	var mu sync.Mutex // guards of
	if err := s.ask(ctx, len(names), queuesAtOnce, func(ctx context.Context, shard, from, to int) error {
		got, err := s.run(ctx, tenantScript, shard, append([]string{tenant}, names[from:to]...)...).AsIntSlice()
		if err != nil {
			return failed(err, "look for what waits of a tenant")
		}
		mu.Lock()
		defer mu.Unlock()
		for i := 0; i+2 < len(got); i += 3 {
			if got[i] < 0 || got[i] >= int64(to-from) {
				return reply("look for what waits of a tenant")
			}
			d := &of[from+int(got[i])]
			d.Waiting, d.Oldest = d.Waiting+got[i+1], older(d.Oldest, got[i+2])
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for i, d := range of {
		if d.Waiting > 0 {
			d.Queue, d.Tenant = names[i], tenant
			all = append(all, d)
		}
	}
	return all, nil
}

// tenantDepth is what waits of a tenant in a priority.
type tenantDepth struct {
	queue.Depth
	position string // of its oldest job
	added    int64  // when that was added, in ms; -1: it has gone
}

// depths measures a queue: of the first tenants of each priority, the deepest (0: all of them). Tenants
// are counted some at a time, so that the work of queues is never behind a thousand of them; what is
// told is of several moments, then.
func (s *Store) depths(ctx context.Context, name string, tenants, deepest int) (priorities, of []queue.Depth, err error) {
	if len(s.tags) > 1 { // one has its jobs in all
		deepest = 0
	}
	byPriority, byTenant := map[uint8]*queue.Depth{}, map[string]*queue.Depth{}
	for shard := range s.tags {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		got, err := s.run(ctx, depthsScript, shard, name, strconv.Itoa(tenants)).ToArray()
		if err != nil {
			return nil, nil, failed(err, "measure queue %q", name)
		}
		const columns = 5
		if len(got) > columns { // a tenant may be in several priorities
			deepest = 0
		}
		for ; len(got) >= columns; got = got[columns:] {
			p, err1 := got[0].AsInt64()
			n, err2 := got[1].AsInt64()
			ms, err3 := got[2].AsInt64()
			names, err4 := got[3].AsStrSlice()
			behind, err5 := got[4].ToArray()
			if cmp.Or(err1, err2, err3, err4, err5) != nil {
				return nil, nil, reply("measure queues")
			}
			more(byPriority, uint8(p), queue.Depth{Priority: uint8(p), Waiting: n}, ms)
			found, err := s.deepest(ctx, shard, name, p, names, deepest)
			if err != nil {
				return nil, nil, err
			}
			for _, t := range found {
				more(byTenant, t.Tenant, t.Depth, t.added)
			}
			for i := 0; i+1 < len(behind); i += 2 {
				tenant, err1 := behind[i].ToString()
				n, err2 := behind[i+1].AsInt64()
				if cmp.Or(err1, err2) != nil {
					return nil, nil, reply("measure queues")
				}
				more(byTenant, tenant, queue.Depth{Tenant: tenant, Waiting: n}, -1)
			}
		}
	}
	for _, d := range byPriority {
		priorities = append(priorities, *d)
	}
	slices.SortFunc(priorities, func(a, b queue.Depth) int { return int(b.Priority) - int(a.Priority) })
	for _, d := range byTenant {
		of = append(of, *d)
	}
	return priorities, of, nil
}

// more counts what waits to what is known of a priority or a tenant, and when its oldest was added.
func more[K comparable](all map[K]*queue.Depth, of K, d queue.Depth, added int64) {
	known := all[of]
	if known == nil {
		known = &queue.Depth{Priority: d.Priority, Tenant: d.Tenant}
		all[of] = known
	}
	known.Waiting, known.Oldest = known.Waiting+d.Waiting, older(known.Oldest, added)
}

// deepest measures tenants of a priority of a queue, and keeps the deepest (0: all). Names are tenant,
// position, ….
func (s *Store) deepest(ctx context.Context, shard int, name string, priority int64, names []string, most int) ([]tenantDepth, error) {
	all, err := s.count(ctx, shard, name, priority, names)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t tenantDepth) bool { return t.Waiting == 0 }) // taken meanwhile
	if most > 0 && len(all) > most {
		slices.SortFunc(all, func(a, b tenantDepth) int { return rules.Deeper(a.Depth, b.Depth) })
		all = all[:most]
	}
	for some := range slices.Chunk(all, tenantsAtOnce) {
		args := []string{name}
		for _, t := range some {
			args = append(args, t.position)
		}
		added, err := s.run(ctx, addedScript, shard, args...).AsIntSlice()
		if err != nil {
			return nil, failed(err, "measure queue %q", name)
		}
		if len(added) != len(some) {
			return nil, reply("measure queues")
		}
		for i := range some {
			some[i].added = added[i]
		}
	}
	return all, nil
}

const (
	tenantsAtOnce = 64  // of a script that counts
	listsAtOnce   = 256 // in which it looks: tenants with many keys are counted by fewer at once
)

// count says how much waits of tenants in a priority of a queue. Names are tenant, position, ….
func (s *Store) count(ctx context.Context, shard int, name string, priority int64, names []string) (all []tenantDepth, err error) {
	for len(all) < len(names)/2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		args := []string{name, strconv.FormatInt(priority, 10), strconv.Itoa(listsAtOnce)}
		rest := names[2*len(all):]
		for i := 0; i+1 < min(len(rest), 2*tenantsAtOnce); i += 2 {
			args = append(args, rest[i])
		}
		got, err := s.run(ctx, countsScript, shard, args...).AsIntSlice()
		if err != nil {
			return nil, failed(err, "measure queue %q", name)
		}
		if len(got) == 0 || len(got) > len(rest)/2 {
			return nil, reply("measure queues")
		}
		for i, n := range got {
			all = append(all, tenantDepth{Depth: queue.Depth{Tenant: rest[2*i], Waiting: n}, position: rest[2*i+1]})
		}
	}
	return all, nil
}
