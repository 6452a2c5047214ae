package tableperson

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ref(distinct string) person.Ref { return person.Ref{Project: uuid.UUID{1}, Distinct: distinct} }

func says(distinct string, at time.Time, ps ...person.Property) person.Change {
	return person.Change{Ref: ref(distinct), Event: uuid.UUID{2}, At: at, Properties: ps}
}

func set(key, value string) person.Property {
	return person.Property{Op: person.Set, Key: key, Value: []byte(value)}
}

func apply(t *testing.T, s person.Store, changes ...person.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

func merge(t *testing.T, s person.Store, into, other string) {
	t.Helper()
	if err := s.Merge(t.Context(), []person.Merge{{Ref: ref(into), Other: other, At: noon}}, make([]person.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
}

// inFile is a store in a file of its own.
func inFile(t *testing.T, o Options) (*sqlitedb.DB, *Store[*sqlitetable.Tx]) {
	t.Helper()
	db := sqlitedbtest.NewFile(t, sqlitedb.Options{}).Open()
	return db, onFile(t, db, o)
}

// query reads one value by the writer, as SQL.
func query(t *testing.T, db *sqlitedb.DB, into any, text string, args ...any) {
	t.Helper()
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow(text, args...).Scan(into) }); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestNothingNewIsNotWritten(t *testing.T) {
	changes := []person.Change{
		says("a", noon, set("k", "1"), person.Property{Op: person.Unset, Key: "u"}), says("b", noon), says("\x00", noon, set("k", "1")),
	}
	merges := []person.Merge{{Ref: ref("u"), Other: "a", At: noon}, {Ref: ref("u"), Other: "u", At: noon}}
	for name, o := range map[string]Options{"known to the cache": {}, "known to the file alone": {CacheMiB: misses}} {
		t.Run(name, func(t *testing.T) {
			db, s := inFile(t, o)
			var before, after int
			for _, count := range []*int{&before, &after} {
				apply(t, s, changes...)
				apply(t, s, says("b", noon.Add(59*time.Minute)), says("a", noon, set("k", "1"), set("$os", "1"))) // same hour, churn
				if err := s.Merge(t.Context(), merges, make([]person.Outcome, 2)); err != nil {
					t.Fatal(err)
				}
				query(t, db, count, "SELECT total_changes()")
			}
			if before != after {
				t.Errorf("what was known already changed %d rows", after-before)
			}
			apply(t, s, says("b", noon.Add(time.Hour)))
			if query(t, db, &after, "SELECT total_changes()"); after != before+1 {
				t.Errorf("a new hour of one person changed %d rows", after-before)
			}
		})
	}
}

func TestReadersBySQL(t *testing.T) {
	db, s := inFile(t, Options{})
	apply(t, s, says("a", noon, set("plan", `"free"`), set("n", "12345678901234567890"), set("nul\x00", `"x\u0000"`), set("bad", "{")), says("b", noon))
	merge(t, s, "u", "a")
	var got string
	query(t, db, &got, `SELECT json_extract(p.properties,'$.plan') || ' ' || group_concat(d.distinct_id ORDER BY d.distinct_id) || ' ' || sum(d.version)
		FROM person p JOIN person_distinct_id d ON d.person=p.id WHERE p.identified GROUP BY p.id`)
	if want := "free a,u 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	query(t, db, &got, "SELECT properties FROM person WHERE distinct_id='b'")
	if got != "{}" {
		t.Errorf("properties of a person without any are %q", got)
	}
}

func TestDamagedRegisters(t *testing.T) {
	db, s := inFile(t, Options{})
	apply(t, s, says("a", noon, set("k", "1"), set("l", "2")))
	damage := func(text string) {
		t.Helper()
		if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	damage("UPDATE persons SET registers=x'01020304050607'")
	var log bytes.Buffer
	logged := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	s = onFile(t, db, logged)
	apply(t, s, says("a", noon.Add(-time.Hour), set("k", "3")))
	p, err := s.Show(t.Context(), ref("a"))
	if err != nil || string(p.Properties["k"]) != "3" || string(p.Properties["l"]) != "2" {
		t.Errorf("after damage: %q, %v; want k 3, since its time is lost, and l 2", p.Properties, err)
	}
	if !strings.Contains(log.String(), p.ID.String()) {
		t.Errorf("the damage was not logged: %q", log.String())
	}
	log.Reset()
	s = onFile(t, db, logged)
	if apply(t, s, says("a", noon, set("k", "4"))); log.Len() > 0 {
		t.Errorf("the damage was not mended: %s", log.String())
	}
	damage("UPDATE persons SET registers=x'01', properties=x'7b'")
	s = onFile(t, db, Options{})
	if err := s.Apply(t.Context(), []person.Change{says("a", noon, set("k", "5"))}); err == nil || !strings.Contains(err.Error(), person.ID(ref("a")).String()) {
		t.Errorf("with nothing left to read: %v; want an error that names the person", err)
	}
}

func TestVersionsStartAbove(t *testing.T) {
	_, s := inFile(t, Options{Above: 1_700_000_000_000})
	merge(t, s, "u", "a")
	got, err := s.Overrides(t.Context(), 10)
	if err != nil || len(got) != 1 || got[0].Version != 1_700_000_000_001 {
		t.Errorf("overrides: %+v, %v; want version 1700000000001", got, err)
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := New[*sqlitetable.Tx](nil, nil, nil, Options{CacheMiB: -1}); err == nil {
		t.Error("a negative CacheMiB: no error")
	}
}

// watched is a table that notes which records are put.
type watched struct {
	table.Store[Record, *memorytable.Tx]
	put map[uuid.UUID]bool
}

type watchedTx struct {
	table.Tx[Record]
	w watched
}

func (w watched) Update(ctx context.Context, do func(table.Tx[Record], *memorytable.Tx) error) error {
	return w.Store.Update(ctx, func(tx table.Tx[Record], raw *memorytable.Tx) error { return do(watchedTx{tx, w}, raw) })
}

func (tx watchedTx) Put(rows []*Record, only ...string) error {
	for _, r := range rows {
		tx.w.put[uid([]byte(r.key))] = true
	}
	return tx.Tx.Put(rows, only...)
}

// Of two transactions at once, one that gives a distinct id to a person and one that moves all the
// person's distinct ids away, one has to begin again: both write the person, and the distinct id.
func TestAMergeWritesThePersonAndTheDistinctID(t *testing.T) {
	s := Memory(Options{})
	w := watched{s.persons, map[uuid.UUID]bool{}}
	s.persons = w
	merge(t, s, "u", "a")
	for _, c := range []struct{ into, other string }{
		{"u", "b"}, // nothing else changes of u
		{"v", "w"},
	} {
		clear(w.put)
		merge(t, s, c.into, c.other)
		for _, d := range []string{c.into, c.other} {
			if !w.put[person.ID(ref(d))] {
				t.Errorf("merging %q into %q does not write the record of %q", c.other, c.into, d)
			}
		}
	}
}

// forgetful is a table that loses the answer to its next commit.
type forgetful struct {
	table.Store[Record, *memorytable.Tx]
	next bool
}

var errLost = errors.New("the answer is lost")

func (f *forgetful) Update(ctx context.Context, do func(table.Tx[Record], *memorytable.Tx) error) error {
	err := f.Store.Update(ctx, do)
	if f.next && err == nil {
		f.next, err = false, errLost
	}
	return err
}

// A merge whose answer was lost has moved distinct ids that the cache knows, and the same merge again
// moves none.
func TestWhatAMergeMovedWithoutAnAnswerIsNotInTheCache(t *testing.T) {
	s := Memory(Options{})
	f := &forgetful{Store: s.persons}
	s.persons = f
	merge(t, s, "b", "c")
	refs, into := []person.Ref{ref("a"), ref("b"), ref("c")}, make([]uuid.UUID, 3)
	if err := s.Resolve(t.Context(), refs, into); err != nil {
		t.Fatal(err)
	}
	f.next = true
	m := []person.Merge{{Ref: ref("a"), Other: "b", At: time.UnixMilli(1), Force: true}}
	if err := s.Merge(t.Context(), m, make([]person.Outcome, 1)); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Resolve(t.Context(), refs, into); err != nil || into[1] != into[0] || into[2] != into[0] {
			t.Errorf("a, b and c are the persons %v, %v", into, err)
		}
		if err := s.Merge(t.Context(), m, make([]person.Outcome, 1)); err != nil {
			t.Fatal(err)
		}
	}
}
