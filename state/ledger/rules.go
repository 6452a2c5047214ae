package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// What a backend does where the caller left it open.
const (
	DefaultLease  = time.Minute // of Begin
	DefaultExpire = 1000        // entries of one Expire: short enough to hold nobody up
	MaxErr        = 4 << 10     // bytes kept of Err: an answer quoted whole must not fill the ledger
)

// ErrKey says that an entry's key is empty or longer than MaxKey. It comes with kind
// validation.
var ErrKey = errors.New("a key has 1 to 512 bytes")

// String returns the state as it is written in answers and metrics.
func (s State) String() string {
	return [...]string{"none", "fresh", "running", "done", "held", "failed", "?"}[min(s, Failed+1)]
}

// Check says what is wrong with the entry's key.
func (e *Entry) Check() error {
	if n := len(e.Key); n == 0 || n > MaxKey {
		return tidemill.Fail(tidemill.Validation, "ledger key %.40q of %d bytes: %w", e.Key, n, ErrKey)
	}
	return nil
}

// CheckBegin refuses what Begin must not see; backends call it before they change anything.
func CheckBegin(es []*Entry) error {
	for _, e := range es {
		if err := e.Check(); err != nil {
			return err
		}
	}
	return nil
}

// CheckEnd refuses what End must not see: a state that is no end.
func CheckEnd(es []*Entry) error {
	for _, e := range es {
		if e.State != Done && e.State != Failed && e.State != Held {
			return fmt.Errorf("end ledger entry %.40q as %v: want done, failed or held", e.Key, e.State)
		}
	}
	return nil
}

// A Record is an entry as a backend keeps it. Its methods are the rules of the role,
// the same for every backend; a backend calls them where nobody else changes the record
// (under its mutex, in its transaction), with the time read there.
type Record struct {
	Entry
	Until time.Time // end of the lease while Running
}

// Instant is a time as ledgers keep it: UTC, whole milliseconds.
func Instant(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Begin opens the record for e if it may, under token, and says whether it did. The zero
// Record is one that is not there yet.
func (r *Record) Begin(e *Entry, o Begin, token uint64, now time.Time) bool {
	broken := r.State == Running
	switch r.State {
	case Running:
		same := e.Holder != "" && e.Holder == r.Holder
		if now.Before(r.Until) && !same {
			return false
		}
	case Done, Held:
		if !o.Anew {
			return false
		}
	case Failed:
	default:
		r.Entry = Entry{Key: strings.Clone(e.Key), Tenant: strings.Clone(e.Tenant), Type: strings.Clone(e.Type),
			Payload: bytes.Clone(e.Payload), Created: now}
	}
	r.State, r.Holder, r.Token = Running, strings.Clone(e.Holder), token
	r.Tries++
	r.Broken = broken
	r.Started, r.Ended = now, time.Time{}
	r.Until = Instant(now.Add(cmp.Or(max(o.Lease, 0), DefaultLease)))
	return true
}

// Answer sets e as Begin's caller shall see it.
func (r *Record) Answer(e *Entry, opened bool) {
	key := e.Key
	*e = r.Entry
	e.Broken = opened && r.Broken
	r.Broken = false // said once, not kept
	e.Key = key
	e.Payload = bytes.Clone(r.Payload)
	e.Result = nil
	switch {
	case opened:
		e.State, e.Err = Fresh, "" // what End is to write starts empty
	case r.State == Done:
		e.Token, e.Result = 0, bytes.Clone(r.Result)
	default:
		e.Token = 0 // who does not hold it cannot end it by mistake
	}
}

// End ends the record as e says, unless that is stale, and says whether it changed. It
// sets Stale and Ended of e. The zero Record is one that is gone.
func (r *Record) End(e *Entry, now time.Time) (changed bool) {
	e.Stale = e.Token == 0 || e.Token != r.Token || r.State == Done && e.State != Done
	if !e.Stale && r.State != Done {
		r.State, r.Result, r.Ended = e.State, bytes.Clone(e.Result), now
		r.Err = cut(e.Err, MaxErr)
		changed = true
	}
	if !e.Stale {
		e.Ended = r.Ended
	}
	return changed
}

// Gone says whether Expire may remove the record.
func (r *Record) Gone(before time.Time) bool {
	switch r.State {
	case Done, Failed:
		return r.Ended.Before(before)
	case Running:
		return r.Until.Before(before)
	}
	return false
}

// Match says whether the filter chooses e. Max is the backend's.
func (f *Filter) Match(e *Entry) bool {
	return (f.From.IsZero() || !e.Created.Before(f.From)) && (f.To.IsZero() || !e.Created.After(f.To)) &&
		(f.Tenant == "" || f.Tenant == e.Tenant) && (f.Type == "" || f.Type == e.Type) &&
		(f.State == 0 || f.State == e.State)
}

// cut shortens s to at most n bytes without leaving half a character behind.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
