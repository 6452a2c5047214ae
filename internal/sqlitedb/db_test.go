package sqlitedb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func open(t testing.TB, o Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "t?#%.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := d.Migrate(t.Context(), "test", []string{"CREATE TABLE x(id INTEGER PRIMARY KEY, a BLOB, b TEXT)"}); err != nil {
		t.Fatal(err)
	}
	return d
}

func count(t testing.TB, d *DB) (n int) {
	t.Helper()
	if err := d.Read(context.Background(), func(tx *Tx) error { return tx.QueryRow("SELECT count(*) FROM x").Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWriteIsVisibleAndSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	for i := range 3 {
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Migrate(t.Context(), "test", []string{"CREATE TABLE x(id INTEGER PRIMARY KEY, a BLOB, b TEXT)"}); err != nil {
			t.Fatal(err)
		}
		if got := count(t, d); got != i {
			t.Errorf("after %d reopenings: %d rows, want %d", i, got, i)
		}
		err = d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("INSERT INTO x(a) VALUES(?)", []byte("a\x00b\xff")); return err })
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnErrorUndoesOnlyItsOwnChanges(t *testing.T) {
	d := open(t, Options{})
	wrong := errors.New("wrong")
	var g sync.WaitGroup
	var failed atomic.Int64
	for i := range 200 {
		g.Go(func() {
			err := d.Write(t.Context(), func(tx *Tx) error {
				if _, err := tx.Exec("INSERT INTO x(b) VALUES(?)", fmt.Sprint(i)); err != nil {
					return err
				}
				switch i % 4 {
				case 1:
					return wrong
				case 2:
					panic("at work")
				}
				return nil
			})
			if (err != nil) != (i%4 == 1 || i%4 == 2) {
				t.Errorf("write %d: %v", i, err)
			}
			if err != nil {
				failed.Add(1)
			}
		})
	}
	g.Wait()
	if got := count(t, d); got != 100 || failed.Load() != 100 {
		t.Errorf("%d rows and %d failures, want 100 and 100", got, failed.Load())
	}
}

func TestASecondProcessIsKeptAway(t *testing.T) {
	d := open(t, Options{})
	_, err := Open(t.Context(), d.Path(), Options{}) // a lock of this very process excludes itself too
	if _, ok := errors.AsType[*LockedError](err); !ok {
		t.Errorf("opening twice: %v, want a LockedError", err)
	}
}

func TestAFullDatabasePushesBackAndKeepsWhatWasAcknowledged(t *testing.T) {
	d := open(t, Options{MaxBytes: 1 << 20})
	body := bytes.Repeat([]byte("x"), 3000)
	acked, full := 0, 0
	for range 1000 {
		err := d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("INSERT INTO x(a) VALUES(?)", body); return err })
		switch {
		case err == nil:
			acked++
		case errors.Is(err, ErrFull):
			full++
		default:
			t.Fatal(err)
		}
	}
	if got := count(t, d); got != acked || full == 0 {
		t.Errorf("%d acknowledged, %d found, %d refused as full; want the same number and some refused", acked, got, full)
	}
	// Room again, and it goes on.
	if err := d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("DELETE FROM x"); return err }); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("INSERT INTO x(a) VALUES(?)", body); return err }); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}

func TestReadersSeeASnapshot(t *testing.T) {
	d := open(t, Options{})
	insert := func() {
		if err := d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("INSERT INTO x(b) VALUES('1')"); return err }); err != nil {
			t.Error(err)
		}
	}
	err := d.Read(t.Context(), func(tx *Tx) error {
		var before, after int
		if err := tx.QueryRow("SELECT count(*) FROM x").Scan(&before); err != nil {
			return err
		}
		insert()
		if err := tx.QueryRow("SELECT count(*) FROM x").Scan(&after); err != nil {
			return err
		}
		if before != after {
			t.Errorf("a snapshot changed from %d to %d rows", before, after)
		}
		_, err := tx.Exec("INSERT INTO x(b) VALUES('2')")
		if err == nil {
			t.Error("a reader could write")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBulkWritesEveryRowWhateverTheirNumber(t *testing.T) {
	d := open(t, Options{})
	want := 0
	for _, n := range []int{0, 1, 2, 3, 7, 12, 99, 100, 101, 263} {
		args := make([]any, 0, 2*n)
		for i := range n {
			args = append(args, []byte{byte(i)}, fmt.Sprint(i))
		}
		err := d.Write(t.Context(), func(tx *Tx) error {
			k, err := tx.Bulk("INSERT INTO x(a,b) VALUES ", "(?,?)", " ON CONFLICT DO NOTHING", args)
			if int(k) != n {
				t.Errorf("%d rows: %d affected", n, k)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want += n
	}
	if got := count(t, d); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

func TestTheLogIsFoldedBackUnderSteadyWriting(t *testing.T) {
	d := open(t, Options{WALMiB: 1})
	body := bytes.Repeat([]byte("x"), 4000)
	for range 3000 { // 12 MB
		if err := d.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO x(id,a) VALUES(1,?) ON CONFLICT(id) DO UPDATE SET a=excluded.a", body)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := size(t, d.Path()+"-wal"); n > 8<<20 {
		t.Errorf("the log is %d bytes after 12 MB of writes with a limit of 1 MiB", n)
	}
}

func TestVersionsWithTheLogBugAreRefused(t *testing.T) {
	for v, want := range map[string]bool{"3.50.4": false, "3.51.2": false, "3.51.3": true, "3.52.0": false, "3.53.0": true, "3.54.1": true, "4.0.0": true, "x": false} {
		if soundVersion(v) != want {
			t.Errorf("soundVersion(%q) = %v, want %v", v, !want, want)
		}
	}
}

func TestMigrateDoesEachStepOnceAndRefusesNewerFiles(t *testing.T) {
	d := open(t, Options{})
	steps := []string{"CREATE TABLE m(a)", "ALTER TABLE m ADD COLUMN b; CREATE INDEX mb ON m(b)"}
	for range 2 {
		if err := d.Migrate(t.Context(), "m", steps); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Migrate(t.Context(), "m", steps[:1]); err == nil {
		t.Error("tables of a newer version were accepted")
	}
	if err := d.Migrate(t.Context(), "broken", []string{"CREATE TABLE ok(a)", "CREATE TABLE"}); err == nil {
		t.Error("a broken step was accepted")
	}
	if err := d.Read(t.Context(), func(tx *Tx) error { var n int; return tx.QueryRow("SELECT count(*) FROM ok").Scan(&n) }); err == nil {
		t.Error("a half-done migration left a table")
	}
}

func TestWritesAfterCloseAreRefused(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	nothing := func(*Tx) error { return nil }
	if err := d.Write(t.Context(), nothing); !errors.Is(err, ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := d.Read(t.Context(), nothing); !errors.Is(err, ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
}

func BenchmarkBulk(b *testing.B) {
	d := open(b, Options{})
	body := make([]byte, 800)
	args := make([]any, 0, 2000)
	for range 1000 {
		args = append(args, body, "some text of a usual length")
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Write(context.Background(), func(tx *Tx) error {
			_, err := tx.Bulk("INSERT INTO x(a,b) VALUES ", "(?,?)", "", args)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/row")
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	s, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return s.Size()
}
