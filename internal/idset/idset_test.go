package idset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// file is a set in a file that can be opened again.
type file struct {
	t  *testing.T
	db *sqlitedb.DB
	o  Options
}

func newFile(t *testing.T, table int) *file {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(t.Context(), "ids", []string{Schema("x")}); err != nil {
		t.Fatal(err)
	}
	return &file{t, db, Options{Name: "x", Table: table}}
}

func (f *file) open() *Set {
	f.t.Helper()
	s, err := Open(f.t.Context(), f.db, f.o)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// rows counts those of the tables.
func (f *file) rows() (logs, runs, blocks int) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT (SELECT count(*) FROM x_log), (SELECT count(*) FROM x_run), (SELECT count(*) FROM x_block)").Scan(&logs, &runs, &blocks)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return logs, runs, blocks
}

// add adds ids as a caller does; the position of each is its place in ids after from.
func (f *file) add(s *Set, ids []ID, from int64) (says []int, at []int64) {
	f.t.Helper()
	says, at = make([]int, len(ids)), make([]int64, len(ids))
	if err := s.Relieve(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	c, err := s.Claim(f.t.Context(), ids, says, at)
	if err != nil {
		f.t.Fatal(err)
	}
	f.store(s, c, ids, says, from)
	return says, at
}

func (f *file) store(s *Set, c *Claim, ids []ID, says []int, from int64) {
	f.t.Helper()
	var entries []Entry
	positions := make([]int64, len(c.Held))
	for k, i := range c.Held {
		if says[i] == New {
			positions[k] = from + int64(i) + 1
			entries = append(entries, Entry{ids[i], positions[k]})
		}
	}
	if err := f.db.Write(f.t.Context(), func(tx *sqlitedb.Tx) error { return c.Group().Log(tx, entries) }); err != nil {
		f.t.Fatal(err)
	}
	s.Resolve(c, positions)
}

func random(rng *rand.Rand, n int) []ID {
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = ID{rng.Uint64(), rng.Uint64()}
	}
	return ids
}

// Ids are found whether they are in memory, in the log, in young or in merged runs, and after each
// start; others are not.
func TestWhatWasAddedIsKnown(t *testing.T) {
	f := newFile(t, 50)
	rng := rand.New(rand.NewPCG(1, 2))
	s := f.open()
	var all []ID
	for round := range 200 {
		ids := random(rng, 1+rng.IntN(60))
		for i, id := range ids { // some of one hash
			if i > 0 && rng.IntN(4) == 0 {
				ids[i] = ID{ids[i-1].Hash, id.Check}
			}
		}
		says, _ := f.add(s, ids, int64(len(all)))
		for i, say := range says {
			if say != New {
				t.Fatalf("round %d: new id %d is said to be %d", round, i, say)
			}
		}
		all = append(all, ids...)
		if round%7 == 0 {
			if err := s.Sweep(t.Context(), Forget{}); err != nil {
				t.Fatal(err)
			}
		}
		if round%31 == 0 {
			s = f.open()
		}
	}
	for range 2 {
		for from := 0; from < len(all); from += 500 {
			part := all[from:min(from+500, len(all))]
			says, at := f.add(s, part, 1<<40)
			for i, say := range says {
				if want := int64(from+i) + 1; say != Known || at[i] != want {
					t.Fatalf("id %d is said to be %d at %d, want known at %d", from+i, say, at[i], want)
				}
			}
		}
		known := make([]bool, 1000)
		if err := s.Knows(t.Context(), random(rng, len(known)), known); err != nil {
			t.Fatal(err)
		}
		for i, is := range known {
			if is {
				t.Fatalf("id %d that nobody has added is known", i)
			}
		}
		s = f.open()
	}
	if at, err := s.At(t.Context(), all[17].Hash); err != nil || len(at) == 0 {
		t.Errorf("positions of a hash: %v, %v", at, err)
	}
	if _, runs, _ := f.rows(); runs > 3*mergeRuns {
		t.Errorf("%d ids are in %d runs", len(all), runs)
	}
}

func TestAnIDTwiceInACall(t *testing.T) {
	f := newFile(t, 10)
	s := f.open()
	a, b := ID{1, 1}, ID{1, 2}
	for i, c := range []struct{ want, at string }{{"[-1 -1 0 1 0]", "[0 0 0 0 0]"}, {"[-2 -2 -2 -2 -2]", "[1 2 1 2 1]"}} {
		says, at := f.add(s, []ID{a, b, a, b, a}, 0)
		if fmt.Sprint(says) != c.want || fmt.Sprint(at) != c.at {
			t.Errorf("call %d says %v at %v, want %v at %v", i, says, at, c.want, c.at)
		}
	}
}

