package windowsingest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// maxWindows of a batch id are shown.
const maxWindows = 100

// batchStatus is what is known of a batch id. What processors and topics said of its windows
// is for operators.
type batchStatus struct {
	Batch   string               `json:"batch"`
	Records int64                `json:"records"` // in all windows that are shown
	States  map[window.State]int `json:"states"`  // windows in each
	Windows []windowStatus       `json:"windows"` // the oldest first
	More    bool                 `json:"more,omitempty"`
}

type windowStatus struct {
	ID       string       `json:"id"`
	Revision uint64       `json:"revision"`
	State    window.State `json:"state"`
	Records  int64        `json:"records"`
	Bytes    int64        `json:"bytes"`
	Expected int64        `json:"expected,omitempty"`
	Lost     int64        `json:"lost,omitempty"`
	Age      int64        `json:"ageSeconds"`
	Opened   time.Time    `json:"openedAt"`
	Closed   time.Time    `json:"closedAt,omitzero"`
	Why      window.Why   `json:"closedBy,omitempty"`
	Due      time.Time    `json:"dueAt,omitzero"`
	Tries    int          `json:"failedTries"`
	Failed   time.Time    `json:"failedAt,omitzero"`
	Reason   string       `json:"reason,omitempty"` // the kind of its last failure
}

func windowStatusOf(i *window.Info, now time.Time) windowStatus {
	s := windowStatus{ID: window.ID(record.ParseBatch(i.Batch).ID(), i.Revision), Revision: i.Revision, State: i.State, Records: i.Records, Bytes: i.Bytes, Expected: i.Expect, Lost: i.Lost,
		Age: max(int64(now.Sub(i.Opened)/time.Second), 0), Opened: endpoint.UTC(i.Opened), Closed: endpoint.UTC(i.Closed), Why: i.Why, Due: endpoint.UTC(i.Due), Tries: i.Tries, Failed: endpoint.UTC(i.Failed)}
	if !i.Failed.IsZero() {
		s.Reason = i.Kind.String()
	}
	return s
}

// status answers what is known of the windows of a batch id in the caller's project.
func (x *exchange) status(part string) *request.Problem {
	if p := x.authenticate(); p != nil {
		return p
	}
	id, err := url.PathUnescape(part)
	if err != nil || record.CheckBatchID(id) != nil {
		return request.NotFound("that is no batch id")
	}
	batch := record.NewBatch(x.project, id)
	s := batchStatus{Batch: id, States: map[window.State]int{}, Windows: []windowStatus{}}
	now := x.h.o.Now()
	for i, err := range x.h.o.Windows.List(x.R.Context(), window.Filter{Batch: batch.String(), Max: maxWindows + 1}) {
		if err != nil {
			// Logged when a sender asked what became of a batch id, and the store did not answer; the
			// answer is 503.
			// To do: see whether the store of windows is well.
			x.h.o.Log.WarnContext(x.R.Context(), "windows cannot be listed", "batch", batch.String(), "error", err)
			return request.Busy("status", "what is known of the batch id cannot be said now, please retry")
		}
		if s.More = len(s.Windows) == maxWindows; s.More {
			break
		}
		s.Records += i.Records
		s.States[i.State]++
		s.Windows = append(s.Windows, windowStatusOf(i, now))
	}
	if len(s.Windows) == 0 {
		return request.NotFound("there is no window of this batch id: nothing of it has come, or all that came is delivered")
	}
	b, err := json.Marshal(&s)
	if err != nil {
		// Logged when a sender asked what became of a batch id, and that cannot be written as JSON;
		// the answer is 503.
		// To do: report it with its error.
		x.h.o.Log.ErrorContext(x.R.Context(), "windows cannot be described", "batch", batch.String(), "error", err)
		return request.Busy("status", "what is known of the batch id cannot be said now, please retry")
	}
	x.JSON(http.StatusOK, b)
	return nil
}
