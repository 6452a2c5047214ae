package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/ledger"
)

const (
	// KeptOnce is how long an Idempotency-Key stands for its first answer.
	KeptOnce = 24 * time.Hour

	onceKey   = 255              // bytes of a key
	onceLease = 10 * time.Minute // after it a request that did not end is taken for one that never will
	onceAgain = 2                // seconds after which one is asked for again that runs
)

// kept is the first answer to a request.
type kept struct {
	Status int    `json:"status"`
	Type   string `json:"type"`
	Tag    string `json:"etag,omitempty"`
	Body   []byte `json:"body"`
}

func (k *kept) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", k.Type)
	if k.Tag != "" {
		w.Header().Set("ETag", k.Tag)
	}
	w.WriteHeader(k.Status)
	_, _ = w.Write(k.Body)
}

// recorder keeps an answer until it is durable.
type recorder struct {
	kept
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.Status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// once has a change made once for its Idempotency-Key: the entry is durable before the change is
// made, and its answer before it is given. A change that has begun is finished though its client is
// gone, which will ask again.
func (a *API) once(w http.ResponseWriter, r *http.Request, most int64, do http.HandlerFunc) error {
	e, err := a.entryOf(w, r, most)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	if err := a.Once.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{Lease: onceLease}); err != nil {
		return answer.Busy(err)
	}
	switch {
	case e.State == ledger.Done:
		var first kept
		if err := json.Unmarshal(e.Result, &first); err != nil {
			return err
		}
		first.write(w)
		return nil
	case e.State == ledger.Conflict:
		return operation.Refuse(http.StatusUnprocessableEntity, "this Idempotency-Key is that of another request, of the last 24 hours: give this one a key of its own")
	case e.State == ledger.Running:
		p := operation.Refuse(http.StatusConflict, "the request of this Idempotency-Key is being worked on: ask again for its answer")
		p.After = onceAgain
		return p
	case e.Broken: // which is its answer from now on
		do = func(w http.ResponseWriter, r *http.Request) {
			a.fail(w, r, operation.Refuse(http.StatusConflict, "the request of this Idempotency-Key began, and nobody knows how it ended: all, a part or nothing of it was done. "+
				"Look, and ask for what is left with another key"))
		}
	}
	rec := &recorder{kept: kept{Status: http.StatusOK}, header: w.Header()}
	do(rec, r.WithContext(ctx))
	rec.Type, rec.Tag, rec.Body = rec.header.Get("Content-Type"), rec.header.Get("ETag"), rec.body.Bytes()
	e.State = ledger.Done
	if rec.refused() {
		e.State = ledger.Dropped
	} else if e.Result, err = json.Marshal(&rec.kept); err != nil {
		return err
	}
	if err := a.Once.End(ctx, []*ledger.Entry{e}); err != nil {
		// Logged when a change was made, and its answer could not be kept for who sends it again with
		// the same Idempotency-Key.
		// To do: see whether the database of the keys is well; a sender that repeats the request must
		// first look whether the change is made.
		a.Log.ErrorContext(ctx, "the answer of an idempotency key is not kept", "path", r.URL.Path, "error", err)
	}
	rec.write(w)
	return nil
}

// refused says whether the request was refused as a whole, so that it may be sent again: a conflict
// may have been met in between, and a problem says what was done before it.
func (k *kept) refused() bool {
	if k.Status/100 != 4 && k.Status != http.StatusServiceUnavailable || k.Status == http.StatusConflict {
		return false
	}
	var p operation.Problem
	return json.Unmarshal(k.Body, &p) == nil && p.Done == nil
}

// entryOf is the entry of a request's key, with a fingerprint of all that it asks, and of who does. The body is read.
func (a *API) entryOf(w http.ResponseWriter, r *http.Request, most int64) (*ledger.Entry, error) {
	keys := r.Header.Values(operation.IdempotencyKey)
	key := keys[0]
	if len(keys) > 1 || key == "" || len(key) > onceKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return nil, operation.Refuse(http.StatusBadRequest, "the header Idempotency-Key is one of 1 to %d printable characters", onceKey)
	}
	if a.Once == nil {
		return nil, operation.Refuse(http.StatusBadRequest, "this instance has no database that keeps an Idempotency-Key: leave it out")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, operation.Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", most)
	} else if err != nil {
		return nil, operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	who := caller.From(r.Context())
	print := sha256.Sum256(slices.Concat([]byte(strings.Join([]string{r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get(operation.IfMatch), who.Name, who.Rights.String(), ""}, "\n")), body))
	return &ledger.Entry{Key: key, Print: print[:]}, nil
}

// ForgetOnce forgets the keys whose time is over.
func ForgetOnce(ctx context.Context, keys ledger.Expirer, now time.Time) error {
	for {
		n, err := keys.Expire(ctx, now.Add(-KeptOnce), 0)
		if err != nil || n == 0 {
			return err
		}
	}
}
