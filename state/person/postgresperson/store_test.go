package postgresperson

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func set(key, value string) person.Property {
	return person.Property{Op: person.Set, Key: key, Value: []byte(value)}
}

// world is a Store and a project in it.
type world struct {
	*testing.T
	s       *Store
	project uuid.UUID
}

func newWorld(t *testing.T, o Options) *world {
	testenv.Need(t)
	db, s := open(t, testenv.Postgres(t), o)
	return &world{t, s, newProject(t, db)}
}

func (w *world) ref(distinct string) person.Ref {
	return person.Ref{Project: w.project, Distinct: distinct}
}

func (w *world) says(distinct string, at time.Time, ps ...person.Property) person.Change {
	return person.Change{Ref: w.ref(distinct), Event: uuid.UUID{2}, At: at, Properties: ps}
}

func (w *world) apply(changes ...person.Change) {
	w.Helper()
	if err := w.s.Apply(w.Context(), changes); err != nil {
		w.Fatal(err)
	}
}

func (w *world) merge(into, other string, want person.Outcome) {
	w.Helper()
	got := make([]person.Outcome, 1)
	if err := w.s.Merge(w.Context(), []person.Merge{{Ref: w.ref(into), Other: other, At: noon}}, got); err != nil || got[0] != want {
		w.Fatalf("Merge: %v, %v; want %v", got[0], err, want)
	}
}

func (w *world) show(distinct string) *person.Person {
	w.Helper()
	p, err := w.s.Show(w.Context(), w.ref(distinct))
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) one(query string, args ...any) (s string) {
	w.Helper()
	if err := w.s.db.Query(w.Context(), func(r pgx.Rows) error { return r.Scan(&s) }, query, args...); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return s
}

func TestNothingNewIsNotWritten(t *testing.T) {
	for name, cache := range map[string]int{"known to the cache": 0, "known to the server alone": -1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{CacheMiB: cache})
			// ctid and xmax tell whether a row was written or only locked.
			state := func() string {
				return w.one("SELECT string_agg(id::text || ctid || xmax, ' ' ORDER BY id) FROM persons")
			}
			changes := []person.Change{w.says("a", noon, set("k", "1"), person.Property{Op: person.Unset, Key: "u"}), w.says("b", noon), w.says("\x00", noon, set("k", "1"))}
			w.apply(changes...)
			before := state()
			w.apply(changes...)
			w.apply(w.says("b", noon.Add(59*time.Minute)), w.says("a", noon, set("k", "1"), set("$os", "1"))) // same hour, churn
			if got := state(); got != before {
				t.Errorf("what was known already was written:\n%s\n%s", before, got)
			}
			n := written(t, w.s)
			w.apply(w.says("b", noon.Add(time.Hour)), w.says("a", noon))
			if got := written(t, w.s); got != n+1 {
				t.Errorf("a new hour of one person wrote %d rows", got-n)
			}
		})
	}
}

func TestSteadyRepeatsCostNoStatement(t *testing.T) {
	w := newWorld(t, Options{})
	changes := []person.Change{w.says("a", noon, set("k", "1")), w.says("b", noon)}
	w.apply(changes...)
	w.s.db.Close()
	w.apply(changes...) // the database is not asked
	if err := w.s.Apply(t.Context(), []person.Change{w.says("c", noon)}); err == nil {
		t.Error("a database that is closed took a new person")
	}
}

func TestMergesAgainCostNoStatement(t *testing.T) {
	w := newWorld(t, Options{})
	w.merge("ann", "device", person.Merged)
	w.merge("bob", "other", person.Merged)
	w.s.db.Close()
	w.merge("ann", "device", person.Same) // the database is not asked
	got := make([]person.Outcome, 2)
	merges := []person.Merge{{Ref: w.ref("ann"), Other: "device", At: noon}, {Ref: w.ref("ann"), Other: "other", At: noon}}
	if err := w.s.Merge(t.Context(), merges, got); err == nil || got[0] != person.Same || got[1] != 0 {
		t.Errorf("of a known merge and a new one became %v, %v; want same, and an error for the other", got, err)
	}
	later := []person.Merge{{Ref: w.ref("ann"), Other: "device", At: noon.Add(48 * time.Hour)}}
	if err := w.s.Merge(t.Context(), later, got); err == nil {
		t.Error("a merge that moves the time of the person was not written")
	}
}

