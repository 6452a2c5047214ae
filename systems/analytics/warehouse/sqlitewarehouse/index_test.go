package sqlitewarehouse

import (
	"context"
	"errors"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func mustInsert(t *testing.T, s *Store, rows []*event.Event) []warehouse.Outcome {
	t.Helper()
	took := make([]warehouse.Outcome, len(rows))
	if err := s.Insert(t.Context(), rows, took); err != nil {
		t.Fatal(err)
	}
	return took
}

// number asks the file for one number.
func number(t *testing.T, s *Store, query string) (n int) {
	t.Helper()
	if err := s.db.Read(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow(query).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMemoryIsBoundedAndTheIndexFollows(t *testing.T) {
	const recent, batch = 200, 70
	s := store(t, open(t), Options{Recent: recent})
	next := batches(2)
	stored := 0
	for range 40 {
		mustInsert(t, s, next(batch))
		stored += batch
		if held := len(s.index.young) + len(s.index.old); held > 2*(recent+batch) {
			t.Fatalf("after %d events %d are held in memory, want at most %d", stored, held, 2*(recent+batch))
		}
		if merged := number(t, s, "SELECT count(*) FROM warehouse_key"); stored-merged > 2*(recent+batch) {
			t.Fatalf("of %d events %d are in the table, want all but %d", stored, merged, 2*(recent+batch))
		}
	}
	if n := number(t, s, "SELECT count(*) FROM warehouse_event e, warehouse_index x WHERE e.id <= x.upto AND NOT EXISTS (SELECT 1 FROM warehouse_key k WHERE k.id = e.id)"); n > 0 {
		t.Errorf("%d events up to warehouse_index.upto are not in the index", n)
	}
	if n := number(t, s, "SELECT upto FROM warehouse_index"); n < stored-2*(recent+batch) {
		t.Errorf("upto is %d after %d events", n, stored)
	}
}

func TestARestartReadsBackNoMoreThanMemoryHolds(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{Recent: 10_000})
	rows := batches(3)(2_500)
	mustInsert(t, s, rows)
	s = store(t, db, Options{Recent: 1_000})
	if n := len(s.index.young); n != 500 {
		t.Errorf("%d events are held in memory, want 500", n)
	}
	if n := number(t, s, "SELECT count(*) FROM warehouse_key"); n != 2_000 {
		t.Errorf("%d events are in the index, want 2000", n)
	}
	for i, took := range mustInsert(t, s, rows) {
		if took != warehouse.Again {
			t.Fatalf("row %d took %d, want Again", i, took)
		}
	}
}

func TestAFailedInsertLeavesNothingBehind(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{Recent: 10})
	next := batches(4)
	mustInsert(t, s, next(20)) // young are full
	mustInsert(t, s, next(1))  // old are being merged
	rows := next(20)
	full := errors.New("full")
	for _, c := range []struct {
		name string
		err  error
		do   func() error
	}{
		{"the context ends", context.Canceled, func() error {
			ctx, end := context.WithCancel(t.Context())
			end()
			return s.Insert(ctx, rows, make([]warehouse.Outcome, len(rows)))
		}},
		{"the database refuses", full, func() error {
			if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
				_, err := tx.Exec("CREATE TRIGGER refuse BEFORE INSERT ON warehouse_count BEGIN SELECT raise(ABORT, 'full'); END")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			err := s.Insert(t.Context(), rows, make([]warehouse.Outcome, len(rows)))
			if err != nil {
				err = full
			}
			if e := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec("DROP TRIGGER refuse"); return err }); e != nil {
				t.Fatal(e)
			}
			return err
		}},
	} {
		if err := c.do(); !errors.Is(err, c.err) {
			t.Fatalf("%s: Insert returned %v, want %v", c.name, err, c.err)
		}
		x := s.index
		if len(x.pending) != 0 || len(x.flights) != 0 || x.merging {
			t.Fatalf("%s: %d pending, %d flights, merging %v", c.name, len(x.pending), len(x.flights), x.merging)
		}
		if n := number(t, s, "SELECT count(*) FROM warehouse_event"); n != 21 {
			t.Fatalf("%s: %d events are stored, want 21", c.name, n)
		}
	}
	for i, took := range mustInsert(t, s, rows) {
		if took != warehouse.Stored {
			t.Fatalf("row %d took %d, want Stored", i, took)
		}
	}
}

func TestOnlyTheNewestStoreInserts(t *testing.T) {
	db := open(t)
	old := store(t, db, Options{})
	rows := batches(5)(1)
	mustInsert(t, old, rows)
	now := store(t, db, Options{})
	if err := old.Insert(t.Context(), batches(6)(1), make([]warehouse.Outcome, 1)); !errors.Is(err, errOwner) {
		t.Errorf("the older Store's Insert returned %v, want %v", err, errOwner)
	}
	if took := mustInsert(t, now, rows); took[0] != warehouse.Again {
		t.Errorf("took %d, want Again", took[0])
	}
}

// flown is a running insert of events with these hashes.
func flown(t *testing.T, x *index, hashes ...uint64) *flight {
	t.Helper()
	f := &flight{hashes: hashes, done: make(chan struct{})}
	if x.begin(f) != nil {
		t.Fatalf("the insert of %v waits", hashes)
	}
	return f
}

// land ends an insert whose rows have ids from that one on.
func land(x *index, f *flight, id int64) {
	b := &batch{newest: id - 1}
	for _, h := range f.hashes {
		b.newest++
		b.young = append(b.young, entry{h, b.newest})
	}
	x.end(f, x.take(len(f.hashes)), true, b)
}

func TestRotationWaitsForInsertsUnderWay(t *testing.T) {
	x := newIndex(2, nil, 16, 1)
	slow := flown(t, x, 1)        // written first, as row 1
	land(x, flown(t, x, 2, 3), 2) // rows 2 and 3; memory is full
	late := &flight{hashes: []uint64{4}, done: make(chan struct{})}
	wait := x.begin(late)
	if wait == nil {
		t.Fatal("memory was rotated up to row 3 while row 1 is not in it: after a crash it would be lost to the index")
	}
	land(x, slow, 1)
	select {
	case <-wait:
	default:
		t.Fatal("the end of the insert under way does not wake who waits for it")
	}
	if x.begin(late) != nil {
		t.Fatal("an insert waits for nobody")
	}
	if len(x.run) != 3 || x.upto != 3 || len(x.young) != 0 {
		t.Errorf("%d entries up to %d are old, %d are young; want 3 up to 3, and none", len(x.run), x.upto, len(x.young))
	}
}

func TestALargerFilterHasWhatIsInMemory(t *testing.T) {
	x := newIndex(4, nil, 1, 1)
	x.full = true
	small := x.filter.keys()
	id := int64(1)
	for ; x.full; id++ {
		if id > 100 {
			t.Fatalf("the filter for %d keys does not grow", small)
		}
		land(x, flown(t, x, uint64(id)<<24), id)
	}
	if x.filter.keys() <= small || len(x.old) == 0 || len(x.young) == 0 {
		t.Fatalf("the filter for %d keys is now for %d, with %d old and %d young", small, x.filter.keys(), len(x.old), len(x.young))
	}
	for h := range x.young {
		if !x.filter.has(h) {
			t.Errorf("young %x is missing", h)
		}
	}
	for h := range x.old {
		if !x.filter.has(h) {
			t.Errorf("old %x is missing", h)
		}
	}
}
