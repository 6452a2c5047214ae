package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/queue"
)

const (
	scanMost   = 100_000 // jobs that one request reads
	scanWithin = 2 * time.Second
	scanHits   = 100
)

// scanStates are the listings of a queue that are read: of those that have not ended, and of those
// that are kept.
var scanStates = []queue.State{"", queue.Completed, queue.Failed}

// scanAt is where a scan goes on: behind a job of a listing of a queue.
type scanAt struct {
	Text  string        `json:"t"`
	Owner string        `json:"o,omitempty"`
	Only  string        `json:"q,omitempty"`
	Queue string        `json:"at"`
	State int           `json:"s"`
	Mark  tidemill.Mark `json:"m"`
}

func (s *scanAt) String() string {
	b, _ := json.Marshal(s) // it has nothing that cannot be written
	return base64.RawURLEncoding.EncodeToString(b)
}

// scanFrom reads where a scan goes on, which is of the same scan.
func scanFrom(q *api.ScanQuery) (at scanAt, err error) {
	at = scanAt{Text: q.Text, Owner: q.Owner, Only: q.Queue}
	if q.Cursor == "" {
		return at, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	var from scanAt
	if err != nil || json.Unmarshal(b, &from) != nil || from.Text != at.Text || from.Owner != at.Owner || from.Only != at.Only || from.State < 0 || from.State >= len(scanStates) {
		return at, operation.Refuse(http.StatusBadRequest, "the cursor is none of this scan: take the next of an answer as it is, and ask for the rest as before")
	}
	return from, nil
}

// errScanned ends a scan that has read or found as much as one may, or took too long.
var errScanned = errors.New("as much as one request may was read")

// scanning is a scan of one request.
type scanning struct {
	api.Scanned
	at    scanAt
	left  int
	until time.Time
}

// scan looks through the jobs of all queues, and says where it stopped.
func (a *API) scan(ctx context.Context, q *api.ScanQuery) (api.Scanned, error) {
	s := &scanning{Scanned: api.Scanned{Hits: []api.Thing{}, Payloads: caller.From(ctx).Payloads}, left: q.Most, until: time.Now().Add(scanWithin)}
	if s.left == 0 {
		s.left = scanMost
	}
	var err error
	if s.at, err = scanFrom(q); err != nil {
		return s.Scanned, err
	}
	if q.Text == "" {
		return s.Scanned, operation.Refuse(http.StatusBadRequest, "say what to look for: q=…")
	}
	if a.Queues == nil {
		return s.Scanned, operation.Refuse(http.StatusNotFound, "this instance has no queues to show")
	}
	names, err := a.queueNames(ctx, sightOf(ctx))
	if err != nil {
		return s.Scanned, err
	}
	if q.Queue != "" {
		if err := a.hasQueue(ctx, q.Queue); err != nil {
			return s.Scanned, err
		}
		names = []string{q.Queue}
	}
	slices.Sort(names)
	for _, name := range names {
		if name < s.at.Queue {
			continue
		}
		if name > s.at.Queue { // the one where the last request stopped may be gone
			s.at.Queue, s.at.State, s.at.Mark = name, 0, tidemill.Mark{}
		}
		if err := a.scanQueue(ctx, s); errors.Is(err, errScanned) {
			s.Next = s.at.String()
			return s.Scanned, nil
		} else if err != nil {
			return s.Scanned, err
		}
	}
	return s.Scanned, nil
}

// scanQueue goes through the rest of a queue.
func (a *API) scanQueue(ctx context.Context, s *scanning) error {
	for ; s.at.State < len(scanStates); s.at.State, s.at.Mark = s.at.State+1, (tidemill.Mark{}) {
		f := queue.Filter{Queue: s.at.Queue, State: scanStates[s.at.State], After: s.at.Mark} // jobs of other owners count as read
		for j, err := range a.Queues.List(ctx, f) {
			if err != nil {
				return err
			}
			if s.left == 0 || len(s.Hits) == scanHits || s.Looked > 0 && time.Now().After(s.until) {
				return errScanned
			}
			s.left--
			s.Looked++
			s.at.Mark = j.Mark
			if where := s.has(j); where != "" && (s.at.Owner == "" || s.at.Owner == j.Tenant) {
				s.Hits = append(s.Hits, answer.JobHit(a.systemOf(j.To), j.To, j.Tenant, j.ID, fmt.Sprintf("job of queue %s, %s, added %s, by its %s", j.To, j.State, j.Added.UTC().Format(time.RFC3339), where)))
			}
		}
	}
	return nil
}

// has says where a job has the text; empty: nowhere.
func (s *scanning) has(j *queue.Job) string {
	text := []byte(s.at.Text)
	if strings.Contains(j.ID, s.at.Text) {
		return "id"
	}
	for _, h := range j.Header {
		if s.Payloads && bytes.Contains(h.Value, text) {
			return "header " + string(h.Name)
		}
	}
	if s.Payloads && bytes.Contains(j.Payload, text) {
		return "payload"
	}
	return ""
}
