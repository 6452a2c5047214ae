package sqlitequeue

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// besideTable is a store with room for three jobs a queue, and a part that knows "no" and
// keeps names.
type besideTable struct {
	*testing.T
	*Store
	beside *Beside[string]
}

func newBeside(t *testing.T) *besideTable {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(t.Context(), "names", []string{"CREATE TABLE kept(name TEXT PRIMARY KEY)"}); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), db, Options{Capacity: 3})
	if err != nil {
		t.Fatal(err)
	}
	part := Part[string]{
		Name: func(name string) string { return name },
		Known: func(tx *sqlitedb.Tx, names []string) ([]bool, error) {
			known := make([]bool, len(names))
			for i, name := range names {
				n := 0
				if err := tx.QueryRow("SELECT count(*) FROM kept WHERE name=?", name).Scan(&n); err != nil {
					return nil, err
				}
				known[i] = n > 0 || name == "no"
			}
			return known, nil
		},
		Keep: func(tx *sqlitedb.Tx, names []string) error {
			for _, name := range names {
				if name == "broken" {
					return fmt.Errorf("it is %s", name)
				}
				if _, err := tx.Exec("INSERT INTO kept(name) VALUES(?)", name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	part.In = func(file *sqlitedb.DB) bool { return file != db }
	if NewBeside(s, part) != nil {
		t.Error("two files have one transaction")
	}
	part.In = func(file *sqlitedb.DB) bool { return file == db }
	if _, err := s.Set(t.Context(), "closed", func(set *queue.Settings) { set.Closed = true }); err != nil {
		t.Fatal(err)
	}
	return &besideTable{t, s, NewBeside(s, part)}
}

// kept are the names that the part has.
func (b *besideTable) kept() (names []string) {
	b.Helper()
	if err := b.db.Read(b.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT name FROM kept ORDER BY name")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	}); err != nil {
		b.Fatal(err)
	}
	return names
}

// want compares what is kept, and the jobs of all queues.
func (b *besideTable) want(kept string, jobs ...string) {
	b.Helper()
	if got := strings.Join(b.kept(), " "); got != kept {
		b.Errorf("kept is %q; want %q", got, kept)
	}
	var all []string
	for _, q := range []string{"a", "b", "closed"} {
		for j, err := range b.List(b.Context(), queue.Filter{Queue: q}) {
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, q+" "+j.ID+" "+string(j.State))
		}
	}
	if !slices.Equal(all, jobs) {
		b.Errorf("jobs %q; want %q", all, jobs)
	}
}

func jobOf(to, id string) *tidemill.Message {
	return &tidemill.Message{To: to, ID: id, Tenant: "t", Payload: []byte(id)}
}

func TestJobsBesideOthersAllOrNothing(t *testing.T) {
	b := newBeside(t)
	late := jobOf("a", "late")
	late.At = time.Now().Add(time.Hour)
	for _, c := range []struct {
		name string
		jobs []*tidemill.Message
		want bool
	}{
		{"one", []*tidemill.Message{jobOf("a", "1")}, true},
		{"one", []*tidemill.Message{jobOf("a", "2")}, false},
		{"no", []*tidemill.Message{jobOf("a", "2")}, false},
		{"closed", []*tidemill.Message{jobOf("b", "3"), jobOf("closed", "4")}, false},
		{"known", []*tidemill.Message{jobOf("a", "1")}, false},
		{"one known of two", []*tidemill.Message{jobOf("b", "5"), jobOf("a", "1")}, false},
		{"other", []*tidemill.Message{jobOf("b", "5")}, true},
		{"full", []*tidemill.Message{jobOf("b", "6"), jobOf("a", "7"), jobOf("a", "8"), jobOf("a", "9")}, false},
		{"late", []*tidemill.Message{late}, true},
	} {
		if got, err := b.beside.Add(t.Context(), []string{c.name}, c.jobs); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	want := []string{"a 1 waiting", "a late delayed", "b 5 waiting"}
	b.want("late one other", want...)
	if elapsed, err := b.beside.Add(t.Context(), []string{"broken"}, []*tidemill.Message{jobOf("b", "10")}); elapsed || err == nil {
		t.Errorf("a part that fails: %v, %v", elapsed, err)
	}
	b.want("late one other", want...)
	// Nothing of what was not taken is left: its names and its room can be had again.
	if err := b.Add(t.Context(), []*tidemill.Message{jobOf("b", "10"), jobOf("b", "6"), jobOf("a", "2")}, nil); err != nil {
		t.Error(err)
	}
	b.want("late one other", "a 1 waiting", "a late delayed", "a 2 waiting", "b 5 waiting", "b 10 waiting", "b 6 waiting")
}

// Requests of one transaction: none with a name that one before it has, and whatever becomes
// of one is no matter of the others.
func TestRequestsOfOneTransaction(t *testing.T) {
	b := newBeside(t)
	b.o.Capacity = 10
	call := func(to, id string, names ...string) *besideCall[string] {
		t.Helper()
		in, err := b.prepare(t.Context(), []*tidemill.Message{jobOf(to, id)})
		if err != nil || !in.fit(b.o.Capacity, 0, 1) {
			t.Fatal("there is no room", err)
		}
		return &besideCall[string]{entries: names, in: in}
	}
	calls := []*besideCall[string]{call("a", "1", "x", "y"), call("a", "2", "z", "no"), call("b", "1", "y"), call("b", "2", "z"), call("b", "3", "z"), call("b", "4", "v", "w")}
	if err := b.beside.write(t.Context(), slices.Clone(calls)); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range calls {
		got += map[bool]string{true: "1", false: "0"}[c.taken]
	}
	// "z" of the second is tried in the same transaction, so who has it after that is denied, too.
	if got != "100001" {
		t.Errorf("taken %s", got)
	}
	b.want("v w x y", "a 1 waiting", "b 4 waiting")
	if err := b.beside.write(t.Context(), []*besideCall[string]{call("b", "5", "broken"), call("b", "6", "u")}); err == nil {
		t.Error("a part that fails is no error")
	}
	b.want("v w x y", "a 1 waiting", "b 4 waiting")
	if elapsed, err := b.beside.Add(t.Context(), []string{"z"}, []*tidemill.Message{jobOf("b", "3")}); err != nil || !elapsed {
		t.Errorf("what was denied cannot be tried again: %v, %v", elapsed, err)
	}
}

// Many come at once, some with the same names: of each name one is taken.
func TestOneOfManyBesideOthers(t *testing.T) {
	b := newBeside(t)
	b.o.Capacity = 1000
	var mu sync.Mutex
	taken := map[string]int{}
	var all sync.WaitGroup
	for c := range 50 {
		all.Go(func() {
			for i := range 20 {
				name := fmt.Sprint(i)
				to := "a"
				if c%2 == 0 {
					to = "b"
				}
				elapsed, err := b.beside.Add(t.Context(), []string{name}, []*tidemill.Message{jobOf(to, name)})
				if err != nil {
					t.Error(err)
				}
				if elapsed {
					mu.Lock()
					taken[name]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for name, n := range taken {
		if n != 1 {
			t.Errorf("%s was taken %d times", name, n)
		}
	}
	held := int64(0)
	for _, q := range []string{"a", "b"} {
		s, err := b.Stats(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		held += s.Waiting
	}
	if len(taken) != 20 || held != 20 || len(b.kept()) != 20 {
		t.Errorf("%d taken, %d jobs, %d kept; want 20", len(taken), held, len(b.kept()))
	}
}
