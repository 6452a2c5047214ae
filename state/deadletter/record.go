package deadletter

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// The most that a store keeps of each dead letter.
const (
	MaxHistory = 20      // failures, the newest
	MaxCause   = 4 << 10 // bytes of a cause: the first 2 KB of an answer, and the text around it
)

// A Record is a dead letter as a backend keeps it, with its replay. Its methods are the
// rules of the role, the same for every backend. A backend calls them where nothing else
// changes the record (under its mutex, in its transaction).
type Record struct {
	Letter
	Deaths int       // times it died; with Seq it names what a snapshot saw
	Asked  int       // times a replay was asked for: the position's Hi
	Handed int       // times handed out in this replay
	Burnt  int       // failed tries of this replay
	Epoch  uint32    // of the newest lease
	Due    time.Time // not to be handed out before; zero: at once
	Until  time.Time // end of the lease; zero: not handed out
}

// Instant rounds a time to the precision of a dead letter's own times: UTC, whole
// milliseconds. The message's times are kept as received.
func Instant(t time.Time) time.Time {
	return time.UnixMilli(t.UnixMilli()).UTC() // a zero time stays zero
}

// Full is the error of a Put without room.
func Full(pipeline string, fresh, held, limit int) error {
	return tidemill.Fail(tidemill.RateLimit, "put %d more dead letters of %q beside %d of at most %d: %w", fresh, pipeline, held, limit, ErrFull)
}

// Put updates the record with the dead letter l. It reports whether anything changed, and
// whether another message's death replaced the one before: the books count it as put and as
// discarded once more. The zero Record is a new one; the backend gives its Seq. Read the
// message of an edited one before.
func (r *Record) Put(l *tidemill.DeadLetter) (changed, another bool) {
	f := Failure{At: Instant(l.At), Kind: l.Kind, Cause: cut(l.Cause), Tries: l.Tries}
	switch {
	case r.Deaths == 0:
		r.Pipeline, r.First = strings.Clone(l.Pipeline), f.At
	case r.Mark.At(l.Message.Mark) && slices.ContainsFunc(r.History, f.same) && r.Damaged == "":
		return false, false // also where it died once more in between, handed out to another
	case r.State == Replaying && r.Handed > 0:
		r.Replays++ // the replay failed on another path
	}
	another = r.Deaths > 0 && !r.Mark.At(l.Message.Mark)
	if r.Damaged != "" || !bytes.Equal(r.Payload, l.Message.Payload) {
		r.Edited, r.Original = time.Time{}, nil // another message than the edited one
	}
	if slices.ContainsFunc(r.History, func(f Failure) bool { return f.Answer != nil }) {
		f.Answer = append([]byte{}, l.Row...) // the row is newer than those
	}
	r.Message = Copy(l.Message)
	r.Row = bytes.Clone(l.Row)
	r.Damaged = ""
	r.die(f)
	return true, another
}

func (f Failure) same(o Failure) bool {
	return f.At.Equal(o.At) && f.Kind == o.Kind && f.Cause == o.Cause && f.Tries == o.Tries
}

// die makes the dead letter held, with one more failure.
func (r *Record) die(f Failure) {
	r.State = Held
	r.Kind, r.Cause, r.Last = f.Kind, f.Cause, f.At
	r.Deaths++
	r.History = append(r.History, f)
	if n := len(r.History) - MaxHistory; n > 0 {
		r.History = slices.Delete(r.History, 0, n)
	}
	r.Due, r.Until = time.Time{}, time.Time{}
}

// Replay marks a held dead letter as replaying and says whether it was held.
func (r *Record) Replay() bool {
	if r.State != Held || r.Damaged != "" {
		return false
	}
	r.State = Replaying
	r.Asked++
	r.Handed, r.Burnt = 0, 0
	r.Due, r.Until = time.Time{}, time.Time{}
	return true
}

