package sqliteperson

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ref(distinct string) person.Ref { return person.Ref{Project: uuid.UUID{1}, Distinct: distinct} }

func says(distinct string, at time.Time, ps ...person.Property) person.Change {
	return person.Change{Ref: ref(distinct), Event: uuid.UUID{2}, At: at, Properties: ps}
}

func set(key, value string) person.Property {
	return person.Property{Op: person.Set, Key: key, Value: []byte(value)}
}

func apply(t *testing.T, s *Store, changes ...person.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

func merge(t *testing.T, s *Store, into, other string) {
	t.Helper()
	if err := s.Merge(t.Context(), []person.Merge{{Ref: ref(into), Other: other, At: noon}}, make([]person.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
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
	for name, o := range map[string]Options{"known to the cache": {}, "known to the file alone": {Refs: 1, CacheMiB: 1}} {
		t.Run(name, func(t *testing.T) {
			db, s := open(t, filepath.Join(t.TempDir(), "t.db"), o)
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
	db, s := open(t, filepath.Join(t.TempDir(), "t.db"), Options{})
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
	var plan strings.Builder
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("EXPLAIN QUERY PLAN SELECT project, distinct_id, version FROM person_distinct_id WHERE person=?", []byte{1})
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var a, b, c int
			var detail string
			if err := rows.Scan(&a, &b, &c, &detail); err != nil {
				return err
			}
			fmt.Fprintln(&plan, detail)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(plan.String(), "SEARCH") != 2 { // each table by its index; the two results are put together
		t.Errorf("the distinct ids of a person are not found by an index:\n%s", plan.String())
	}
}

func TestDamagedRegisters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db, s := open(t, path, Options{})
	apply(t, s, says("a", noon, set("k", "1"), set("l", "2")))
	damage := func(text string) {
		t.Helper()
		if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	damage("UPDATE person SET registers=x'01020304050607'")
	var log bytes.Buffer
	s, err := New(t.Context(), db, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, says("a", noon.Add(-time.Hour), set("k", "3")))
	p, err := s.Show(t.Context(), ref("a"))
	if err != nil || string(p.Properties["k"]) != "3" || string(p.Properties["l"]) != "2" {
		t.Errorf("after damage: %q, %v; want k 3, since its time is lost, and l 2", p.Properties, err)
	}
	if !strings.Contains(log.String(), p.ID.String()) {
		t.Errorf("the damage was not logged: %q", log.String())
	}
	log.Reset()
	if s, err = New(t.Context(), db, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	if apply(t, s, says("a", noon, set("k", "4"))); log.Len() > 0 {
		t.Errorf("the damage was not mended: %s", log.String())
	}
	damage("UPDATE person SET registers=x'01', properties='{'")
	if s, err = New(t.Context(), db, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), []person.Change{says("a", noon, set("k", "5"))}); err == nil || !strings.Contains(err.Error(), person.ID(ref("a")).String()) {
		t.Errorf("with nothing left to read: %v; want an error that names the person", err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	_, s := open(t, filepath.Join(t.TempDir(), "t.db"), Options{Refs: 50, CacheMiB: 1})
	long := `"` + strings.Repeat("x", 10_000) + `"`
	for i := range 20 {
		var changes []person.Change
		for k := range 20 {
			changes = append(changes, says(fmt.Sprint(i*20+k), noon, set("k", long)))
		}
		apply(t, s, changes...)
	}
	bytes := 0
	for _, k := range s.cache.persons.Values() {
		bytes += k.size()
	}
	if n := s.cache.refs.Len(); n != 50 || bytes > 1<<20 || bytes < 1<<19 || bytes != s.cache.bytes {
		t.Errorf("the cache holds %d distinct ids, and %d bytes of persons, counted as %d; want 50 and almost 1 MiB", n, bytes, s.cache.bytes)
	}
}

func TestVersionsStartAbove(t *testing.T) {
	_, s := open(t, filepath.Join(t.TempDir(), "t.db"), Options{Above: 1_700_000_000_000})
	merge(t, s, "u", "a")
	got, err := s.Overrides(t.Context(), 10)
	if err != nil || len(got) != 1 || got[0].Version != 1_700_000_000_001 {
		t.Errorf("overrides: %+v, %v; want version 1700000000001", got, err)
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "t.db"), Options{})
	for _, o := range []Options{{Refs: -1}, {CacheMiB: -1}} {
		if _, err := New(t.Context(), db, o); err == nil {
			t.Errorf("New(%+v): no error", o)
		}
	}
}

// An answer that was read before a merge must not stay in the cache after it.
func TestLateAnswersAreNotKept(t *testing.T) {
	_, s := open(t, filepath.Join(t.TempDir(), "t.db"), Options{})
	a := []person.Ref{ref("a")}
	into := make([]uuid.UUID, 1)
	missing, moves := s.cache.resolve(a, into)
	merge(t, s, "u", "a")
	s.cache.fill(a, []uuid.UUID{person.ID(a[0])}, missing, moves)
	if err := s.Resolve(t.Context(), a, into); err != nil || into[0] != person.ID(ref("u")) {
		t.Errorf("Resolve after a merge: %v, %v; want %v", into[0], err, person.ID(ref("u")))
	}
	// Batches that are learnt in another order than they were written in.
	s.cache.learn(&batch{commit: 9, overrides: make([]rules.Link, 1), moved: a, links: map[person.Ref]rules.Link{a[0]: {Ref: a[0], Person: uuid.UUID{9}}}})
	s.cache.learn(&batch{commit: 8, overrides: make([]rules.Link, 1), moved: a, links: map[person.Ref]rules.Link{a[0]: {Ref: a[0], Person: uuid.UUID{8}}}})
	if err := s.Resolve(t.Context(), a, into); err != nil || into[0] != person.ID(ref("u")) {
		t.Errorf("Resolve after late news: %v, %v; want what is stored, %v", into[0], err, person.ID(ref("u")))
	}
}
