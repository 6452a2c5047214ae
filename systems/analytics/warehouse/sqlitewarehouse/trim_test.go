package sqlitewarehouse

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// dated are n events of a project, with ids from 1 on, as old as age says.
func dated(project uuid.UUID, n int, age func(i int) time.Duration) (all []*event.Event) {
	for i := range n {
		var id uuid.UUID
		copy(id[:], fmt.Sprintf("event %8d", i+1))
		all = append(all, &event.Event{Project: project, ID: id, Name: "größe", Type: "track", DistinctID: "ada", Timestamp: noon.Add(-age(i)), IngestedAt: noon, Origin: uint64(i + 1), Properties: []byte(`{"path":"/ä"}`)})
	}
	return all
}

func insert(t testing.TB, s *Store, rows []*event.Event) (took []warehouse.Outcome) {
	t.Helper()
	for part := range slices.Chunk(rows, 1000) {
		some := make([]warehouse.Outcome, len(part))
		if err := s.Insert(t.Context(), part, some); err != nil {
			t.Fatal(err)
		}
		took = append(took, some...)
	}
	return took
}

// trimmed trims until nothing is left to do; most 0: by age, else by size.
func trimmed(t testing.TB, s *Store, before time.Time, most int64) (sum int64) {
	t.Helper()
	for range 10_000 {
		n, more, err := s.Trim(t.Context(), before)
		if most > 0 {
			n, more, err = s.Bound(t.Context(), most, noon.Add(time.Hour))
		}
		if err != nil || n > trimRows {
			t.Fatal(n, err)
		}
		if sum += n; !more {
			return sum
		}
	}
	t.Fatal("it never ends")
	return 0
}

// figures are what is counted, and what is there.
type figures struct{ events, bytes, removed, rows, octets int64 }

func figuresOf(t testing.TB, s *Store) (f figures) {
	t.Helper()
	if err := s.db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		for q, to := range map[string]*int64{
			"SELECT coalesce(sum(events), 0) FROM warehouse_count":         &f.events,
			"SELECT coalesce(sum(bytes), 0) FROM warehouse_count":          &f.bytes,
			"SELECT coalesce(sum(removed), 0) FROM warehouse_count":        &f.removed,
			"SELECT count(*) FROM warehouse_event":                         &f.rows,
			"SELECT coalesce(sum(" + octets + "), 0) FROM warehouse_event": &f.octets,
		} {
			if err := tx.QueryRow(q).Scan(to); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if f.events != f.rows || f.bytes != f.octets {
		t.Errorf("counted: %d events of %d bytes; there: %d of %d", f.events, f.bytes, f.rows, f.octets)
	}
	return f
}

func TestOldEventsAreRemovedWhereverTheyLie(t *testing.T) {
	db := open(t)
	s, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	one, two := uuid.New(), uuid.New()
	const n = 12_000
	old := func(i int) time.Duration {
		if i%3 == 0 || i >= 4000 && i < 7000 {
			return 40 * 24 * time.Hour
		}
		return time.Hour
	}
	all := append(dated(one, n, old), dated(two, 5000, func(int) time.Duration { return time.Minute })...)
	insert(t, s, all)
	month := noon.Add(-30 * 24 * time.Hour)
	want := int64(0)
	for _, e := range all {
		if e.Timestamp.Before(month) {
			want++
		}
	}
	if got := trimmed(t, s, month, 0); got != want {
		t.Errorf("%d were removed, want %d", got, want)
	}
	f := figuresOf(t, s)
	if f.rows != int64(len(all))-want || f.removed != want {
		t.Errorf("%+v, want %d rows and %d removed", f, int64(len(all))-want, want)
	}
	if removed, err := s.Removed(t.Context()); removed != want || err != nil {
		t.Errorf("Removed = %d, %v; want %d", removed, err, want)
	}
	for i, took := range insert(t, s, all) { // what is gone is known too
		want := warehouse.Again
		if all[i].Timestamp.Before(month) {
			want = warehouse.Duplicate
		}
		if took != want {
			t.Fatalf("event %d, sent again: %v, want %v", i, took, want)
		}
	}
	figuresOf(t, s)
}

func TestTheOldestMakeRoom(t *testing.T) {
	s, err := New(t.Context(), open(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	project := uuid.New()
	all := dated(project, 5000, func(i int) time.Duration { return time.Duration(i) * time.Minute })
	insert(t, s, all)
	each := figuresOf(t, s).bytes / 5000
	if n := trimmed(t, s, time.Time{}, 5000*each); n != 0 {
		t.Errorf("%d were removed though there is room", n)
	}
	if n := trimmed(t, s, time.Time{}, 1200*each+each/2); n != 3800 {
		t.Errorf("%d were removed, want 3800", n)
	}
	f := figuresOf(t, s)
	if f.rows != 1200 {
		t.Errorf("%d are left, want 1200", f.rows)
	}
	if _, err := s.Find(t.Context(), project, all[3799].ID); err == nil {
		t.Error("one that was stored earlier is there")
	}
	if _, err := s.Find(t.Context(), project, all[3800].ID); err != nil {
		t.Error(err)
	}
}

func TestTheNewestIdIsNotGivenAgain(t *testing.T) {
	db := open(t)
	s, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	project := uuid.New()
	all := dated(project, 100, func(int) time.Duration { return 24 * time.Hour })
	insert(t, s, all)
	if n := trimmed(t, s, time.Time{}, 1); n != 99 {
		t.Errorf("%d were removed, want all but the newest", n)
	}
	more := dated(project, 103, func(int) time.Duration { return 0 })[100:]
	insert(t, s, more)
	s, err = New(t.Context(), db, Options{}) // its memory is read back
	if err != nil {
		t.Fatal(err)
	}
	for i, took := range insert(t, s, append(more, all[99])) {
		if took != warehouse.Again {
			t.Errorf("event %d, sent again: %v", i, took)
		}
	}
	if f := figuresOf(t, s); f.rows != 4 {
		t.Errorf("%d rows, want 4", f.rows)
	}
}

func TestALookAtAllIsOnceADay(t *testing.T) {
	s, err := New(t.Context(), open(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	project := uuid.New()
	fresh := dated(project, 6000, func(int) time.Duration { return 0 })
	insert(t, s, fresh)
	calls := func(before time.Time) (n int) {
		for more := true; more; n++ {
			var err error
			if _, more, err = s.Trim(t.Context(), before); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	month := noon.Add(-30 * 24 * time.Hour)
	if n := calls(month); n != 3 {
		t.Errorf("the first pass has %d slices, want those of all events", n)
	}
	if n := calls(month.Add(time.Hour)); n != 1 {
		t.Errorf("an hour later it has %d slices, want 1", n)
	}
	if n := calls(month.Add(25 * time.Hour)); n != 3 {
		t.Errorf("a day later it has %d slices, want those of all events", n)
	}
}

func BenchmarkTrim(b *testing.B) {
	s, err := New(b.Context(), open(b), Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		insert(b, s, dated(uuid.New(), 2000, func(int) time.Duration { return 24 * time.Hour }))
		b.StartTimer()
		if n, _, err := s.Trim(b.Context(), noon); err != nil || n == 0 {
			b.Fatal(n, err)
		}
	}
}