func TestReadersBySQL(t *testing.T) {
	w := newWorld(t, Options{})
	w.apply(w.says("a", noon, set("plan", `"free"`), set("n", "12345678901234567890")), w.says("b", noon))
	w.merge("u", "a", person.Merged)
	if got, want := w.one(`SELECT concat_ws(' ', p.properties, p.identified, p.created_at, p.updated_at, string_agg(d.distinct_id || d.version, ',' ORDER BY d.distinct_id))
		FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id WHERE p.identified GROUP BY p.id`),
		`{"n": 12345678901234567890, "plan": "free"} t 2026-03-01 12:00:00+00 2026-03-01 12:00:00+00 a1,u0`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What jsonb cannot hold is replaced there, and kept exactly in what Show returns.
func TestValuesThatJSONBCannotHold(t *testing.T) {
	w := newWorld(t, Options{})
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for i, c := range []struct{ key, value, want string }{
		{"nul", `"a\u0000b"`, `{"nul": "a` + "\uFFFD" + `b"}`},
		{"nul\x00key", `1`, `{"nul` + "\uFFFD" + `key": 1}`},
		{"half", `"\ud800"`, `{"half": "` + "\uFFFD" + `"}`},
		{"pair", `"\ud83d\ude00"`, `{"pair": "😀"}`},
		{"bytes", "\"\xff\"", `{"bytes": "` + "\uFFFD" + `"}`},
		{"raw", "\"\x00\"", `{"raw": "` + "\uFFFD" + `"}`},
		{"huge", `1e999999`, `{"huge": "1e999999"}`},
		{"tiny", `-1E-999999`, `{"tiny": "-1E-999999"}`},
		{"long", strings.Repeat("9", 140_000), `{"long": "` + strings.Repeat("9", 140_000) + `"}`},
		{"fine", `[1.5e3, {"a": "x1e5", "\u00e9": null}]`, `{"fine": [1500, {"a": "x1e5", "é": null}]}`},
		{"junk", `{`, `{"junk": "{"}`},
		{"deep", deep, ""},
		{"wide", "[" + strings.Repeat(`{"a":[1]},`, 5000) + "0]", ""},
	} {
		d := fmt.Sprint("d", i)
		w.apply(w.says(d, noon, set(c.key, c.value)))
		// U+0000 is U+FFFD on every backend, before anything is stored
		key := strings.ReplaceAll(c.key, "\x00", "\uFFFD")
		if got, want := string(w.show(d).Properties[key]), strings.NewReplacer("\x00", "\uFFFD", `\u0000`, "\uFFFD").Replace(c.value); got != want {
			t.Errorf("%s came back as %.100q, want %.100q", c.key, got, want)
		}
		got := w.one("SELECT properties::text FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id WHERE d.distinct_id = $1", d)
		if c.want != "" && got != c.want {
			t.Errorf("%s is %.200s in SQL, want %.200s", c.key, got, c.want)
		}
	}
	far := w.says("far", time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)) // no column holds it
	w.apply(far, w.says("far", time.Date(-9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	n := written(t, w.s)
	w.apply(far)
	if p := w.show("far"); p.Updated.Year() != 9999 || p.Created.Year() != 1 || written(t, w.s) != n {
		t.Errorf("times beyond all columns became %v and %v, and %d rows were written again", p.Created, p.Updated, written(t, w.s)-n)
	}
}

func TestDistinctIDsThatTheColumnCannotHold(t *testing.T) {
	w := newWorld(t, Options{})
	ids := []string{"\x00", "\xff", "~bytes:", strings.Repeat("é", 400), strings.Repeat("é", 401), strings.Repeat("x", 100_000), strings.Repeat(" ", 500)}
	for _, d := range ids {
		w.apply(w.says(d, noon))
		if got := w.show(d); len(got.Distinct) != 1 || got.Distinct[0] != d {
			t.Errorf("%.20q came back as %.40q", d, got.Distinct)
		}
		if got, err := w.s.DistinctOf(t.Context(), w.project, person.ID(w.ref(d))); err != nil || got != d {
			t.Errorf("DistinctOf: %.40q, %v; want %.20q", got, err, d)
		}
	}
	for _, d := range ids {
		w.merge("u", d, person.Merged)
	}
	if got := w.show("u"); len(got.Distinct) != len(ids)+1 {
		t.Errorf("u has %d distinct ids, want %d", len(got.Distinct), len(ids)+1)
	}
	if _, err := w.s.DistinctOf(t.Context(), w.project, person.ID(w.ref("\x00"))); !errors.Is(err, person.ErrUnknown) {
		t.Errorf("DistinctOf a person that was merged away: %v, want ErrUnknown", err)
	}
	if _, err := w.s.DistinctOf(t.Context(), uuid.New(), person.ID(w.ref("u"))); !errors.Is(err, person.ErrUnknown) {
		t.Errorf("DistinctOf another project's person: %v, want ErrUnknown", err)
	}
}

func TestPersonsThatAreThereAreAdopted(t *testing.T) {
	w := newWorld(t, Options{})
	old, anon := uuid.MustParse("99999999-0000-4000-8000-000000000001"), uuid.MustParse("99999999-0000-4000-8000-000000000002")
	for id, d := range map[uuid.UUID]string{old: "user", anon: "anon"} {
		exec(t, w.s.db, "INSERT INTO persons(id, project_id, properties, created_at, updated_at) VALUES ($1, $2, $3, '2025-01-01 10:20:30.123456+00', '2025-01-01 10:00+00')",
			id.String(), w.project.String(), fmt.Sprintf(`{"k": "%s", "only_%[1]s": 12345678901234567890}`, d))
		exec(t, w.s.db, "INSERT INTO person_distinct_ids(project_id, person_id, distinct_id) VALUES ($1, $2, $3)", w.project.String(), id.String(), d)
	}
	ids := make([]uuid.UUID, 1)
	if err := w.s.Resolve(t.Context(), []person.Ref{w.ref("user")}, ids); err != nil || ids[0] != old {
		t.Errorf("Resolve: %v, %v; want the id that is stored, %v", ids[0], err, old)
	}
	p := w.show("user")
	if p.ID != old || p.Identified || string(p.Properties["only_user"]) != "12345678901234567890" || !p.Created.Equal(time.Date(2025, 1, 1, 10, 20, 30, 123_000_000, time.UTC)) {
		t.Errorf("a person that was there is %+v", p)
	}
	n := written(t, w.s)
	w.apply(w.says("user", time.Date(2025, 1, 1, 10, 30, 0, 0, time.UTC)))
	if got := written(t, w.s); got != n {
		t.Errorf("an event that says nothing new wrote %d rows", got-n)
	}
	w.merge("user", "anon", person.Merged) // neither is identified yet
	w.apply(w.says("anon", noon.AddDate(-10, 0, 0), set("only_anon", "1")))
	p = w.show("anon")
	if p.ID != old || !p.Identified || string(p.Properties["k"]) != `"user"` || string(p.Properties["only_anon"]) != "1" || string(p.Properties["only_user"]) != "12345678901234567890" {
		t.Errorf("after the merge and an event of ten years ago: %+v; want the survivor's k, and the event's only_anon", p)
	}
	over, err := w.s.Overrides(t.Context(), 9)
	if err != nil || len(over) != 1 || over[0].Person != old || over[0].Distinct != "anon" || over[0].Version != 1 {
		t.Errorf("overrides: %+v, %v", over, err)
	}
}

func TestProjectsThatAreGoneStopNobody(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	nowhere := person.Ref{Project: uuid.New(), Distinct: "a"}
	w.apply(person.Change{Ref: nowhere, At: noon}, w.says("a", noon))
	if p := w.show("a"); p.ID != person.ID(w.ref("a")) {
		t.Errorf("beside a project that is gone: %+v", p)
	}
	if !strings.Contains(log.String(), nowhere.Project.String()) {
		t.Errorf("nothing was said of it: %q", log.String())
	}
	got := make([]person.Outcome, 2)
	if err := w.s.Merge(t.Context(), []person.Merge{{Ref: nowhere, Other: "b", At: noon}, {Ref: w.ref("u"), Other: "a", At: noon}}, got); err != nil || got[0] != person.Same || got[1] != person.Merged {
		t.Errorf("Merge: %v, %v; want same, merged", got, err)
	}
	// A project that is deleted takes its persons along, also those that the cache knows.
	exec(t, w.s.db, "DELETE FROM projects WHERE id = $1", w.project.String())
	w.apply(w.says("a", noon.Add(time.Hour)))
	if _, err := w.s.Show(t.Context(), w.ref("a")); !errors.Is(err, person.ErrUnknown) {
		t.Errorf("Show after the project was deleted: %v", err)
	}
}

func TestDamagedRegisters(t *testing.T) {
	w := newWorld(t, Options{CacheMiB: -1})
	var log bytes.Buffer
	w.s.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.apply(w.says("a", noon, set("k", "1"), set("l", "2")))
	exec(t, w.s.db, `UPDATE persons SET registers = '\x01020304050607'`)
	if p := w.show("a"); string(p.Properties["k"]) != "1" {
		t.Errorf("shown with damage: %+v", p)
	}
	w.apply(w.says("a", noon.Add(-time.Hour), set("k", "3")))
	p := w.show("a")
	if string(p.Properties["k"]) != "3" || string(p.Properties["l"]) != "2" {
		t.Errorf("after damage: %q; want k 3, since its time is lost, and l 2", p.Properties)
	}
	if !strings.Contains(log.String(), p.ID.String()) {
		t.Errorf("the damage was not logged: %q", log.String())
	}
	log.Reset()
	if w.apply(w.says("a", noon, set("k", "4"))); log.Len() > 0 {
		t.Errorf("the damage was not mended: %s", log.String())
	}
}

func TestVersionsStartAbove(t *testing.T) {
	w := newWorld(t, Options{Above: 1_700_000_000_000})
	w.merge("u", "a", person.Merged)
	got, err := w.s.Overrides(t.Context(), 10)
	if err != nil || len(got) != 1 || got[0].Version != 1_700_000_000_001 {
		t.Errorf("overrides: %+v, %v; want version 1700000000001", got, err)
	}
}

func TestMergesSayWhatTheyMoved(t *testing.T) {
	w := newWorld(t, Options{})
	w.merge("first", "x", person.Merged)
	merges := make([]person.Merge, mergesAtOnce+50) // two transactions
	for i := range merges {
		merges[i] = person.Merge{Ref: w.ref("u"), Other: fmt.Sprintf("a%03d", i), At: noon}
	}
	merges[7].Other = "u"
	got, err := w.s.MergeMoved(t.Context(), merges, make([]person.Outcome, len(merges)))
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.s.Overrides(t.Context(), 1000)
	if err != nil || !slices.Equal(got, want[1:]) || len(got) != len(merges)-1 {
		t.Errorf("MergeMoved says %+v\nthe outbox %+v, %v", got, want[1:], err)
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	for _, o := range []Options{{CacheMiB: -1}, {Above: 1 << 63}} {
		if _, err := New(t.Context(), nil, o); err == nil {
			t.Errorf("New(%+v): no error", o)
		}
	}
}
