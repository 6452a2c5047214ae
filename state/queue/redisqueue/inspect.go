package redisqueue

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// How many jobs are read at once for a listing: where few may be meant, about those of a bucket.
const (
	pageJobs = 250
	lookJobs = 1000
)

// Stats implements queue.Inspector.
func (s *Store) Stats(ctx context.Context, name string) (queue.Stats, error) {
	all, err := s.standing(ctx, name)
	if err != nil {
		return queue.Stats{}, failed(err, "count the jobs of queue %q", name)
	}
	return all[0].Stats, nil
}

// older is the earlier of a time and one in milliseconds; -1: none.
func older(t time.Time, ms int64) time.Time {
	if at := time.UnixMilli(ms).UTC(); ms >= 0 && (t.IsZero() || at.Before(t)) {
		return at
	}
	return t
}

// List implements queue.Inspector. With several shards, it lists the jobs of each in order, one
// shard after the other; or all that from its end.
func (s *Store) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		left := f.Max
		for f, err := range s.found(ctx, f) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&f.Job, nil) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// found is a job found for a listing.
type found struct {
	queue.Job
	shard   int
	pos     string
	rec     string
	damaged error // why it cannot be read: its name is not known
}

// found yields the jobs that a filter chooses. Its Max says how many are read at first, no more:
// they may turn out to be others.
func (s *Store) found(ctx context.Context, f queue.Filter) iter.Seq2[*found, error] {
	return func(yield func(*found, error) bool) {
		names, looks := []string{f.Queue}, &rules.Looks{Most: f.Look}
		if f.Queue == "" {
			var err error
			if names, err = s.Queues(ctx); err != nil {
				yield(nil, err)
				return
			}
		}
		if f.Back {
			slices.Reverse(names)
		}
		for _, name := range names {
			for shard := range s.tags {
				if f.Back {
					shard = len(s.tags) - 1 - shard
				}
				for j, err := range s.search(ctx, name, shard, f, looks) {
					if err == nil && j.damaged != nil && len(f.IDs) == 1 {
						j.ID = f.IDs[0] // it was found by this ID
					}
					if err == nil && !f.Matches(&j.Job) {
						if len(f.IDs) == 0 {
							err = looks.Pass(j.Mark)
						}
						if err == nil {
							continue
						}
						j = nil
					}
					if !yield(j, err) || err != nil {
						return
					}
					if f.Max > 1 {
						f.Max-- // for the shards to come
					}
				}
			}
		}
	}
}

// search yields jobs of one shard of a queue, among them all that the filter may choose.
func (s *Store) search(ctx context.Context, name string, shard int, f queue.Filter, looks *rules.Looks) iter.Seq2[*found, error] {
	way, after, ok := begin(f, shard)
	switch {
	case !ok:
		return func(func(*found, error) bool) {}
	case len(f.IDs) > 0:
		return s.named(ctx, name, shard, f, after)
	}
	return func(yield func(*found, error) bool) {
		at, newest, most := strconv.FormatUint(after, 10), "", pageJobs
		if f.Max > 0 {
			most = min(f.Max, pageJobs) // the first time: most filters choose nearly all
		}
		next := pageJobs
		if f.Type != "" { // which is in the records alone
			next = lookJobs
		}
		for more := true; more; more = at != "" {
			p, err := s.page(ctx, name, shard, way, at, strconv.Itoa(most), string(f.State), newest, f.Tenant, before(f), strconv.Itoa(looks.Left()))
			if err == nil {
				if at, newest, err = p.on, p.newest, ctx.Err(); err != nil {
					p.jobs = nil
				}
			}
			if most -= len(p.jobs); most <= 0 {
				most = next
			}
			if err == nil && p.passed > 0 {
				on, _ := strconv.ParseUint(p.on, 10, 64) // a script wrote it
				err = looks.Add(p.passed, tidemill.Mark{Hi: uint64(shard), Lo: on})
			}
			if !each(p.jobs, err, yield) {
				return
			}
		}
	}
}

// before is when those that have not ended were added before, in milliseconds; empty: at any time.
func before(f queue.Filter) string {
	if f.Before.IsZero() || f.State != "" && !f.State.Held() {
		return ""
	}
	return strconv.FormatInt(queue.MillisUp(f.Before).UnixMilli(), 10)
}

// each yields jobs, then the error, if any; false: that was all that is to be yielded.
func each(jobs []*found, err error, yield func(*found, error) bool) bool {
	for _, j := range jobs {
		if !yield(j, nil) {
			return false
		}
	}
	if err != nil {
		yield(nil, err)
	}
	return err == nil
}

