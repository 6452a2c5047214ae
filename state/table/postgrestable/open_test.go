package postgrestable

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// grown is the suite's spec with one more order.
func grown() table.Spec[record] {
	spec := tabletest.Spec("job")
	spec.Orders = append(spec.Orders, table.Order{Name: "tenth", By: []string{"call", "flag"}})
	return spec
}

// unfinished is how many indexes of the new order are not, or are, ready for use.
func unfinished(t *testing.T, s *Store[record]) (building, ready int) {
	t.Helper()
	if err := s.db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&building, &ready) },
		"SELECT count(*) FILTER (WHERE NOT indisvalid), count(*) FILTER (WHERE indisvalid) FROM pg_index WHERE indrelid = 'tidemill_job'::regclass AND pg_get_indexdef(indexrelid) LIKE '%(call, flag, key)'"); err != nil {
		t.Fatal(err)
	}
	return building, ready
}

// TestProgramsGoOnWhileAnIndexIsBuilt holds that records are read and written while the index of a new
// order waits for transactions that are older.
func TestProgramsGoOnWhileAnIndexIsBuilt(t *testing.T) {
	s := open(t)
	put := func(key string) error {
		return s.Update(t.Context(), func(tx table.Tx[record], _ pgx.Tx) error { return tx.Put([]*record{{Key: key}}) })
	}
	opened := make(chan error, 1)
	if err := s.Update(t.Context(), func(tx table.Tx[record], raw pgx.Tx) error {
		if err := tx.Put([]*record{{Key: "open"}}); err != nil {
			return err
		}
		if _, err := raw.Exec(t.Context(), "SELECT 1"); err != nil { // what waited is written
			return err
		}
		go func() {
			_, err := New(t.Context(), s.db, grown())
			opened <- err
		}()
		for deadline := time.Now().Add(20 * time.Second); ; {
			if building, _ := unfinished(t, s); building == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Error("no index is being built beside the table's users")
				return nil
			}
		}
		for _, key := range []string{"a", "b", "c"} {
			if began, err := time.Now(), put(key); err != nil || time.Since(began) > time.Second {
				t.Errorf("a put while an index is built: %v after %v", err, time.Since(began))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if building, ready := unfinished(t, s); building != 0 || ready != 1 {
		t.Errorf("%d unfinished indexes, %d finished; want 0, 1", building, ready)
	}
}

// TestAnIndexThatWasLeftUnfinishedIsBuiltAgain holds it after a crash at any moment of growing.
func TestAnIndexThatWasLeftUnfinishedIsBuiltAgain(t *testing.T) {
	s := open(t)
	for _, crash := range []string{
		"CREATE INDEX ON tidemill_job(call, flag, key); UPDATE pg_index SET indisvalid = false WHERE pg_get_indexdef(indexrelid) LIKE '%(call, flag, key)'",
		"UPDATE tidemill_tables SET spec = '" + s.of.Signature() + "' WHERE name = 'job'", // the index is ready, and nobody knows
	} {
		if _, err := s.db.Exec(t.Context(), crash, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		now, err := New(t.Context(), s.db, grown())
		if err != nil {
			t.Fatal(err)
		}
		if building, ready := unfinished(t, s); building != 0 || ready != 1 {
			t.Errorf("%d unfinished indexes, %d finished; want 0, 1", building, ready)
		}
		if lacks, made, err := now.lacks(t.Context()); err != nil || !made || !lacks.None() {
			t.Errorf("the table lacks %+v, %t, %v", lacks, made, err)
		}
	}
}
