// Package entry is a window as its backends keep it: the rules of the role, its keys and its errors.
package entry

import (
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// maxCause is how much of a cause is kept, in bytes: the first 2 KB of an answer, and the
// text around it.
const maxCause = 4 << 10

// An Entry is a window as a backend keeps it. Its methods are the rules of the role. A
// backend calls them where nothing else changes the entry (under its mutex, in its
// transaction), or does the same in a script.
type Entry struct {
	window.Info
	Epoch uint32 // of the newest lease
	Line  uint64 // its place among the closed windows of its batch id: the lowest goes first
}

// Instant rounds a time as windows keep it: UTC, whole milliseconds.
func Instant(t time.Time) time.Time {
	return time.UnixMilli(t.UnixMilli()).UTC() // a zero time stays zero
}

// instantUp is the first whole millisecond that is not before t: nothing comes back before
// its time.
func instantUp(t time.Time) time.Time {
	at := Instant(t)
	if at.Before(t) {
		at = at.Add(time.Millisecond)
	}
	return at
}

// NextRevision is the revision of a window that is opened now; last is the highest revision
// ever given. It is a time as well, so that revisions are not reused even after a store has
// lost its data.
func NextRevision(last uint64, now time.Time) uint64 {
	return max(last+1, uint64(max(now.UnixMilli(), 1)))
}

// Start makes the entry of a window that is opened now.
func Start(batch string, revision uint64, now time.Time) *Entry {
	batch = strings.Clone(batch)
	return &Entry{Info: window.Info{ID: window.ID(batch, revision), Batch: batch, Revision: revision, State: window.Active, Opened: Instant(now)}}
}

// Over says whether an active window is to be closed, and why.
func (e *Entry) Over(now time.Time, lasts time.Duration) (window.Why, bool) {
	switch {
	case e.Expect > 0 && e.Records >= e.Expect:
		return window.ByCount, true
	case !Instant(now).Before(e.Opened.Add(lasts)):
		return window.ByTime, true
	}
	return "", false
}

// Close freezes an active window.
func (e *Entry) Close(now time.Time, why window.Why, line uint64) {
	e.State, e.Closed, e.Why, e.Line, e.Due = window.Ready, Instant(now), why, line, time.Time{}
}

// Lease hands the window out under a new lease.
func (e *Entry) Lease(now time.Time, lease time.Duration, owner string) {
	e.State, e.Owner = window.Leased, owner
	e.Epoch++
	e.Handed++
	e.Due = instantUp(now.Add(lease))
}

// Renew lets the newest lease go on.
func (e *Entry) Renew(now time.Time, lease time.Duration) { e.Due = instantUp(now.Add(lease)) }

// Position is the mark of the newest hand-out.
func (e *Entry) Position() tidemill.Mark {
	return tidemill.Mark{Epoch: e.Epoch, Hi: uint64(e.Replays), Lo: e.Revision}
}

// Holds says whether a mark belongs to the newest hand-out, and that was not given back. The
// zero mark stands for any holder.
func (e *Entry) Holds(m tidemill.Mark) bool {
	return e.State == window.Leased && (m == tidemill.Mark{} || m == e.Position())
}

// Settle ends the newest hand-out as s says, and reports whether the window is gone. The
// caller has checked Holds. A parked window loses its place in the line.
func (e *Entry) Settle(s *tidemill.Settlement, now time.Time) (gone bool) {
	switch {
	case s.End == tidemill.Left: // its lease runs out by itself
		return false
	case s.End == tidemill.Again:
		e.State, e.Owner, e.Due = window.Ready, "", time.Time{}
		if s.After > 0 {
			e.Due = instantUp(now.Add(s.After))
		}
		if s.CountTry {
			e.fail(s, now)
		}
		return false
	case s.Fate == tidemill.Dead:
		e.fail(s, now)
		e.State, e.Owner, e.Due, e.Line = window.Parked, "", time.Time{}, 0
		return false
	}
	return true
}

func (e *Entry) fail(s *tidemill.Settlement, now time.Time) {
	e.Tries++
	e.Failed, e.Kind, e.Cause = Instant(now), s.Kind, Cut(s.Cause)
}

// Replay makes a parked window ready again. Its lost records are dead for good.
func (e *Entry) Replay(line uint64) {
	e.State, e.Line = window.Ready, line
	e.Records, e.Lost = e.Records-e.Lost, 0
	e.Replays++
	e.Handed, e.Tries = 0, 0
}

// Booked is what an applied settlement adds to the books of a window with that many
// records, lost of them found missing.
func Booked(s *tidemill.Settlement, records, lost int64) (row tidemill.Count) {
	switch {
	case s.End != tidemill.Done:
		return row
	case s.Fate == tidemill.Dead:
		return tidemill.Count{Dead: uint64(records)}
	case s.Records != tidemill.Count{}:
		row = s.Records
	case s.Fate == tidemill.Skipped:
		row.Skipped = uint64(records - lost)
	default:
		row.Delivered = uint64(records - lost)
	}
	row.Dead += uint64(lost)
	return row
}

// Stale is the error for reading under a lease that is not the newest.
func Stale(m tidemill.Mark) error {
	return tidemill.Fail(tidemill.Transient, "read the window of revision %d under lease %d: %w", m.Lo, m.Epoch, window.ErrStale)
}

// NoRoom is the error for reading a page into an empty slice.
func NoRoom() error {
	return tidemill.Fail(tidemill.Internal, "read a page of a window: give room for a record at least")
}

// BadCursor is the error for a from that no page returned.
func BadCursor(from string) error {
	return tidemill.Fail(tidemill.Validation, "read on from %q: that is no page's Next", from)
}

// Cut shortens a cause without leaving half a character behind.
func Cut(s string) string {
	if len(s) > maxCause {
		return strings.ToValidUTF8(s[:maxCause], "")
	}
	return strings.Clone(s)
}
