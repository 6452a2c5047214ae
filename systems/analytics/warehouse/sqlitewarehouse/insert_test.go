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

func TestAFailedInsertLeavesNothingBehind(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{table: 10})
	next := batches(4)
	mustInsert(t, s, next(20)) // a table is full
	mustInsert(t, s, next(1))  // it is a run
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

// A file in which events were stored before there was a set of ids takes them in when it is opened.
func TestEventsOfAnEarlierFileAreKnown(t *testing.T) {
	db := open(t)
	if err := db.Migrate(t.Context(), "warehouse", schema[:1]); err != nil {
		t.Fatal(err)
	}
	rows := batches(7)(500)
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		if _, err := tx.Exec("INSERT INTO warehouse_index(one,seed,upto,owner) VALUES(1,42,300,x'')"); err != nil {
			return err
		}
		for _, e := range rows {
			if _, err := tx.Exec(`INSERT INTO warehouse_event(project,event_id,person,name,type,distinct_id,timestamp,ingested_at,origin)
				VALUES(?,?,?,'n','t','d',0,0,?)`, e.Project[:], e.ID[:], e.Person[:], int64(e.Origin)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i, took := range mustInsert(t, store(t, db, Options{}), rows) {
			if took != warehouse.Again {
				t.Fatalf("row %d took %d, want Again", i, took)
			}
		}
	}
	if n := number(t, store(t, db, Options{}), "SELECT count(*) FROM warehouse_id_run"); n != 1 {
		t.Errorf("the ids are in %d runs, want one", n)
	}
}

// An event whose row is gone, as it was too old, is known: it is not stored again.
func TestAnEventWhoseRowIsGoneIsADuplicate(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{})
	rows := batches(8)(2)
	mustInsert(t, s, rows)
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec("DELETE FROM warehouse_event WHERE id=1"); return err }); err != nil {
		t.Fatal(err)
	}
	if took := mustInsert(t, s, rows); took[0] != warehouse.Duplicate || took[1] != warehouse.Again {
		t.Errorf("took %v", took)
	}
}
