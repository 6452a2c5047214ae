package sqlitequeue

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// One settlement does not forget all of the day before: others wait for the file. Who looks
// sees nothing of what is too old.
func TestWhatIsOldIsForgottenInPortions(t *testing.T) {
	const many = 3500
	c := newClocked(t, Options{})
	for name, less := range map[string]func(*queue.Settings){
		"too old":  func(*queue.Settings) { c.at = c.at.Add(2 * time.Hour) },
		"too many": func(s *queue.Settings) { s.Completed.Count = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			c.set(func(s *queue.Settings) { s.Completed = queue.Keep{Count: 1 << 20, Age: time.Hour} })
			deliver := func(n int) {
				for done := 0; done < n; {
					got := c.now(n - done)
					ends := make([]tidemill.Settlement, len(got))
					for i, m := range got {
						ends[i] = delivered(m)
					}
					if err := c.src.Settle(t.Context(), ends); err != nil {
						t.Fatal(err)
					}
					done += len(got)
				}
			}
			var all []*tidemill.Message
			for i := range many + 1 {
				all = append(all, &tidemill.Message{ID: fmt.Sprint(name, i), To: "q"})
			}
			c.add(all...)
			deliver(many)
			c.set(less)
			deliver(1)
			kept := 0
			if err := c.db.Read(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow("SELECT count(*) FROM queue_kept").Scan(&kept) }); err != nil {
				t.Fatal(err)
			}
			if kept >= many || kept < many-2000 {
				t.Errorf("after one settlement %d of %d are kept", kept, many)
			}
			st, err := c.Stats(t.Context(), "q")
			if err != nil || st.Completed > 10 {
				t.Errorf("%+v, %v: want no more than what is to be kept", st, err)
			}
		})
	}
}
