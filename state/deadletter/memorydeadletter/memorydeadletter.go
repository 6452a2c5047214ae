// Package memorydeadletter keeps dead letters in memory: for tests, simulation and data
// that may be lost at a restart. It is the reference of the role's meaning.
package memorydeadletter

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// Store keeps dead letters in memory.
type Store struct {
	o deadletter.Options

	mu      sync.Mutex                             // guards what follows, held for short work in memory only
	letters map[deadletter.Name]*deadletter.Record // all stored ones
	bySeq   map[int64]*deadletter.Record           // the same
	seqs    []int64                                // growing; deleted ones are removed now and then
	books   map[string]*tidemill.Books             // by pipeline; Pending is counted at every change
	seq     int64                                  // the newest given
	bell    bell.Bell                              // rings when a dead letter may be handed out
}

// nameOf is the name under which the dead letter is kept.
func nameOf(l *tidemill.DeadLetter) deadletter.Name {
	return deadletter.Name{Pipeline: l.Pipeline, Tenant: l.Message.Tenant, ID: l.Message.ID}
}

var _ deadletter.Store = (*Store)(nil)

// New makes an empty store.
func New(o deadletter.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{o: o, letters: map[deadletter.Name]*deadletter.Record{}, bySeq: map[int64]*deadletter.Record{},
		books: map[string]*tidemill.Books{}}, nil
}

// Put implements deadletter.Store.
func (s *Store) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	if err := cmp.Or(ctx.Err(), rules.CheckPut(letters)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(letters); err != nil {
		return err
	}
	for i := range letters {
		l := &letters[i]
		r := s.letters[nameOf(l)]
		if r == nil {
			r = new(deadletter.Record)
			r.Put(l)
			s.seq++
			r.Seq = s.seq
			s.letters[r.Name()], s.bySeq[r.Seq] = r, r
			s.seqs = append(s.seqs, r.Seq)
			b := s.book(r.Pipeline)
			b.Accepted++
			b.Pending++
			continue
		}
		if _, another := r.Put(l); another {
			b := s.book(r.Pipeline)
			b.Accepted++
			b.Settled.Skipped++
		}
	}
	return nil
}

// room makes sure that the dead letters fit, or changes nothing.
func (s *Store) room(letters []tidemill.DeadLetter) error {
	named := map[deadletter.Name]bool{}
	fresh := map[string]int{}
	var pipelines []string
	for i := range letters {
		n := nameOf(&letters[i])
		if !named[n] && s.letters[n] == nil {
			if fresh[n.Pipeline] == 0 {
				pipelines = append(pipelines, n.Pipeline)
			}
			fresh[n.Pipeline]++
		}
		named[n] = true
	}
	var trim []*deadletter.Record
	for _, p := range pipelines {
		held := int(s.book(p).Pending)
		over := held + fresh[p] - s.o.Max
		if over <= 0 {
			continue
		}
		if s.o.Trim {
			for _, seq := range s.seqs {
				r := s.bySeq[seq]
				if over > 0 && r != nil && r.Pipeline == p && r.State == deadletter.Held && !named[r.Name()] {
					trim = append(trim, r)
					over--
				}
			}
		}
		if over > 0 {
			return deadletter.Full(p, fresh[p], held, s.o.Max)
		}
	}
	for _, r := range trim {
		s.remove(r)
		s.book(r.Pipeline).Lost++
	}
	return nil
}

func (s *Store) book(pipeline string) *tidemill.Books {
	b := s.books[pipeline]
	if b == nil {
		b = new(tidemill.Books)
		s.books[pipeline] = b
	}
	return b
}

func (s *Store) remove(r *deadletter.Record) {
	delete(s.letters, r.Name())
	delete(s.bySeq, r.Seq)
	s.book(r.Pipeline).Pending--
	if len(s.seqs) > 2*len(s.bySeq)+64 {
		s.seqs = slices.DeleteFunc(s.seqs, func(seq int64) bool { return s.bySeq[seq] == nil })
	}
}

