package sqlitesearch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// event is a document of that id and time.
func event(id, at, more string) search.Doc {
	return search.Doc{Schema: "gdelt-events", Day: "2025-03-23", ID: id, Body: []byte(`{"globalEventId":` + id + `,"eventDate":"` + at + `","actor1Name":"United States"` + more + `}`)}
}

func mustIndex(t testing.TB, s *Store, docs ...search.Doc) {
	t.Helper()
	if err := s.Index(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, s *Store, text string) (ids []string) {
	t.Helper()
	p, err := s.Search(t.Context(), search.Query{Schema: "gdelt-events", Text: text, Size: search.MaxSize})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, h := range p.Hits {
		ids = append(ids, h.ID)
	}
	slices.Sort(ids)
	return ids
}

// number reads one from the file.
func number(t testing.TB, db *sqlitedb.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// smaller is the schema of events as an earlier version may have had it.
func smaller(t testing.TB) *search.Schema {
	t.Helper()
	d := search.Events().Definition
	d.Fields = slices.DeleteFunc(slices.Clone(d.Fields), func(f search.Field) bool { return f.Name == "avgTone" || f.Name == "actor2Name" })
	s, err := search.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDocumentsMoveToTablesOfNewFields(t *testing.T) {
	db := open(t)
	before := store(t, db, Options{}, smaller(t))
	var docs []search.Doc
	for i := range 2*chunk + 50 {
		d := event(fmt.Sprint(i), "2025-03-23T00:00:00Z", fmt.Sprintf(`,"avgTone":%d,"actor2Name":"word%d"`, i, i))
		d.Version = 5
		docs = append(docs, d)
	}
	docs = append(docs, event("1000000", "2025-03-23T00:00:00Z", `,"avgTone":"not any more"`))
	mustIndex(t, before, docs...)
	after := store(t, db, Options{}, search.Events())
	if got := find(t, after, "avgTone:7..8 word8"); !slices.Equal(got, []string{"8"}) {
		t.Errorf("by the new fields %q is found, want 8", got)
	}
	if n := len(find(t, after, "")); n != len(docs) {
		t.Errorf("%d documents moved, want %d", n, len(docs))
	}
	old := docs[3]
	old.Version, old.Body = 4, []byte(`{}`)
	mustIndex(t, after, old)
	if got := find(t, after, "word3"); len(got) != 1 {
		t.Error("versions did not move")
	}
	if n := number(t, db, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'search_gdelt_events_1_%'"); n != 0 {
		t.Errorf("%d tables of the old form are left", n)
	}
	again := store(t, db, Options{}, search.Events())
	if n := len(find(t, again, "")); n != len(docs) {
		t.Errorf("%d documents after opening again, want %d", n, len(docs))
	}
}

func TestAMoveThatWasCutShortGoesOn(t *testing.T) {
	db := open(t)
	before := store(t, db, Options{}, smaller(t))
	var docs []search.Doc
	for i := range 3 * chunk {
		docs = append(docs, event(fmt.Sprint(i), "2025-03-23T00:00:00Z", ""))
	}
	mustIndex(t, before, docs...)
	s, err := New(db, Options{}, search.Events())
	if err != nil {
		t.Fatal(err)
	}
	// The new tables exist, and one chunk has moved.
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		to := tableOf(s.schemas["gdelt-events"], 2)
		for _, statement := range to.create() {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		var rows []row
		for i := range docs[:chunk] {
			r, err := to.prepare(&docs[i])
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
		if _, err := to.put(tx, rows); err != nil {
			return err
		}
		from := tableOf(before.schemas["gdelt-events"], 1)
		for i := range chunk {
			if err := from.remove(tx, dayOf(rows[0].at.Time)<<seqBits+1+int64(i), false); err != nil {
				return err
			}
		}
		_, err := tx.Exec("UPDATE search_family SET fields=?, generation=2, old=1", fields(search.Events()))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(find(t, s, "united")); n != len(docs) {
		t.Errorf("%d documents, want %d", n, len(docs))
	}
}

func TestBeforeSetupNothingIsTaken(t *testing.T) {
	s, err := New(open(t), Options{}, search.Events())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Index(t.Context(), []search.Doc{event("1", "2025-03-23T00:00:00Z", "")}); !errors.Is(err, errSetup) {
		t.Errorf("Index: %v", err)
	}
	if _, err := s.Search(t.Context(), search.Query{Schema: "gdelt-events"}); !errors.Is(err, errSetup) {
		t.Errorf("Search: %v", err)
	}
	if err := s.Health(t.Context()); !errors.Is(err, errSetup) {
		t.Errorf("Health: %v", err)
	}
	if gone, err := s.Expire(t.Context(), time.Now()); gone != nil || err != nil {
		t.Errorf("Expire: %v, %v", gone, err)
	}
	if gone, err := s.Bound(t.Context(), 1, time.Now()); gone != "" || err != nil {
		t.Errorf("Bound: %q, %v", gone, err)
	}
}

func TestAReplayWritesNothing(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{}, search.Events())
	var docs []search.Doc
	for i := range 50 {
		docs = append(docs, event(fmt.Sprint(i), "2025-03-23T00:00:00Z", ""))
	}
	mustIndex(t, s, docs...)
	ids := number(t, db, "SELECT sum(id) FROM search_gdelt_events_1_doc")
	mustIndex(t, s, docs...)
	if now := number(t, db, "SELECT sum(id) FROM search_gdelt_events_1_doc"); now != ids {
		t.Error("rows were written anew")
	}
}

func TestTheClockOfADayIsOurs(t *testing.T) {
	now := time.Date(2025, 3, 23, 12, 0, 0, 0, time.UTC)
	s := store(t, open(t), Options{Now: func() time.Time { return now }}, search.Events())
	var docs []search.Doc
	for i := range 2*expireDocs + 10 {
		docs = append(docs, event(fmt.Sprint(i), "2025-03-23T00:00:00Z", ""))
	}
	mustIndex(t, s, docs...)
	if gone, err := s.Expire(t.Context(), now.Add(30*24*time.Hour-time.Millisecond)); err != nil || len(gone) != 0 {
		t.Errorf("too early: %q, %v", gone, err)
	}
	if gone, err := s.Expire(t.Context(), now.Add(30*24*time.Hour)); err != nil || !slices.Equal(gone, []string{"gdelt-events-2025-03-23"}) {
		t.Errorf("%q, %v", gone, err)
	}
	for _, rest := range []string{"_doc", "_body", "_words"} {
		if n := number(t, s.db, "SELECT count(*) FROM search_gdelt_events_1"+rest); n != 0 {
			t.Errorf("%d rows are left in %s", n, rest)
		}
	}
}

func TestDaysOfTimes(t *testing.T) {
	for _, ms := range []int64{math.MinInt64, search.NoTime - 1, search.NoTime, -1, 0, 1, dayMs - 1, dayMs, 1_742_688_000_000, 253402300799999, math.MaxInt64} {
		d := dayOf(ms)
		if d < 0 || d > lastDay || begins(d) > ms || begins(d+1) <= ms && d < lastDay {
			t.Errorf("%d lies on day %d, from %d to %d", ms, d, begins(d), begins(d+1))
		}
	}
}

// Times far apart are found in order, even impossible ones.
func TestWindowsPassOverAges(t *testing.T) {
	s := store(t, open(t), Options{}, search.Events())
	var want []string
	for i, at := range []string{`-99999999999999999`, `"0001-01-01"`, `"0900-05-01"`, `-1`, `0`, `"2025-03-23T00:00:00Z"`, `"2025-03-24T00:00:00Z"`, `"2030-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `99999999999999999`} {
		d := event(fmt.Sprint(i), "x", "")
		d.Body = []byte(strings.Replace(string(d.Body), `"x"`, at, 1))
		mustIndex(t, s, d)
		want = append(want, d.ID)
	}
	for _, text := range []string{"", "united"} {
		for _, oldest := range []bool{true, false} {
			q, got := search.Query{Schema: "gdelt-events", Text: text, Oldest: oldest, Size: 3}, []string{}
			for pages := 0; pages == 0 || q.After != ""; pages++ {
				p, err := s.Search(t.Context(), q)
				if err != nil || pages > 5 {
					t.Fatal(pages, err)
				}
				for _, h := range p.Hits {
					got = append(got, h.ID)
				}
				q.After = p.Next
			}
			if !oldest {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, oldest first %t: %q, want %q", text, oldest, got, want)
			}
		}
	}
}

// Pages are read along an index: a page of a large day costs only its own rows.
func TestPagesAreReadAlongTheIndex(t *testing.T) {
	s := store(t, open(t), Options{}, search.Events())
	tbl, err := s.table("gdelt-events")
	if err != nil {
		t.Fatal(err)
	}
	a := &ask{t: tbl, q: &search.Query{}}
	a.plan(nil)
	text, args := a.from(1, 2)
	var plan []string
	if err := s.db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("EXPLAIN QUERY PLAN SELECT d.id"+text+" AND (d.at, d.tie, d.day, d.key) < (?,?,?,?) ORDER BY at DESC, tie DESC, day DESC, key DESC LIMIT ?", append(args, 1, []byte{}, "", "", 10)...)
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
			plan = append(plan, detail)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(plan, "; "); !strings.Contains(all, "USING INDEX search_gdelt_events_1_at") || strings.Contains(all, "B-TREE FOR ORDER BY") {
		t.Errorf("the plan is %s", all)
	}
}
