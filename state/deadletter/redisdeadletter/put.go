package redisdeadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// tries is how often a change is made anew because another instance was faster. Each time
// the other made progress, so this many in a row are not to be expected.
const tries = 1000

// Put implements deadletter.Store: one script reads the stored state, one writes
// everything.
func (s *Store) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	if err := cmp.Or(ctx.Err(), rules.CheckPut(letters)); err != nil || len(letters) == 0 {
		return err
	}
	trim := map[string]int{} // dead letters to drop, by pipeline
	for range tries {
		err := s.put(ctx, letters, trim)
		if errors.Is(err, errConflict) {
			clear(trim)
			continue
		}
		if err != nil && !errors.Is(err, errNoRoom) {
			return fmt.Errorf("put %d dead letters: %w", len(letters), err)
		}
		if err == nil {
			return nil
		}
	}
	return tidemill.Fail(tidemill.Transient, "put %d dead letters: others change them all the time", len(letters))
}

// put tries once. With errNoRoom, trim says how many dead letters are to be dropped.
func (s *Store) put(ctx context.Context, letters []tidemill.DeadLetter, trim map[string]int) error {
	fields := make([]string, len(letters))
	for i := range letters {
		fields[i] = idField(letters[i].Pipeline, letters[i].Message.ID)
	}
	found, err := s.find(ctx, fields)
	if err != nil {
		return err
	}
	edited, err := s.edited(ctx, found)
	if err != nil {
		return err
	}
	c := commit{all: true, limit: s.o.Max}
	type name struct{ field, tenant string }
	at := map[name]int{} // index of its change, and one more
	fresh := map[string]int{}
	dying := map[int64]bool{}
	for i := range letters {
		l := &letters[i]
		n := name{fields[i], l.Message.Tenant}
		if k := at[n]; k > 0 { // twice in one call
			ch := &c.changes[k-1]
			if changed, another := ch.r.Put(l); changed {
				ch.fields, ch.history, ch.replaced = encodeEntry(ch.r), true, ch.replaced+truth(another)
			}
			continue
		}
		ch := change{kind: "add", r: new(deadletter.Record), old: found[fields[i]].raw, history: true}
		if r, ok := found[fields[i]].of(l.Message.Tenant); ok {
			if whole, ok := edited[r.Seq]; ok {
				r = whole
			}
			ch.kind, ch.r, ch.old = "set", r.Record, r.old
			dying[r.Seq] = true
		}
		changed, another := ch.r.Put(l)
		if !changed {
			continue
		}
		ch.replaced = truth(another)
		if ch.kind == "add" {
			fresh[l.Pipeline]++
		}
		ch.fields = encodeEntry(ch.r)
		c.changes = append(c.changes, ch)
		at[n] = len(c.changes)
	}
	if len(c.changes) == 0 {
		return nil
	}
	for i, n := 0, len(c.changes); i < n; i++ { // in the order of the dead letters
		p := c.changes[i].r.Pipeline
		if trim[p] == 0 || c.changes[i].kind != "add" {
			continue
		}
		old, err := s.oldest(ctx, p, trim[p], dying)
		if err != nil {
			return err
		}
		if len(old) < trim[p] {
			return deadletter.Full(p, fresh[p], s.o.Max, s.o.Max)
		}
		for _, r := range old {
			c.changes = append(c.changes, change{kind: "del", r: r.Record, old: r.old, book: "lost"})
		}
		trim[p] = 0
	}
	_, err = c.run(ctx, s)
	if errors.Is(err, errNoRoom) {
		p, there := c.overfull.pipeline, c.overfull.letters
		if !s.o.Trim {
			return deadletter.Full(p, fresh[p], there, s.o.Max)
		}
		trim[p] = there + fresh[p] - s.o.Max
	}
	return err
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// edited reads those dead letters that were edited, with their messages.
func (s *Store) edited(ctx context.Context, found map[string]*list) (map[int64]stored, error) {
	var seqs []int64
	for _, l := range found {
		for _, r := range l.letters {
			if !r.Edited.IsZero() {
				seqs = append(seqs, r.Seq)
			}
		}
	}
	letters, err := s.whole(ctx, seqs, wholeRows)
	if err != nil {
		return nil, err
	}
	bySeq := make(map[int64]stored, len(letters))
	for _, r := range letters {
		bySeq[r.Seq] = r
	}
	return bySeq, nil
}

// oldest returns the n oldest held dead letters of a pipeline that are not dying again in
// this call.
func (s *Store) oldest(ctx context.Context, pipeline string, n int, dying map[int64]bool) ([]stored, error) {
	var old []stored
	for after := int64(0); len(old) < n; {
		page, last, err := s.page(ctx, s.held(pipeline), after, newest+1, pageRows, false)
		if err != nil {
			return nil, err
		}
		if last == 0 {
			break
		}
		for _, r := range page {
			if len(old) < n && !dying[r.Seq] {
				old = append(old, r)
			}
		}
		after = last
	}
	return old, nil
}

// newest is above every seq: these are given one by one.
const newest = 1 << 53
