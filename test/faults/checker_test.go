//go:build servers

package faults

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestTheCheckerSeesWhatIsWrong damages what arrived, and runs the checker.
func TestTheCheckerSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.run("one")
		w.startLoad(loadOptions{})
		w.pass(2 * time.Second)
		a, _ := w.finish(afterFault, allowance{})
		if t.Failed() {
			return
		}
		sees := func(what string) {
			t.Helper()
			if _, found := w.compare(a, allowance{}); !strings.Contains(strings.Join(found, "\n"), what) {
				t.Errorf("the checker does not see %q: %q", what, found)
			}
		}
		db := w.sql()
		sql := func(s string) {
			t.Helper()
			if tag, err := db.Exec(context.Background(), s); err != nil || tag.RowsAffected() == 0 {
				t.Fatalf("%s: %v %v", s, tag, err)
			}
		}
		var users []string // that were drawn: a short load knows some only
		if err := db.QueryRow(context.Background(), `SELECT array_agg(distinct_id) FROM
			(SELECT distinct_id FROM person_distinct_ids WHERE distinct_id LIKE 'user-%' ORDER BY 1 LIMIT 3) u`).Scan(&users); err != nil || len(users) < 3 {
			t.Fatalf("users %q: %v", users, err)
		}
		sql(`UPDATE persons SET properties = '{"p0": "wrong"}' WHERE id = (SELECT person_id FROM person_distinct_ids WHERE distinct_id = '` + users[0] + `')`)
		sees("person of " + users[0] + " is")
		sql(`DELETE FROM person_distinct_ids WHERE distinct_id = '` + users[1] + `'`)
		sees(`has not the distinct id "` + users[1] + `"`)
		w.ask(`INSERT INTO events SELECT * REPLACE (generateUUIDv4() AS event_id) FROM events WHERE properties LIKE '%"n": %' LIMIT 1`, func([]byte) {})
		sees("a row of an event that nobody sent")
		w.ask(`ALTER TABLE events DELETE WHERE distinct_id = '`+users[2]+`' SETTINGS mutations_sync = 2`, func([]byte) {})
		sees("confirmed and lost")
		sees("stored, the checker counts")
		if w.int("XTRIM", "events:dlq", "MAXLEN", "=", "0") == 0 {
			t.Fatal("no letters")
		}
		sees("letters are held, the stream has 0")
	})
}
