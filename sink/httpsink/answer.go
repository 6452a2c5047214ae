package httpsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
)

// Limits of what is read of an answer.
const (
	MaxBody    = 64 << 10 // bytes of a body, as sent and as inflated; then the connection is dropped
	MaxExcerpt = 2 << 10  // bytes of a body that dead letters and status show
)

// Answer is the answer to one request, for Judge and Items.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // the first 64 KiB, unpacked where it was gzip
	Whole  bool   // Body is all of it
	Took   time.Duration
	at     time.Time
}

// Verdict says what an answer, or a part of it, means for a message: NoKind is delivered.
type Verdict struct {
	Kind tidemill.Kind
	Why  string // in words, without data of the message
}

// Refusal is the error of messages that the destination did not accept, wrapped in a
// tidemill.Error with its kind. Where there was an answer it holds the parts that dead
// letters and status show.
type Refusal struct {
	Name   string        // of the destination
	Status int           // 0: no answer
	Body   []byte        // the first 2 KiB of the answer, with secrets masked
	Took   time.Duration // time until the answer
	Late   bool          // no answer came in time
	Reason string        // in a word, where there is one: blocked_target
	Why    string        // in words, without body
	Err    error         // the underlying error, where there was no answer
}

func (r *Refusal) Error() string { return r.Name + ": " + r.Why }
func (r *Refusal) Unwrap() error { return r.Err }

// read reads the first 64 KiB of the body into memory, which it returns for the next.
func (a *Answer) read(from *http.Response, into []byte) []byte {
	a.Status, a.Header = from.StatusCode, from.Header
	into, err := fill(into[:0], from.Body)
	if err == nil && strings.EqualFold(from.Header.Get("Content-Encoding"), "gzip") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(into)); err == nil {
			var plain []byte
			plain, err = fill(nil, z)
			into = plain
		}
	}
	_ = from.Body.Close() // if some of it is left, the connection ends here
	a.Body, a.Whole = into, err == nil
	return into
}

var errMore = errors.New("there is more")

// fill reads up to MaxBody bytes; errMore says that the body is longer.
func fill(into []byte, from io.Reader) ([]byte, error) {
	if cap(into) == 0 {
		into = make([]byte, 0, 512)
	}
	for {
		if len(into) == cap(into) {
			into = append(into, 0)[:len(into)]
		}
		room := into[len(into):min(cap(into), MaxBody+1)]
		n, err := from.Read(room)
		into = into[:len(into)+n]
		switch {
		case len(into) > MaxBody:
			return into[:MaxBody], errMore
		case errors.Is(err, io.EOF):
			return into, nil
		case err != nil:
			return into, err
		}
	}
}

// classes: what a status means, without the ranges.
var classes = map[int]tidemill.Kind{
	http.StatusBadRequest:          tidemill.Validation,
	http.StatusNotFound:            tidemill.Validation,
	http.StatusUnprocessableEntity: tidemill.Validation,
	http.StatusUnauthorized:        tidemill.Credentials,
	http.StatusForbidden:           tidemill.Credentials,
	http.StatusRequestTimeout:      tidemill.Timeout,
	http.StatusTooManyRequests:     tidemill.RateLimit,
}

// KindOf is what a status means where no rule says otherwise. Only an explicit list is
// permanent; an unexpected status is the destination's fault. NoKind is delivered.
func KindOf(status int) tidemill.Kind {
	if k, ok := classes[status]; ok {
		return k
	}
	if status >= 200 && status < 300 {
		return tidemill.NoKind
	}
	return tidemill.Partner
}

// judge says whether the destination accepted the request.
func (s *Sink) judge(a *Answer) error {
	v := Verdict{Kind: KindOf(a.Status)}
	if s.o.Judge != nil {
		if own, decided := s.o.Judge(a); decided {
			v = own
		}
	}
	if v.Kind == tidemill.NoKind {
		return nil
	}
	return s.refusal(v, a)
}

