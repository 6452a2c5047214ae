package sqlitesearch

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// counted compares what is counted of each day with its documents, in a generation of the tables.
func counted(t testing.TB, s *Store, generation int64, what string) {
	t.Helper()
	tbl := tableOf(s.schemas["gdelt-events"], generation)
	if n := number(t, s.db, "SELECT count(*) FROM search_day s WHERE coalesce(bytes, -1) <> (SELECT coalesce(sum(octet_length(b.body)), 0) FROM "+tbl.name+"_doc d JOIN "+tbl.name+"_body b ON b.id = d.id WHERE d.day = s.day)"); n != 0 {
		t.Errorf("%s: %d days are counted wrongly", what, n)
	}
	if n := number(t, s.db, "SELECT count(*) FROM search_day"); n == 0 {
		t.Errorf("%s: there is no day", what)
	}
}

func TestTheBytesOfDaysAreCounted(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{}, smaller(t))
	var docs []search.Doc
	for i := range 2*chunk + 50 {
		d := event(fmt.Sprint(i), "2025-03-23T00:00:00Z", fmt.Sprintf(`,"actor2Name":"größe %d"`, i))
		d.Day, d.Version = fmt.Sprintf("2025-03-%02d", 20+i%3), 5
		docs = append(docs, d)
	}
	mustIndex(t, s, docs...)
	counted(t, s, 1, "stored")
	mustIndex(t, s, docs...)
	counted(t, s, 1, "again")
	longer, older := docs[7], docs[8]
	longer.Version, longer.Body = 6, append(longer.Body[:len(longer.Body)-1:len(longer.Body)-1], `,"more":"and more"}`...)
	older.Version, older.Body = 4, []byte(`{}`)
	mustIndex(t, s, longer, older)
	counted(t, s, 1, "replaced")
	s = store(t, db, Options{}, search.Events())
	counted(t, s, 2, "moved to tables of new fields")
}

func TestDaysOfBeforeTheyWereCountedMakeRoom(t *testing.T) {
	now := time.Date(2025, 3, 25, 12, 0, 0, 0, time.UTC)
	s := store(t, open(t), Options{Now: func() time.Time { return now }}, search.Events())
	var size int64
	for i := range 10 {
		d := event(fmt.Sprint(i), "2025-03-23T00:00:00Z", "")
		mustIndex(t, s, d)
		size += int64(len(d.Body))
	}
	if err := s.db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE search_day SET bytes = NULL")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	mustIndex(t, s, event("10", "2025-03-23T00:00:00Z", ""))
	size += int64(len(event("10", "2025-03-23T00:00:00Z", "").Body))
	if gone, err := s.Bound(t.Context(), size, now.Add(time.Hour)); gone != "" || err != nil {
		t.Errorf("%q went of %d bytes: %v", gone, size, err)
	}
	if gone, err := s.Bound(t.Context(), size-1, now.Add(time.Hour)); gone != "gdelt-events-2025-03-23" || err != nil {
		t.Errorf("%q went of one byte too many: %v", gone, err)
	}
}
