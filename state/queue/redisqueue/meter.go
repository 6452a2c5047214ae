package redisqueue

import (
	"cmp"
	"context"
	"slices"
	"strconv"

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
	all, _, err = s.depths(ctx, name, 0)
	return all, err
}

// Tenants implements queue.Meter.
func (s *Store) Tenants(ctx context.Context, name string, most int) (all []queue.Depth, err error) {
	most = cmp.Or(most, 100)
	_, all, err = s.depths(ctx, name, 10*most)
	slices.SortFunc(all, rules.Deeper)
	return all[:min(len(all), most)], err
}

// queuesAtOnce are looked at in one script.
const queuesAtOnce = 64

// Tenant implements queue.Meter.
func (s *Store) Tenant(ctx context.Context, tenant string) (all []queue.Depth, err error) {
	names, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	of := make([]queue.Depth, len(names))
	for shard := range s.tags {
		for from := 0; from < len(names); from += queuesAtOnce {
			some := names[from:min(len(names), from+queuesAtOnce)]
			got, err := s.run(ctx, tenantScript, shard, append([]string{tenant}, some...)...).AsIntSlice()
			if err != nil {
				return nil, failed(err, "look for what waits of a tenant")
			}
			for i := 0; i+2 < len(got); i += 3 {
				if got[i] < 0 || got[i] >= int64(len(some)) {
					return nil, reply("look for what waits of a tenant")
				}
				d := &of[from+int(got[i])]
				d.Waiting, d.Oldest = d.Waiting+got[i+1], older(d.Oldest, got[i+2])
			}
		}
	}
	for i, d := range of {
		if d.Waiting > 0 {
			d.Queue, d.Tenant = names[i], tenant
			all = append(all, d)
		}
	}
	return all, nil
}

func (s *Store) depths(ctx context.Context, name string, tenants int) (priorities, of []queue.Depth, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	byPriority, byTenant := map[uint8]*queue.Depth{}, map[string]*queue.Depth{}
	for shard := range s.tags {
		got, err := s.run(ctx, depthsScript, shard, name, strconv.Itoa(tenants)).ToArray()
		if err != nil {
			return nil, nil, failed(err, "measure queue %q", name)
		}
		for i := 0; i+3 < len(got); i += 4 {
			p, err1 := got[i].AsInt64()
			n, err2 := got[i+1].AsInt64()
			ms, err3 := got[i+2].AsInt64()
			each, err4 := got[i+3].ToArray()
			if cmp.Or(err1, err2, err3, err4) != nil {
				return nil, nil, reply("measure queues")
			}
			d := byPriority[uint8(p)]
			if d == nil {
				d = &queue.Depth{Priority: uint8(p)}
				byPriority[d.Priority] = d
			}
			d.Waiting, d.Oldest = d.Waiting+n, older(d.Oldest, ms)
			for j := 0; j+2 < len(each); j += 3 {
				tenant, err1 := each[j].ToString()
				n, err2 := each[j+1].AsInt64()
				ms, err3 := each[j+2].AsInt64()
				if cmp.Or(err1, err2, err3) != nil {
					return nil, nil, reply("measure queues")
				}
				d := byTenant[tenant]
				if d == nil {
					d = &queue.Depth{Tenant: tenant}
					byTenant[tenant] = d
				}
				d.Waiting, d.Oldest = d.Waiting+n, older(d.Oldest, ms)
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
