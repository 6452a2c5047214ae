package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// DefaultLease is the lease of a Begin that sets none.
const DefaultLease = time.Minute

// DefaultExpire is how many entries one Expire removes that sets no number: few enough to block
// nobody.
const DefaultExpire = 1000

// MaxErr is how many bytes of Err are kept: an answer quoted whole must not fill the ledger.
const MaxErr = 4 << 10

// ErrKey says that an entry's key is empty or longer than MaxKey. It comes with kind
// validation.
var ErrKey = errors.New("a key has 1 to 512 bytes")

// ErrLong says that a field other than the key is longer than MaxKey or MaxPrint. It comes
// with kind validation.
var ErrLong = errors.New("tenant, type and holder have at most 512 bytes, a fingerprint 64")

// ErrStale is the error of a refused transaction: an entry was begun again by somebody
// else, has ended otherwise or is gone.
var ErrStale = errors.New("the entry is not the caller's any more")

// String returns the state as it is written in answers and metrics.
func (s State) String() string {
	return [...]string{"none", "fresh", "running", "done", "held", "failed", "conflict", "dropped", "?"}[min(s, Dropped+1)]
}

// Check returns what is invalid in an entry's input.
func (e *Entry) Check() error {
	if n := len(e.Key); n == 0 || n > MaxKey {
		return tidemill.Fail(tidemill.Validation, "ledger key %.40q of %d bytes: %w", e.Key, n, ErrKey)
	}
	if n := max(len(e.Tenant), len(e.Type), len(e.Holder)); n > MaxKey || len(e.Print) > MaxPrint {
		return tidemill.Fail(tidemill.Validation, "ledger entry %.40q: %w", e.Key, ErrLong)
	}
	return nil
}

// CheckBegin refuses invalid input of Begin; backends call it before they change anything.
func CheckBegin(es []*Entry) error {
	for _, e := range es {
		if err := e.Check(); err != nil {
			return err
		}
	}
	return nil
}

// CheckEnd refuses invalid input of End: a state that does not end an entry.
func CheckEnd(es []*Entry) error {
	for _, e := range es {
		switch e.State {
		case Done, Failed, Held, Dropped:
		default:
			return fmt.Errorf("end ledger entry %.40q as %v: want done, failed, held or dropped", e.Key, e.State)
		}
	}
	return nil
}

// A Record is an entry as a backend keeps it. Its methods are the rules of the role, the
// same for every backend. A backend calls them where nothing else changes the record (under
// its mutex, in its transaction), with the time read there.
type Record struct {
	Entry
	Until time.Time // end of the lease while Running
	Cut   bool      // the try before this one never ended
}