func (s *Sink) refusal(v Verdict, a *Answer) error {
	r := &Refusal{Name: s.o.Name, Status: a.Status, Body: bytes.Clone(s.blot(a.Body)), Took: a.Took, Why: s.blotText(answered(a.Status, v.Why))}
	e := &tidemill.Error{Kind: s.settled(v.Kind), Err: r}
	if !rejected(e.Kind) {
		e.After = RetryAfter(a.Header.Get("Retry-After"), s.o.Now(), s.o.MaxAfter)
	}
	return e
}

func answered(status int, why string) string {
	text := http.StatusText(status)
	if text != "" {
		text = " " + text
	}
	if why != "" {
		why = ": " + why
	}
	return fmt.Sprintf("answered %d%s%s", status, text, why)
}

// settled turns an unknown outcome into a retry where repeating is harmless.
func (s *Sink) settled(k tidemill.Kind) tidemill.Kind {
	if k == tidemill.Unknown && s.o.Idempotent {
		return tidemill.Partner
	}
	return k
}

// items reads the result of each message of an accepted request.
func (w *write) items(items []item, a *Answer) ([]error, error) {
	s := w.sink
	w.ids = w.ids[:0]
	for _, it := range items {
		w.ids = append(w.ids, it.id)
	}
	var verdicts []Verdict
	err := errors.New("the answer is not whole")
	if a.Whole {
		verdicts, err = s.o.Items(a, w.ids)
	}
	if err == nil && len(verdicts) != len(items) {
		err = fmt.Errorf("%d results for %d messages", len(verdicts), len(items))
	}
	if err != nil {
		return nil, s.refusal(Verdict{Kind: tidemill.Unknown, Why: fmt.Sprintf("what became of each message cannot be read: %v", err)}, a)
	}
	var failed []error
	for i, v := range verdicts {
		if v.Kind == tidemill.NoKind {
			continue
		}
		if failed == nil {
			failed = make([]error, len(items))
		}
		failed[i] = s.refusal(v, a)
	}
	return failed, nil
}

// unsigned is the error of a request that could not be signed: nothing was sent.
func (s *Sink) unsigned(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	e, ok := errors.AsType[*tidemill.Error](err)
	if !ok {
		e = &tidemill.Error{Kind: tidemill.Internal}
		if ctx.Err() != nil {
			e.Kind = tidemill.Timeout
		}
	}
	return &tidemill.Error{Kind: e.Kind, After: min(e.After, s.o.MaxAfter),
		Err: &Refusal{Name: s.o.Name, Reason: reason(err), Why: s.blotText("nothing was sent: " + err.Error()), Err: err}}
}

// lost is the error of a request without an answer.
func (s *Sink) lost(ctx, deadline context.Context, err error, sent *connected, a *Answer) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx) // the end of a context is not a failure
	}
	r := &Refusal{Name: s.o.Name, Took: a.Took, Err: err, Reason: reason(err)}
	kind := tidemill.Partner
	late := deadline.Err() != nil || timedOut(err)
	if late {
		kind = tidemill.Timeout
	}
	what := "no answer"
	badCertificate := sent.certificateRefused(err)
	switch {
	case badCertificate || !sent.written():
		what = "nothing was sent"
	case !s.o.Idempotent:
		kind, what = tidemill.Unknown, "the answer was lost, it may have been taken"
	}
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		kind = e.Kind // a blocked target
	} else if badCertificate {
		kind = tidemill.Credentials
	}
	if late {
		r.Late = true
		r.Why = fmt.Sprintf("%s within %v", what, s.o.Timeout)
	} else {
		r.Why = s.blotText(what + ": " + err.Error())
	}
	return &tidemill.Error{Kind: kind, Err: r}
}

func reason(err error) string {
	if b, ok := errors.AsType[*httpguard.Blocked](err); ok {
		return b.Reason()
	}
	return ""
}

func timedOut(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