// Next is when a replaying dead letter may be handed out; zero: at once.
func (r *Record) Next() time.Time {
	if !r.Until.IsZero() {
		return r.Until
	}
	return r.Due
}

// Lease hands the dead letter out under a new lease.
func (r *Record) Lease(now time.Time, lease time.Duration) {
	r.Epoch++
	r.Handed++
	r.Until = now.Add(lease)
}

// Position is the mark of the newest hand-out.
func (r *Record) Position() tidemill.Mark {
	return tidemill.Mark{Epoch: r.Epoch, Hi: uint64(r.Asked), Lo: uint64(r.Seq)}
}

// Fill writes the message of the newest hand-out.
func (r *Record) Fill(m *tidemill.Message) {
	payload, key, header := m.Payload[:0], m.Key[:0], m.Header[:0]
	*m = r.Message
	m.Payload = append(payload, r.Payload...)
	m.Key = append(key, r.Key...)
	for _, f := range r.Header {
		if string(f.Name) != RowHeader { // only the dead letter's own header counts
			header = append(header, tidemill.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
		}
	}
	if r.Row != nil && (r.Edited.IsZero() || bytes.Equal(r.Row, r.Payload)) {
		header = append(header, tidemill.Field{Name: []byte(RowHeader), Value: bytes.Clone(r.Row)})
	}
	m.Header = header
	m.Tries, m.Handed, m.Mark = r.Burnt, r.Handed, r.Position()
}

// Holds says whether a settlement under this mark is for the newest hand-out, and whether
// that was not given back yet. So giving it back a second time, because the answer was lost,
// counts one try. The zero mark stands for any holder.
func (r *Record) Holds(m tidemill.Mark) bool {
	return r.State == Replaying && r.Handed > 0 && !r.Until.IsZero() && (m == tidemill.Mark{} || m == r.Position())
}

// Settle ends the newest hand-out as s says and reports whether the dead letter is gone.
// The caller has checked Holds.
func (r *Record) Settle(s *tidemill.Settlement, now time.Time) (gone bool) {
	switch {
	case s.End == tidemill.Left: // its lease runs out by itself
	case s.End == tidemill.Again:
		r.Until, r.Due = time.Time{}, time.Time{}
		if s.After > 0 {
			r.Due = now.Add(s.After)
		}
		if s.CountTry {
			r.Burnt++
		}
	case s.Fate == tidemill.Dead:
		r.Replays++
		r.die(Failure{At: Instant(now), Kind: s.Kind, Cause: cut(s.Cause), Tries: r.Burnt + 1, Answer: bytes.Clone(s.Answer)})
	default:
		return true
	}
	return false
}

// Clone copies the dead letter with everything it refers to.
func (l *Letter) Clone() *Letter {
	c := *l
	c.Message = Copy(&l.Message)
	c.Row, c.Original = bytes.Clone(l.Row), bytes.Clone(l.Original)
	c.History = slices.Clone(l.History)
	return &c
}

// Copy copies a message with everything it refers to: the engine reuses its memory.
func Copy(m *tidemill.Message) tidemill.Message {
	c := *m
	c.ID, c.Tenant, c.Type, c.To = strings.Clone(m.ID), strings.Clone(m.Tenant), strings.Clone(m.Type), strings.Clone(m.To)
	c.Key, c.Payload = bytes.Clone(m.Key), bytes.Clone(m.Payload)
	c.Header = make([]tidemill.Field, len(m.Header))
	for i, f := range m.Header {
		c.Header[i] = tidemill.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)}
	}
	return c
}

// cut shortens a cause without leaving half a character behind.
func cut(s string) string {
	if len(s) > MaxCause {
		return strings.ToValidUTF8(s[:MaxCause], "")
	}
	return strings.Clone(s)
}

// Break holds a replaying dead letter again after its stored message was found damaged.
func (r *Record) Break(now time.Time) {
	r.die(Failure{At: Instant(now), Kind: tidemill.Internal, Cause: cut(r.Damaged)})
}