// Instant rounds a time as ledgers keep it: UTC, whole milliseconds.
func Instant(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Lasts is how long a lease of this Begin lasts.
func (o Begin) Lasts() time.Duration { return cmp.Or(max(o.Lease, 0), DefaultLease) }

// Opening says what Begin did to a record.
type Opening uint8

const (
	Shut     Opening = iota // it is not the caller's
	Opened                  // it is the caller's now, under the new token
	Reopened                // this very call had opened it before: under the token that it has
)

// Begin opens the record for e if it may, under token. The zero Record is a new one.
func (r *Record) Begin(e *Entry, o Begin, token uint64, now time.Time) Opening {
	if r.differs(e) {
		return Shut
	}
	until := Instant(now.Add(o.Lasts()))
	broken := r.State == Running
	switch r.State {
	case Running:
		if e.Call != 0 && e.Call == r.Call {
			r.Until = until
			return Reopened
		}
		same := e.Holder != "" && e.Holder == r.Holder
		if now.Before(r.Until) && !same {
			return Shut
		}
	case Done, Held:
		if !o.Anew {
			return Shut
		}
	case Failed:
	default:
		r.Entry = Entry{Key: strings.Clone(e.Key), Tenant: strings.Clone(e.Tenant), Type: strings.Clone(e.Type),
			Payload: bytes.Clone(e.Payload), Print: bytes.Clone(e.Print), Created: now}
	}
	r.State, r.Holder, r.Token = Running, strings.Clone(e.Holder), token
	r.Tries++
	r.Cut, r.Call = broken, e.Call
	r.Started, r.Ended = now, time.Time{}
	r.Until = until
	return Opened
}

// differs says whether e asks for something else under the same key.
func (r *Record) differs(e *Entry) bool {
	return len(r.Print) > 0 && len(e.Print) > 0 && !bytes.Equal(r.Print, e.Print)
}

// Answer sets e as Begin's caller sees it.
func (r *Record) Answer(e *Entry, o Opening) {
	if o == Shut && r.differs(e) {
		e.Refuse()
		return
	}
	opened := o != Shut
	r.Show(e)
	e.Broken = opened && r.Cut
	e.Result = nil
	switch {
	case opened:
		e.LastResult, e.LastErr = bytes.Clone(r.Result), r.Err
		e.State, e.Err = Fresh, "" // End's output starts empty
	case r.State == Done:
		e.Token, e.Result = 0, bytes.Clone(r.Result)
	default:
		e.Token = 0 // a caller that does not hold it cannot end it by mistake
	}
}

// Refuse sets e as the caller of a Conflict sees it: its own input, and nothing of the
// stored entry.
func (e *Entry) Refuse() {
	e.State, e.Token, e.Result, e.Err, e.Stale, e.Broken = Conflict, 0, nil, "", false, false
	e.LastResult, e.LastErr = nil, ""
	e.Tries, e.Created, e.Started, e.Ended = 0, time.Time{}, time.Time{}, time.Time{}
}

// Show sets e as Log's caller sees it.
func (r *Record) Show(e *Entry) {
	key := e.Key
	*e = r.Entry
	e.Key = cmp.Or(key, r.Key)
	e.Payload, e.Print, e.Result = bytes.Clone(r.Payload), bytes.Clone(r.Print), bytes.Clone(r.Result)
}

// End ends the record as e says, unless that is stale, and says whether it changed. It sets
// Stale and Ended of e. The zero Record is one that is gone; remove a record that is
// Dropped.
func (r *Record) End(e *Entry, now time.Time) (changed bool) {
	if r.State == 0 || r.State == Dropped {
		e.Stale = e.State != Dropped || e.Token == 0
		return false
	}
	e.Stale = e.Token == 0 || e.Token != r.Token || r.State == Done && e.State != Done
	if !e.Stale && r.State != Done {
		r.State, r.Result, r.Ended = e.State, bytes.Clone(e.Result), now
		r.Err = Cause(e.Err)
		changed = true
	}
	if !e.Stale {
		e.Ended = r.Ended
	}
	return changed
}

// Admit says whether a transaction may end the entries: records are those of their keys,
// locked, nil for a missing one. before means that the same was committed before. Admit
// sets Stale of es.
func Admit(es []Entry, records []*Record) (before bool, err error) {
	done, stale := 0, 0
	for i := range es {
		e, r := &es[i], records[i]
		e.Stale = r == nil || e.Token == 0 || e.Token != r.Token
		switch {
		case e.Stale:
			stale++
		case r.State == Done:
			e.Ended = r.Ended
			done++
		}
	}
	if done == len(es) {
		return true, nil
	}
	for i := range es {
		if !es[i].Stale && records[i].State == Done { // by another End than this
			es[i].Stale = true
			stale++
		}
	}
	if stale > 0 {
		return false, fmt.Errorf("%d of %d: %w", stale, len(es), ErrStale)
	}
	return false, nil
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

// Since is where a listing begins, for a backend that reads in milliseconds: at the first
// entry created then whose key is greater than after, or later.
func (f *Filter) Since() (milli int64, after string) {
	switch milli = f.From.UnixMilli(); {
	case f.From.IsZero():
		return math.MinInt64, ""
	case time.UnixMilli(milli).Before(f.From):
		return milli + 1, ""
	case f.Back:
		return milli, ""
	}
	return milli, f.After
}

// Till is where a listing ends, or begins with Back, for a backend that reads in milliseconds: at
// the last entry created then whose key is less than before, or earlier. Before is empty where
// each key counts.
func (f *Filter) Till() (milli int64, before string) {
	switch {
	case f.To.IsZero():
		return math.MaxInt64, ""
	case f.Back:
		return f.To.UnixMilli(), f.After
	}
	return f.To.UnixMilli(), ""
}

// Cause is the part of a failure's text that is kept, without half a character at its end.
func Cause(s string) string {
	if len(s) <= MaxErr {
		return strings.Clone(s)
	}
	return strings.ToValidUTF8(s[:MaxErr], "")
}
