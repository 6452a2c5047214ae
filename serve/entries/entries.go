// Package entries takes entries of a bridge in over HTTP, where its stream is the embedded
// queue: what producers write into a Redis stream otherwise.
//
//	POST /api/v1/bridge/entries                 one entry: the body is its payload, byte for byte
//	POST … Content-Type: application/x-ndjson   one entry for each line
//
// It answers 202 {"ids":["…"]} once they are durable. With the header Idempotency-Key the
// ids are made of it, so that sending the same again adds nothing; without, they are new.
package entries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// Path is where it answers.
const Path = "/api/v1/bridge/entries"

// Options of a door. Queue and Add are required.
type Options struct {
	Queue   string
	Add     queue.Intake
	MaxBody int64            // bytes; 0 means 20 MiB
	Now     func() time.Time // nil: time.Now
	NewID   func() string    // nil: UUIDs of version 7
}

// maxKey is how long an Idempotency-Key may be.
const maxKey = 255

// New makes the door.
func New(o Options) http.Handler {
	if o.MaxBody <= 0 {
		o.MaxBody = 20 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func() string { return uuid.Must(uuid.NewV7()).String() }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids, err := o.take(w, r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		status, body := http.StatusAccepted, any(map[string]any{"ids": ids})
		if err != nil {
			status, body = statusOf(err), map[string]string{"error": err.Error()}
			if status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the one who asked is gone, or reads it
	})
}

var errMethod = errors.New("entries are sent by POST")

func (o *Options) take(w http.ResponseWriter, r *http.Request) ([]string, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, errMethod
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return nil, tidemill.Fail(tidemill.Validation, "the Idempotency-Key has up to %d printable characters", maxKey)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, o.MaxBody))
	if err != nil {
		return nil, err
	}
	payloads := [][]byte{body}
	if typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); typ == "application/x-ndjson" {
		payloads = payloads[:0]
		for line := range bytes.Lines(body) {
			if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
				payloads = append(payloads, line)
			}
		}
	}
	if len(payloads) == 0 || len(body) == 0 {
		return nil, tidemill.Fail(tidemill.Validation, "there is no entry in the body")
	}
	ids := make([]string, len(payloads))
	jobs := make([]*tidemill.Message, len(payloads))
	for i, p := range payloads {
		ids[i] = o.NewID()
		if key != "" {
			ids[i] = key
			if len(payloads) > 1 {
				ids[i] = fmt.Sprintf("%s/%d", key, i)
			}
		}
		jobs[i] = &tidemill.Message{ID: ids[i], To: o.Queue, Payload: p, Time: o.Now()}
	}
	if err := o.Add.Add(r.Context(), jobs, nil); err != nil {
		return nil, fmt.Errorf("the entries could not be stored: %w", err)
	}
	return ids, nil
}

func statusOf(err error) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	switch {
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed
	case tidemill.KindOf(err) == tidemill.Validation:
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}