// A caller waits for another that adds one of its ids, holding nothing, and then gets it or knows it.
func TestCallersOfOneIDWaitForEachOther(t *testing.T) {
	for _, stored := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFile(t, 10)
			s := f.open()
			ids := []ID{{1, 1}, {2, 2}}
			first, err := s.Claim(t.Context(), ids[1:], make([]int, 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			says, done := make([]int, 2), make(chan *Claim, 1)
			go func() {
				c, err := s.Claim(t.Context(), ids, says, nil)
				if err != nil {
					t.Error(err)
				}
				done <- c
			}()
			synctest.Wait()
			select {
			case <-done:
				t.Fatal("two callers hold one id")
			default:
			}
			free, err := s.Claim(t.Context(), ids[:1], make([]int, 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Resolve(free, nil)
			want := New
			if stored {
				f.store(s, first, ids[1:], []int{New}, 0)
				want = Known
			} else {
				s.Resolve(first, nil)
			}
			c := <-done
			if says[0] != New || says[1] != want {
				t.Errorf("stored %v: says %v", stored, says)
			}
			s.Resolve(c, nil)
			_ = f.db.Close()
		})
	}
}

func TestAWaitingCallerGivesUpWithItsContext(t *testing.T) {
	f := newFile(t, 10)
	s := f.open()
	ids := []ID{{1, 1}}
	held, err := s.Claim(t.Context(), ids, make([]int, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Claim(ctx, ids, make([]int, 1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Claim: %v", err)
	}
	if _, err := s.Renew(ctx, ids); !errors.Is(err, context.Canceled) {
		t.Errorf("Renew: %v", err)
	}
	s.Resolve(held, nil)
	if known := []bool{true}; s.Knows(t.Context(), ids, known) != nil || known[0] {
		t.Error("an id that was given up is known")
	}
}

// Many callers add what overlaps, while runs are written and merged: each id is new for one of them.
func TestEachIDIsNewOnce(t *testing.T) {
	f := newFile(t, 64)
	s := f.open()
	pool := random(rand.New(rand.NewPCG(3, 4)), 4000)
	var mu sync.Mutex
	times := map[ID]int{}
	var all sync.WaitGroup
	for w := range 4 {
		rng := rand.New(rand.NewPCG(5, uint64(w)))
		all.Go(func() {
			for range 100 {
				ids := make([]ID, 40)
				for i := range ids {
					ids[i] = pool[rng.IntN(len(pool))]
				}
				says := make([]int, len(ids))
				if err := s.Relieve(t.Context()); err != nil {
					t.Error(err)
					return
				}
				c, err := s.Claim(t.Context(), ids, says, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(5) == 0 { // its transaction fails
					s.Resolve(c, nil)
					continue
				}
				f.store(s, c, ids, says, int64(w)<<32)
				mu.Lock()
				for i, say := range says {
					if say == New {
						times[ids[i]]++
					}
				}
				mu.Unlock()
			}
		})
	}
	stop, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			default:
				if err := s.Sweep(t.Context(), Forget{}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	all.Wait()
	close(stop)
	<-swept
	for _, s := range []*Set{s, f.open()} {
		known := make([]bool, len(pool))
		if err := s.Knows(t.Context(), pool, known); err != nil {
			t.Fatal(err)
		}
		for i, id := range pool {
			if n := times[id]; n > 1 || known[i] != (n == 1) {
				t.Fatalf("id %d was new %d times, and is known: %v", i, n, known[i])
			}
		}
	}
}

func TestOldIDsAreForgottenUnlessHeld(t *testing.T) {
	f := newFile(t, 100)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.o.Now = func() time.Time { return now }
	s := f.open()
	ids := random(rand.New(rand.NewPCG(1, 2)), 300)
	f.add(s, ids, 0)
	old := Forget{Before: now.Add(time.Hour), Held: func(context.Context) (func(int64) bool, error) {
		return func(pos int64) bool { return pos%3 == 0 }, nil
	}}
	if err := s.Sweep(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		known := make([]bool, len(ids))
		if err := s.Knows(t.Context(), ids, known); err != nil {
			t.Fatal(err)
		}
		for i, is := range known {
			if held := (i+1)%3 == 0; is != held {
				t.Fatalf("id %d is held: %v, known: %v", i, held, is)
			}
		}
		s = f.open()
	}
	away := errors.New("away")
	old.Held = func(context.Context) (func(int64) bool, error) { return nil, away }
	if err := s.Sweep(t.Context(), old); !errors.Is(err, away) {
		t.Errorf("Sweep: %v", err)
	}
}

func TestBlocksOfABrokenOffRunAreCleared(t *testing.T) {
	f := newFile(t, 10)
	if err := f.db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("INSERT INTO x_block(id,ids) VALUES(?,x'00'),(?,x'00')", 1<<blocks.Bits, 7<<blocks.Bits|3)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s := f.open()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		f.add(s, random(rng, 1), 0)
	}
	if err := s.Sweep(t.Context(), Forget{}); err != nil {
		t.Fatal(err)
	}
	if _, runs, blocks := f.rows(); blocks != runs {
		t.Errorf("%d runs of one block each are in %d blocks", runs, blocks)
	}
}

// Of a run that lacks a block, as of a damaged file, nobody waits for the end of a merge, and none goes on
// without it.
func TestABlockThatIsGoneIsAnError(t *testing.T) {
	f := newFile(t, 50)
	s := f.open()
	rng := rand.New(rand.NewPCG(7, 8))
	all := random(rng, 50*mergeRuns)
	for i := range mergeRuns {
		f.add(s, all[50*i:50*i+50], int64(50*i))
	}
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("DELETE FROM x_block WHERE id=(SELECT max(id) FROM x_block)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for does, err := range map[string]error{
		"Knows": s.Knows(ctx, all, make([]bool, len(all))),
		"Claim": func() error { _, err := s.Claim(ctx, all, make([]int, len(all)), nil); return err }(),
		"At":    func() error { _, err := s.At(ctx, all[len(all)-1].Hash); return err }(),
		"Sweep": s.Sweep(ctx, Forget{}),
	} {
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", does, err)
		}
	}
}
