package queue

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
)

// FailuresHeader is the name of the headers under which a job that failed before is handed
// out: one for each failed try, the oldest first, as Failure.Append writes it. So a keeper
// of the message, such as a dead letter, keeps every attempt. Add drops headers of that
// name that come from outside.
const FailuresHeader = "tidemill-failure"

// What is kept of a job's failed tries.
const (
	MaxFailures = 20  // the newest
	MaxFailure  = 512 // bytes of a cause
)

// failureTime is how the time of a failure is written.
const failureTime = "2006-01-02T15:04:05.000Z"

// A Failure is one failed try of a job: a settlement Again that counted a try, or the one
// that let the job die, which is visible where dead jobs are kept (Settings.Failed).
type Failure struct {
	At    time.Time // by the store's clock, whole milliseconds, UTC
	Kind  tidemill.Kind
	Cause string // its first MaxFailure bytes
}

// Append writes the failure as text: "2026-11-21T19:00:00.123Z partner_error answered 503".
func (f Failure) Append(b []byte) []byte {
	b = f.At.UTC().AppendFormat(b, failureTime)
	b = append(append(b, ' '), f.Kind.String()...)
	return append(append(b, ' '), CutCause(f.Cause)...)
}

// ParseFailure is the inverse of Append; false: b is not a failure.
func ParseFailure(b []byte) (Failure, bool) {
	at, rest, ok := bytes.Cut(b, []byte{' '})
	kind, cause, ok2 := bytes.Cut(rest, []byte{' '})
	t, err := time.Parse(failureTime, string(at))
	k, err2 := tidemill.ParseKind(string(kind))
	if string(kind) == tidemill.NoKind.String() {
		k, err2 = tidemill.NoKind, nil
	}
	if !ok || !ok2 || err != nil || err2 != nil {
		return Failure{}, false
	}
	return Failure{t, k, string(cause)}, true
}

// Sent is the headers that a message was added with: a queue hands its failures out behind them.
func Sent(m *tidemill.Message) []tidemill.Field {
	n := len(m.Header)
	for n > 0 && string(m.Header[n-1].Name) == FailuresHeader {
		n--
	}
	return m.Header[:n:n]
}

// FailuresOf reads the failed tries of a message that was handed out.
func FailuresOf(m *tidemill.Message) []Failure {
	var all []Failure
	for _, h := range m.Header {
		if string(h.Name) != FailuresHeader {
			continue
		}
		if f, ok := ParseFailure(h.Value); ok {
			all = append(all, f)
		}
	}
	return all
}

// CutCause is what is kept of a cause: its first MaxFailure bytes, without part of a
// character at their end.
func CutCause(s string) string {
	if len(s) <= MaxFailure {
		return s
	}
	n := MaxFailure
	for n > MaxFailure-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
