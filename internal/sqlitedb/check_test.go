package sqlitedb

import (
	"fmt"
	"testing"
)

// A connection that searched before an index was merged reports its memory of it as damage.
func TestTheCheckIsNotMisledByWhatAConnectionRemembers(t *testing.T) {
	d := open(t, Options{Readers: 1})
	write := func(q string, args ...any) {
		t.Helper()
		if err := d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec(q, args...); return err }); err != nil {
			t.Fatal(err)
		}
	}
	write("CREATE VIRTUAL TABLE words USING fts5(word)")
	for i := range 300 {
		write("INSERT INTO words VALUES (?)", fmt.Sprint("name ", i))
		if i%7 == 0 {
			n := 0
			if err := d.Read(t.Context(), func(tx *Tx) error {
				return tx.QueryRow("SELECT count(*) FROM words WHERE words MATCH 'name'").Scan(&n)
			}); err != nil || n != i+1 {
				t.Fatal(n, err)
			}
		}
		if i%11 == 0 {
			if got, err := d.Check(t.Context()); got != "ok" || err != nil {
				t.Fatalf("after %d: %q, %v", i, got, err)
			}
		}
	}
}
