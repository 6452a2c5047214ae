package answer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/nearest"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
)

// Busy is a problem that the same request may not have a moment later.
func Busy(err error) error {
	p := operation.Refuse(http.StatusServiceUnavailable, "%v", err)
	p.After = 5
	return p
}

func names(wanted string, ps []project.Project) string {
	var ns []string
	for _, p := range ps {
		ns = append(ns, p.Name)
	}
	return Named(wanted, ns)
}

// Answerable gives what stores refuse the status that says whose fault it is.
func Answerable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrOut), errors.Is(err, queue.ErrClosed), errors.Is(err, deadletter.ErrReplaying), errors.Is(err, deadletter.ErrDamaged):
		return operation.Refuse(http.StatusConflict, "%v", err)
	}
	if errors.Is(err, queue.ErrChanged) || errors.Is(err, deadletter.ErrChanged) {
		return operation.Refuse(http.StatusPreconditionFailed, "%v", err)
	}
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		switch e.Kind {
		case tidemill.Validation:
			return operation.Refuse(http.StatusBadRequest, "%v", err)
		case tidemill.NotFound:
			return operation.Refuse(http.StatusNotFound, "%v", err)
		case tidemill.RateLimit:
			return operation.Refuse(http.StatusConflict, "%v", err)
		}
	}
	return err
}

// Named lists names in a sentence about one that is not among them, with the one that was probably
// meant.
func Named(wanted string, names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ") + nearest.Said(wanted, names)
}

// Listed are the items of a listing, each as the API shows it.
func Listed[T, A any](all []T, show func(*T) A) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		for i := range all {
			if !yield(show(&all[i]), nil) {
				return
			}
		}
	}
}

// ShownAs are what a store lists, each as the API shows it.
func ShownAs[T, A any](all iter.Seq2[T, error], show func(T) A) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		for t, err := range all {
			var a A
			if err == nil {
				a = show(t)
			}
			if !yield(a, Answerable(err)) || err != nil {
				return
			}
		}
	}
}

// Text is bytes as they are, or in base64 where they are no text.
func Text(b []byte) (plain, base string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// Bytes are those that Text shows.
func Bytes(plain, base string) []byte {
	if plain == "" && base != "" {
		b, _ := base64.StdEncoding.DecodeString(base) // Text wrote it
		return b
	}
	return []byte(plain)
}

// When is a time that may not have been.
func When(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// fields are the headers that came from outside. Those that begin with tidemill- are ours, and shown
// as what they mean.
func fields(m *tidemill.Message) (fs []api.Field) {
	for _, h := range m.Header {
		if name := string(h.Name); !strings.HasPrefix(name, "tidemill-") {
			f := api.Field{Name: name}
			f.Value, f.ValueBase64 = Text(h.Value)
			fs = append(fs, f)
		}
	}
	return fs
}

// Attempts shows failed tries.
func Attempts(failures []queue.Failure) (as []api.Attempt) {
	for _, f := range failures {
		as = append(as, api.Attempt{At: f.At.UTC(), Kind: f.Kind.String(), Cause: f.Cause})
	}
	return as
}

// FirstFailure is when the message failed first, not only when it first died.
func FirstFailure(l *deadletter.Letter) time.Time {
	if before := queue.FailuresOf(&l.Message); len(before) > 0 && before[0].At.Before(l.First) {
		return before[0].At.UTC()
	}
	return l.First.UTC()
}

// Last is the try after which a message died.
func Last(f deadletter.Failure) api.Attempt {
	return api.Attempt{At: f.At.UTC(), Kind: f.Kind.String(), Cause: f.Cause}
}

// Age is how long ago something was, in seconds; 0: it was not.
func Age(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}

// Passing says whether an error may be gone the next time.
func Passing(err error) bool {
	switch tidemill.KindOf(err) {
	case tidemill.Transient, tidemill.Timeout, tidemill.RateLimit:
		return true
	}
	return false
}

// ShowJob shows a job; whole: with its headers and its failed tries.
func ShowJob(j *queue.Job, whole bool) api.Job {
	out := api.Job{Queue: j.To, ETag: queue.Version(&j.Message), ID: j.ID, Tenant: j.Tenant, Type: j.Type, State: string(j.State), Priority: j.Priority, Tries: j.Tries, Handed: j.Handed,
		Time: When(j.Time), Added: j.Added.UTC(), Ended: When(j.Ended), Cause: j.Cause}
	if j.State == queue.Delayed {
		out.Due = When(j.At)
	}
	if !j.State.Held() {
		out.Fate = j.Fate.String()
	}
	out.Key, out.KeyBase64 = Text(j.Key)
	out.Payload, out.PayloadBase64 = Text(j.Payload)
	if whole {
		out.Fields, out.Attempts = fields(&j.Message), Attempts(j.Failures)
	}
	return out
}

// DeadLetter shows one, but for whose it is.
func DeadLetter(l *deadletter.Letter, whole bool) api.DeadLetter {
	out := api.DeadLetter{Seq: l.Seq, ETag: l.Version(), ID: l.ID, Pipeline: l.Pipeline, Type: l.Type, State: string(l.State), Reason: string(deadletter.ReasonOf(l.Kind)),
		Kind: l.Kind.String(), Cause: l.Cause, Tries: l.Tries, Replays: l.Replays, First: FirstFailure(l), Last: l.Last.UTC(), Damaged: l.Damaged, Edited: When(l.Edited)}
	if n := len(l.History); n > 0 {
		out.Tries = l.History[n-1].Tries
	}
	out.Payload, out.PayloadBase64 = Text(l.Payload)
	if !whole {
		return out
	}
	out.Original, out.OriginalBase64 = Text(l.Original)
	out.Fields = fields(&l.Message)
	out.Attempts = Attempts(queue.FailuresOf(&l.Message))
	if row := l.Answer(); json.Valid(row) {
		out.Row = row
	}
	for _, f := range l.History {
		h := api.Failure{Attempt: Last(f), Tries: f.Tries}
		if json.Valid(f.Answer) {
			h.Answer = f.Answer
		}
		out.History = append(out.History, h)
	}
	return out
}
