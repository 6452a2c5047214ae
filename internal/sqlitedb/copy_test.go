package sqlitedb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// pair writes two rows in one transaction, of so many bytes together.
func pair(ctx context.Context, d *DB, bytes int) error {
	return d.Write(ctx, func(tx *Tx) error {
		for range 2 {
			if _, err := tx.Exec("INSERT INTO x(a) VALUES(zeroblob(?))", bytes/2); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestACopyHasAllOfBeforeAndOfEachTransactionAllOrNothing(t *testing.T) {
	d := open(t, Options{WALMiB: 1})
	for range 20 {
		if err := pair(t.Context(), d, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var written atomic.Int64
	for range 4 {
		writers.Go(func() {
			for pair(ctx, d, 20_000) == nil {
				written.Add(1)
			}
		})
	}
	defer func() { stop(); writers.Wait() }()
	for range 3 {
		to := filepath.Join(t.TempDir(), "copy.db")
		before, steps, last := int(written.Load())*2, 0, int64(0)
		if err := d.Copy(t.Context(), to, func(done, of int64) {
			if steps++; done <= last || done > of {
				t.Errorf("step %d: %d of %d after %d", steps, done, of, last)
			}
			last = done
			if err := pair(t.Context(), d, 1000); err != nil { // writing goes on between any two steps
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if steps < 5 {
			t.Errorf("copied in %d steps: too few to see anything", steps)
		}
		if i, err := os.Stat(to); err != nil || i.Mode().Perm() != 0o600 || i.Size() != last {
			t.Errorf("the copy: %v, %v; want %d bytes of mode 0600", i, err, last)
		}
		c, err := Open(t.Context(), to, Options{Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, c); n < 40+before || n%2 != 0 {
			t.Errorf("%d rows in the copy; want an even number, %d at least", n, 40+before)
		}
		if got, err := c.CheckWhole(t.Context()); got != "ok" || err != nil {
			t.Errorf("the copy: %q, %v", got, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheLogIsLeftAloneDuringACopy(t *testing.T) {
	d := open(t, Options{WALMiB: 1})
	if err := pair(t.Context(), d, 12<<20); err != nil {
		t.Fatal(err)
	}
	var first uint64
	steps := 0
	if err := d.Copy(t.Context(), filepath.Join(t.TempDir(), "copy.db"), func(done, of int64) {
		for range 4 {
			if err := pair(t.Context(), d, 1<<20); err != nil {
				t.Error(err)
			}
		}
		if steps++; steps == 1 {
			first = d.Stats().Restarts // one may have been asked for before
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n := d.Stats().Restarts; n > first+1 || steps < 4 {
		t.Errorf("the writer waited %d times for the copy to let the log restart, in %d steps", n-first, steps)
	}
	grown, err := os.Stat(d.Path() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 { // afterwards it restarts, and its room is given back
		if err := pair(t.Context(), d, 1000); err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(d.Path() + "-wal"); err != nil {
			t.Fatal(err)
		} else if i.Size() <= 5<<20 {
			return
		}
	}
	t.Errorf("the log still has %d bytes", grown.Size())
}

func TestACopyThatIsGivenUpLeavesNothing(t *testing.T) {
	d := open(t, Options{})
	if err := pair(t.Context(), d, 12<<20); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	ctx, stop := context.WithCancel(t.Context())
	if err := d.Copy(ctx, to, func(int64, int64) { stop() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part is left: %v", err)
	}
	if err := os.WriteFile(to, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Copy(t.Context(), to, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file that is there: %v", err)
	}
	if b, err := os.ReadFile(to); string(b) != "theirs" {
		t.Errorf("it has %q now, %v", b, err)
	}
}

func TestALockKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "t.db")
	l, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Error("it is opened")
	} else if _, ok := errors.AsType[*LockedError](err); !ok {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := Lock(path); err == nil {
		t.Error("locked twice")
	}
}
