package idset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Runs are merged for as long as that takes, and ids are added and written meanwhile.
func TestTablesAreWrittenWhileRunsAreMerged(t *testing.T) {
	f := newFile(t, 50)
	s := f.open()
	if !s.sweeping.TryAcquire(1) { // somebody merges
		t.Fatal("a new set is being swept")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var all []ID
	for range 20 {
		ids := random(rng, 50)
		f.add(s, ids, int64(len(all)))
		all = append(all, ids...)
	}
	if n := len(s.snapshot()); n < 15 {
		t.Errorf("%d runs were written meanwhile", n)
	}
	s.sweeping.Release(1)
	if err := s.Sweep(t.Context(), Forget{}); err != nil {
		t.Fatal(err)
	}
	if n := len(s.snapshot()); n > 8 {
		t.Errorf("there are %d runs afterwards", n)
	}
	f.knows(s, all)
	f.knows(f.open(), all)
}

// knows fails unless all ids are known.
func (f *file) knows(s *Set, all []ID) {
	f.t.Helper()
	says := make([]bool, len(all))
	if err := s.Knows(f.t.Context(), all, says); err != nil {
		f.t.Fatal(err)
	}
	for i, is := range says {
		if !is {
			f.t.Fatalf("id %d of %d is not known", i, len(all))
		}
	}
}

// Blocks that a crash has left, of a table and of a merge that had begun before it, are removed, and
// their numbers are not used again before that.
func TestWhatACrashLeftOfRunsIsRemoved(t *testing.T) {
	f := newFile(t, 50)
	s := f.open()
	rng := rand.New(rand.NewPCG(5, 6))
	all := random(rng, 300)
	for i := range 6 {
		f.add(s, all[50*i:50*i+50], int64(50*i))
	}
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := s.snapshot()[0].no
	_, _, before := f.rows()
	const middle, last = 3, 99 // as if that of the merge were 3, and of the table 99
	if err := f.db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		for _, r := range s.runs { // there is no third run
			if r.no == middle {
				for _, do := range []string{"DELETE FROM x_run WHERE no=3", "UPDATE x_block SET id=id+1 WHERE id>>24=3"} {
					if _, err := tx.Exec(do); err != nil {
						return err
					}
				}
			}
		}
		_, err := tx.Exec(fmt.Sprintf("INSERT INTO x_block(id, ids) VALUES (%d, x'00'), (%d, x'00')", int64(last)<<blocks.Bits, int64(last)<<blocks.Bits+7))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s = f.open()
	if left := s.numbers.Left(); len(left) != 2 || first >= last {
		t.Fatalf("unfinished are %d", left)
	}
	f.add(s, random(rng, 60), 1000)
	if err := s.Sweep(t.Context(), Forget{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), Forget{}); err != nil {
		t.Fatal(err)
	}
	if _, _, after := f.rows(); len(s.numbers.Left()) > 0 || after != before { // one more run, and one fewer
		t.Errorf("%d blocks, want %d; unfinished are %d", after, before, s.numbers.Left())
	}
	if left := f.open().numbers.Left(); len(left) > 0 {
		t.Errorf("unfinished are %d", left)
	}
}