// named yields the jobs of a shard that have one of the filter's IDs, or seem to, behind a position
// or before it.
func (s *Store) named(ctx context.Context, name string, shard int, f queue.Filter, after uint64) iter.Seq2[*found, error] {
	return func(yield func(*found, error) bool) {
		args := []string{name, "ids"}
		for _, id := range f.IDs {
			if s.shard(id) == shard || len(s.tags) > 1 { // a forwarded job lies with its parent
				args = append(args, idDigest(id))
			}
		}
		some, err := s.positions(ctx, shard, args)
		some = slices.DeleteFunc(some, func(pos string) bool {
			n, err := strconv.ParseUint(pos, 10, 64)
			return err == nil && (n <= after && !f.Back || n >= after && f.Back)
		})
		slices.SortFunc(some, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		if some = slices.Compact(some); f.Back {
			slices.Reverse(some)
		}
		for more := true; more; more = len(some) > 0 {
			var p page
			part := some[:min(len(some), pageJobs)]
			if err = cmp.Or(err, ctx.Err()); err == nil && len(part) > 0 {
				p, err = s.page(ctx, name, shard, append([]string{"these"}, part...)...)
			}
			if p.on != "" { // a page ends early where jobs are large
				part = part[:slices.Index(part, p.on)+1]
			}
			if some = some[len(part):]; !each(p.jobs, err, yield) {
				return
			}
		}
	}
}

// begin says which way a listing goes through a shard, and from which position on; false: it has
// nothing of that shard.
func begin(f queue.Filter, shard int) (way string, at uint64, ok bool) {
	way, at = "after", 0
	if f.Back {
		way, at = "before", math.MaxUint64
	}
	if f.After == (tidemill.Mark{}) {
		return way, at, true
	}
	switch c := cmp.Compare(uint64(shard), f.After.Hi); {
	case c == 0:
		return way, f.After.Lo, true
	case f.Back:
		return way, at, c < 0
	default:
		return way, at, c > 0
	}
}

func (s *Store) positions(ctx context.Context, shard int, args []string) ([]string, error) {
	got, err := s.run(ctx, pageScript, shard, args...).ToArray()
	if err != nil {
		return nil, failed(err, "list jobs of queue %q", args[0])
	}
	if len(got) < 2 {
		return nil, reply("list jobs")
	}
	return got[1].AsStrSlice()
}

// page is some jobs that were read.
type page struct {
	jobs   []*found
	on     string // where to look on; empty: there are no more
	newest string // the position of the newest job of the shard
	passed int    // others that were looked at
}

// page reads jobs.
func (s *Store) page(ctx context.Context, name string, shard int, args ...string) (p page, err error) {
	got, err := s.run(ctx, pageScript, shard, append([]string{name}, args...)...).ToArray()
	if err != nil {
		return p, failed(err, "list jobs of queue %q", name)
	}
	if len(got) != 6 {
		return p, reply("list jobs")
	}
	no, err1 := got[0].AsInt64()
	flat, err2 := got[1].ToArray()
	sum, err3 := got[2].ToString()
	on, err4 := got[3].ToString()
	newest, err5 := got[4].ToString()
	passed, err6 := got[5].AsInt64()
	if cmp.Or(err1, err2, err3, err4, err5, err6) != nil || len(flat)%6 != 0 {
		return p, reply("list jobs")
	}
	p.on, p.newest, p.passed = on, newest, int(passed)
	for i := 0; i < len(flat); i += 6 {
		j, err := s.show(ctx, name, shard, uint32(no), sum, flat[i:i+6])
		if err != nil {
			return p, err
		}
		p.jobs = append(p.jobs, j)
	}
	return p, nil
}

// show makes a job from a page's answer: position, state, when it comes due, late,
// failures, record.
func (s *Store) show(ctx context.Context, name string, shard int, no uint32, sum string, is []rueidis.RedisMessage) (*found, error) {
	pos, err1 := is[0].ToString()
	state, err2 := is[1].ToString()
	at, err3 := is[2].AsInt64()
	text, err4 := is[3].ToString()
	fails, err5 := is[4].ToString()
	rec, err6 := is[5].ToString()
	n, err7 := strconv.ParseUint(pos, 10, 64)
	if cmp.Or(err1, err2, err3, err4, err5, err6, err7) != nil {
		return nil, reply("list jobs")
	}
	d, err := s.unpacker(ctx, shard, name, sum, rec)
	if err != nil {
		return nil, err
	}
	j := &found{shard: shard, pos: pos, rec: rec}
	j.Failures = readFailures(fails)
	l := readLate(text)
	if j.Added, err = readRecord(rec, &j.Message, d); err != nil { // the other fields are shown anyway
		j.damaged = tidemill.Fail(tidemill.Internal, "job at position %s of queue %q: %w", pos, name, err)
		j.Message, l.cause = tidemill.Message{Tenant: j.Tenant, Priority: j.Priority}, err.Error()
	}
	j.State, j.Cause, j.Tries, j.Handed, j.To = queue.State(state), l.cause, l.tries, l.handed, name
	j.Mark = tidemill.Mark{Shard: no, Hi: uint64(shard), Lo: n}
	switch {
	case !j.State.Held():
		j.Fate, j.Ended = l.fate, time.UnixMilli(l.ended).UTC()
	case j.State == queue.Leased:
		j.Handed++
	case j.State == queue.Delayed:
		j.At = time.UnixMilli(at).UTC()
	}
	return j, nil
}