// Has implements deadletter.Store.
func (s *Store) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(ids) != len(marks) {
		return nil, fmt.Errorf("look for dead letters of %q: %d ids and %d marks", pipeline, len(ids), len(marks))
	}
	type at struct {
		id     string
		shard  uint32
		hi, lo uint64
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dead := map[at]bool{}
	for n, r := range s.letters {
		if n.Pipeline == pipeline {
			dead[at{n.ID, r.Mark.Shard, r.Mark.Hi, r.Mark.Lo}] = true
		}
	}
	has := make([]bool, len(ids))
	for i, m := range marks {
		has[i] = dead[at{ids[i], m.Shard, m.Hi, m.Lo}]
	}
	return has, nil
}

// page is how many dead letters List copies at once.
const page = 64

// List implements deadletter.Store.
func (s *Store) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		if err := f.Check(); err != nil {
			yield(nil, err)
			return
		}
		s.mu.Lock()
		seqs := make([]int64, 0, page)
		for _, r := range s.matching(f, false) {
			seqs = append(seqs, r.Seq)
		}
		s.mu.Unlock()
		for chunk := range slices.Chunk(seqs, page) {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			s.mu.Lock()
			var letters []*deadletter.Letter
			for _, seq := range chunk {
				if r := s.bySeq[seq]; r != nil {
					letters = append(letters, r.Clone())
				}
			}
			s.mu.Unlock()
			for _, l := range letters {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// matching returns the dead letters that f chooses, in its order.
func (s *Store) matching(f deadletter.Filter, held bool) []*deadletter.Record {
	var rs []*deadletter.Record
	after, before := f.Between()
	first, _ := slices.BinarySearch(s.seqs, after+1)
	end, _ := slices.BinarySearch(s.seqs, before)
	seqs := slices.Values(s.seqs[min(first, end):end])
	if f.Back {
		seqs = backward(s.seqs[min(first, end):end])
	}
	for seq := range seqs {
		if f.Max > 0 && len(rs) == f.Max {
			break
		}
		if r := s.bySeq[seq]; r != nil && f.Match(&r.Letter) && (!held || r.State == deadletter.Held) {
			rs = append(rs, r)
		}
	}
	return rs
}

func backward(seqs []int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, seq := range slices.Backward(seqs) {
			if !yield(seq) {
				return
			}
		}
	}
}

// Count implements deadletter.Store.
func (s *Store) Count(ctx context.Context, f deadletter.Filter) (int, error) {
	if err := cmp.Or(ctx.Err(), f.Check()); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.matching(f, false)), nil
}

// Replay implements deadletter.Store.
func (s *Store) Replay(ctx context.Context, f deadletter.Filter) (int, error) {
	if err := cmp.Or(ctx.Err(), f.Check()); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.matching(f, true) {
		if r.Replay() {
			n++
		}
	}
	s.bell.Ring()
	return n, nil
}

// Delete implements deadletter.Store.
func (s *Store) Delete(ctx context.Context, f deadletter.Filter) (int, error) {
	if err := cmp.Or(ctx.Err(), f.Check()); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := s.matching(f, true)
	for _, r := range rs {
		s.remove(r)
		s.book(r.Pipeline).Settled.Skipped++
	}
	return len(rs), nil
}

// Edit implements deadletter.Store.
func (s *Store) Edit(ctx context.Context, n deadletter.Name, payload []byte, seen string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.letters[n]
	if r == nil {
		return deadletter.NotFound(n)
	}
	_, err := r.Edit(payload, seen, s.o.Now())
	return err
}

// next is the earliest instant at which a dead letter of the pipeline may be handed out.
func (s *Store) next(pipeline string) (at time.Time, any bool) {
	for _, r := range s.letters {
		if n := r.Next(); r.Pipeline == pipeline && r.State == deadletter.Replaying && (!any || n.Before(at)) {
			at, any = n, true
		}
	}
	return at, any
}
