package redisdeadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Has implements deadletter.Store.
func (s *Store) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	if len(ids) != len(marks) {
		return nil, fmt.Errorf("look for dead letters of %q: %d ids and %d marks", pipeline, len(ids), len(marks))
	}
	fields := make([]string, len(ids))
	for i, id := range ids {
		fields[i] = idField(pipeline, id)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := s.find(ctx, fields)
	if err != nil {
		return nil, fmt.Errorf("look for %d dead letters of %q: %w", len(ids), pipeline, err)
	}
	has := make([]bool, len(ids))
	for i, m := range marks {
		has[i] = slices.ContainsFunc(found[fields[i]].letters, func(r stored) bool { return r.Mark.At(m) })
	}
	return has, nil
}

// scan calls do with the dead letters that f chooses, page by page in order of Seq, or
// back, up to the newest when it began. Each page is a snapshot of its own.
func (s *Store) scan(ctx context.Context, f deadletter.Filter, do func([]stored) error) error {
	if err := cmp.Or(ctx.Err(), f.Check()); err != nil {
		return err
	}
	if err := s.adopt(ctx); err != nil {
		return err
	}
	upto, err := s.client.Do(ctx, s.client.B().Get().Key(s.seq).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return failed(err)
	}
	if len(f.Seqs) > 0 || f.Pipeline != "" && len(f.IDs) > 0 {
		return s.named(ctx, f, upto, do)
	}
	set := s.order
	if f.Pipeline != "" && f.State == deadletter.Held {
		set = s.held(f.Pipeline)
	}
	next := func(after, before int64, most int) ([]stored, int64, error) {
		return s.page(ctx, set, after, before, most, f.Back)
	}
	if f.Cause != "" {
		groups, err := s.ofCause(ctx, &f)
		if err != nil || len(groups) == 0 {
			return err
		}
		f.Cause = ""
		next = func(after, before int64, most int) ([]stored, int64, error) {
			return s.pageOf(ctx, groups, after, before, most, f.Back)
		}
	}
	chosen := 0
	after, before := f.Between()
	before = min(before, upto+1)
	rows := pageRows
	if f.Max > 0 {
		rows = min(rows, f.Max) // the first time: most filters choose nearly all
	}
	for f.Max == 0 || chosen < f.Max {
		page, last, err := next(after, before, rows)
		if err != nil || last == 0 {
			return err
		}
		if after, rows = last, pageRows; f.Back {
			after, before = 0, last
		}
		page = slices.DeleteFunc(page, func(r stored) bool { return !f.Match(&r.Letter) })
		if f.Max > 0 {
			page = page[:min(len(page), f.Max-chosen)]
		}
		if chosen += len(page); len(page) == 0 {
			continue
		}
		if err := do(page); err != nil {
			return err
		}
	}
	return nil
}

// named is scan for named dead letters: it reads nothing else.
func (s *Store) named(ctx context.Context, f deadletter.Filter, upto int64, do func([]stored) error) error {
	var all []stored
	keep := func(r stored) {
		if r.Seq <= upto && f.Match(&r.Letter) {
			all = append(all, r)
		}
	}
	if len(f.Seqs) > 0 {
		found, err := s.letters(ctx, f.Seqs, f.Cause != "")
		if err != nil {
			return err
		}
		for _, r := range found {
			keep(r)
		}
	} else {
		fields := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			fields[i] = idField(f.Pipeline, id)
		}
		found, err := s.find(ctx, fields)
		if err != nil {
			return err
		}
		for _, l := range found {
			for _, r := range l.letters {
				keep(r)
			}
		}
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.Seq, b.Seq) })
	if f.Back {
		slices.Reverse(all)
	}
	if f.Max > 0 {
		all = all[:min(len(all), f.Max)]
	}
	for part := range slices.Chunk(all, pageRows) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// List implements deadletter.Store.
func (s *Store) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		err := s.scan(ctx, f, func(page []stored) error {
			for part := range slices.Chunk(page, wholeRows) {
				seqs := make([]int64, len(part))
				for i, r := range part {
					seqs[i] = r.Seq
				}
				letters, err := s.whole(ctx, seqs, wholeRows)
				if err != nil {
					return err
				}
				for _, r := range letters {
					if !yield(&r.Letter, nil) {
						return errEnough
					}
				}
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(nil, fmt.Errorf("list dead letters: %w", err))
		}
	}
}

var errEnough = errors.New("the caller has enough")

// Count implements deadletter.Store. The numbers of a pipeline, of its states, and of all are
// counted already.
func (s *Store) Count(ctx context.Context, f deadletter.Filter) (n int, err error) {
	if sets := s.sets(f); sets != nil {
		n, err = s.size(ctx, sets)
		if f.Max > 0 {
			n = min(n, f.Max)
		}
	} else {
		err = s.scan(ctx, f, func(page []stored) error {
			n += len(page)
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

// sets are those that have what a filter chooses, and nothing else; nil: no sets are so.
func (s *Store) sets(f deadletter.Filter) []string {
	switch {
	case f.Only != nil || f.Tenant != "" || f.Cause != "" || len(f.Kinds)+len(f.NotKinds)+len(f.IDs)+len(f.Seqs) > 0 || !f.After.IsZero() || !f.Before.IsZero() || f.Replays > 0 || f.AfterSeq > 0:
		return nil
	case f.Pipeline == "" && f.State == "":
		return []string{s.order}
	case f.Pipeline == "":
		return nil
	case f.State == deadletter.Held:
		return []string{s.held(f.Pipeline)}
	case f.State == deadletter.Replaying:
		return []string{s.ready(f.Pipeline), s.later(f.Pipeline)}
	case f.State == "":
		return s.keysOf(f.Pipeline)[:3]
	}
	return nil
}

// size is how many dead letters are in sets.
func (s *Store) size(ctx context.Context, sets []string) (int, error) {
	if err := s.adopt(ctx); err != nil {
		return 0, err
	}
	n, err := sizeScript.Exec(ctx, s.client, sets, nil).AsInt64()
	if err != nil {
		return 0, failed(err)
	}
	return int(n), nil
}

// sizeScript adds up sets at one moment.
var sizeScript = rueidis.NewLuaScript(`
local n = 0
for _, set in ipairs(KEYS) do n = n + redis.call('ZCARD', set) end
return n`)
