package admin_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// A page of jobs looks at so many that do not match, or for so long, says how many they were, and the
// next goes on there.
func TestAPageOfJobsSaysHowManyWereLookedAt(t *testing.T) {
	const most = 10_000
	s := memoryqueue.New(memoryqueue.Options{})
	var jobs []*tidemill.Message
	for i := range 2*most + 10 {
		m := &tidemill.Message{ID: fmt.Sprint(i), To: "q", Type: "common"}
		if i%most == 7 {
			m.Type = "rare"
		}
		jobs = append(jobs, m)
	}
	if err := s.Add(t.Context(), jobs, nil); err != nil {
		t.Fatal(err)
	}
	for takes, want := range map[time.Duration]struct{ pages, looked int }{0: {3, most}, 25 * time.Millisecond: {11, most / 5}, time.Second: {21, most / 10}} {
		var now time.Time
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Now: func() time.Time { now = now.Add(takes); return now }})
		defer d.api.Close()
		for _, order := range []string{"oldest", "newest"} {
			shown, looked, cursor := 0, 0, ""
			for pages := 1; ; pages++ {
				var p struct {
					Items  []json.RawMessage `json:"items"`
					Next   string            `json:"next"`
					Looked int               `json:"looked"`
				}
				if err := json.Unmarshal([]byte(d.get("queues/q/jobs?limit=50&type=rare&order="+order+cursor)), &p); err != nil {
					t.Fatal(err)
				}
				if shown, looked = shown+len(p.Items), looked+p.Looked; p.Next == "" {
					if shown != 3 || looked != 2*most || pages != want.pages {
						t.Errorf("%s, %v: %d jobs on %d pages, %d others looked at", order, takes, shown, pages, looked)
					}
					break
				}
				if p.Looked != want.looked {
					t.Fatalf("%s, %v: page %d says that %d were looked at", order, takes, pages, p.Looked)
				}
				cursor = "&cursor=" + p.Next
			}
		}
	}
}
