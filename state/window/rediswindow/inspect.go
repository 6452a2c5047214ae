package rediswindow

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// listPage is how many windows of a shard are read at once.
const listPage = 100

// listing is one shard's windows that are still to be listed.
type listing struct {
	s     *Store
	shard int
	set   string
	back  bool
	from  string // the score that it goes on at
	read  []*entry.Entry
	done  bool
}

// listingOf begins a listing of a shard. Windows of two shards may have one revision; then that of
// the smaller shard comes first.
func (s *Store) listingOf(shard int, set string, f window.Filter) *listing {
	l := &listing{s: s, shard: shard, set: set, back: f.Back, from: "-inf"}
	if f.Back {
		l.from = "+inf"
	}
	if batch, revision, ok := window.ParseID(f.After); ok {
		l.from = strconv.FormatUint(revision, 10)
		if at := s.shard(batch); shard == at || (shard < at) != f.Back {
			l.from = "(" + l.from
		}
	}
	return l
}

// peek is the next window; nil: none.
func (l *listing) peek(ctx context.Context) (*entry.Entry, error) {
	if len(l.read) == 0 && !l.done {
		command, to := "ZRANGEBYSCORE", "+inf"
		if l.back {
			command, to = "ZREVRANGEBYSCORE", "-inf"
		}
		got, err := l.s.run(ctx, listScript, l.shard, l.set, command, l.from, to, strconv.Itoa(listPage)).ToArray()
		if err != nil {
			return nil, failed(err, "list windows")
		}
		for _, m := range got {
			e, err := l.s.entry(m)
			if err != nil {
				return nil, err
			}
			l.read, l.from = append(l.read, e), "("+strconv.FormatUint(e.Revision, 10)
		}
		l.done = len(got) < listPage
	}
	if len(l.read) == 0 {
		return nil, nil
	}
	return l.read[0], nil
}

// before says whether the next window of this shard comes before that of another, a smaller one.
func (l *listing) before(e, other *entry.Entry) bool {
	if l.back {
		return e.Revision >= other.Revision
	}
	return e.Revision < other.Revision
}

// List implements window.Inspector: the shards' windows in the order of their revisions.
func (s *Store) List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error] {
	return func(yield func(*window.Info, error) bool) {
		set := "all"
		if f.State != "" {
			if set = string(f.State); !slices.Contains(window.States(), f.State) {
				return
			}
		}
		shards := make([]*listing, len(s.tags))
		for i := range shards {
			shards[i] = s.listingOf(i, set, f)
		}
		for n := 0; f.Max == 0 || n < f.Max; {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			var first *entry.Entry
			var of *listing
			for _, l := range shards {
				e, err := l.peek(ctx)
				if err != nil {
					yield(nil, err)
					return
				}
				if e != nil && (first == nil || l.before(e, first)) {
					first, of = e, l
				}
			}
			if first == nil {
				return
			}
			of.read = of.read[1:]
			if f.Matches(&first.Info) {
				if n++; !yield(&first.Info, nil) {
					return
				}
			}
		}
	}
}

// Look implements window.Inspector.
func (s *Store) Look(ctx context.Context, id string) (*window.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	batch, revision, ok := window.ParseID(id)
	if !ok {
		return nil, window.NotFound(id)
	}
	m, err := s.run(ctx, lookScript, s.shard(batch), strconv.FormatUint(revision, 10), batch).ToMessage()
	if err != nil {
		return nil, failed(err, "look at window %q", id)
	}
	if all, err := m.ToArray(); err == nil && len(all) == 0 {
		return nil, window.NotFound(id)
	}
	e, err := s.entry(m)
	if err != nil {
		return nil, err
	}
	return &e.Info, nil
}

// CloseNow implements window.Inspector.
func (s *Store) CloseNow(ctx context.Context, batch string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	n, err := s.run(ctx, closeScript, s.shard(batch), batch).AsInt64()
	return n == 1, failed(err, "close the window of batch %q", batch)
}

// Replay implements window.Inspector: in steps, so that others do not wait long.
func (s *Store) Replay(ctx context.Context, f window.Filter) (total int, err error) {
	if f.State != "" && f.State != window.Parked {
		return 0, ctx.Err()
	}
	f.State = window.Parked
	step := make([][]string, len(s.tags))
	n := 0
	flush := func() error {
		for shard, nos := range step {
			if len(nos) == 0 {
				continue
			}
			n, err := s.run(ctx, replayScript, shard, nos...).AsInt64()
			if err != nil {
				return failed(err, "replay %d windows", len(nos))
			}
			total += int(n)
			step[shard] = nil
		}
		n = 0
		return nil
	}
	for i, err := range s.List(ctx, f) {
		if err != nil {
			return total, err
		}
		shard := s.shard(i.Batch)
		step[shard] = append(step[shard], strconv.FormatUint(i.Revision, 10))
		if n++; n == listPage {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// Stats implements window.Inspector: from what is counted at every change.
func (s *Store) Stats(ctx context.Context) (t window.Stats, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	for shard := range s.tags {
		n, err := s.run(ctx, statsScript, shard).AsIntSlice()
		if err == nil && len(n) != 14 {
			err = reply("read stats")
		}
		if err != nil {
			return window.Stats{}, failed(err, "read the stats of windows")
		}
		for i, state := range window.States() {
			d := t.Of(state)
			d.Windows, d.Records = d.Windows+n[3*i], d.Records+n[3*i+1]
			if at := wire.Instant(n[3*i+2]); !at.IsZero() && (d.Oldest.IsZero() || at.Before(d.Oldest)) {
				d.Oldest = at
			}
		}
		t.Lost += uint64(n[12])
		if now := time.UnixMilli(n[13]).UTC(); now.After(t.Now) {
			t.Now = now
		}
	}
	return t, nil
}
