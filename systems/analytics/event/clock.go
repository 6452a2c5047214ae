package event

import "time"

// Clock says when a client's clock is wrong, and how far from now an event may lie. Latency,
// batching and retries make a request arrive later than it was sent, never earlier, and not
// much later. Only what they cannot explain is corrected, so that the events of one client keep
// their order. The zero value has the defaults.
type Clock struct {
	Behind time.Duration // an older sending time shows a slow clock; 0: 5m
	Ahead  time.Duration // a sending time or an event further in the future shows a fast clock; 0: 1m

	EventsBehind time.Duration // how old an event may be, plus the rest of that month; 0: five years
	EventsAhead  time.Duration // how far in the future an event may be; 0: a day
}

const (
	clockBehind = 5 * time.Minute
	clockAhead  = time.Minute
)

func (c Clock) behind() time.Duration {
	if c.Behind > 0 {
		return c.Behind
	}
	return clockBehind
}

func (c Clock) ahead() time.Duration {
	if c.Ahead > 0 {
		return c.Ahead
	}
	return clockAhead
}

// error is by how much a client's clock is behind ours (below 0: ahead), if a request sent at
// its time sent came at our time now: 0 within the bounds. It is in whole minutes, rounded
// down. Latency only adds to the difference, so requests of one client are corrected by the
// same amount unless their latencies lie on both sides of a full minute.
func (c Clock) error(sent, now time.Time) time.Duration {
	if sent.IsZero() || now.IsZero() {
		return 0
	}
	late := now.UnixMilli() - sent.UnixMilli()
	if -c.ahead().Milliseconds() <= late && late <= c.behind().Milliseconds() {
		return 0
	}
	const minute = int64(time.Minute / time.Millisecond)
	rest := late % minute
	if rest < 0 {
		rest += minute
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if late -= rest; late < -most || most < late {
		return 0 // centuries: not a clock
	}
	return time.Duration(late) * time.Millisecond
}

// A Timing is when one event of a request happened, and its order among events of that time.
type Timing struct {
	At    time.Time // milliseconds
	Order uint64    // the greater is the later
	// Beyond is empty, or TooOld or TooNew: the given time lay beyond the bounds, and At is the
	// nearer one.
	Beyond string

	given  time.Time // unrounded; zero: not given
	sent   time.Time // of its request, by the same clock as given
	beyond time.Time // if Beyond is set: the earlier At
	keeps  bool      // even if it lies in the future
	known  bool      // At is known
}

// Together finishes the timings of one request, in its order. The request came at our time now.
//
// No event happens in the future. If all given times lie in the future, by more than c allows,
// the clock is fast: all are moved by the same amount, so that the latest is now. If only some
// do, each of these becomes now. A time that is then beyond the bounds is moved to the nearer
// bound.
//
// Events of one time are ordered by the given microseconds, then by the middle between the
// first and the last time of their requests, then by when these were sent, and then by their
// positions in the request. If a client cuts its events into several requests, the middle
// orders these, even if one had to be sent again.
func (c Clock) Together(ts []Timing, now time.Time) {
	var first, last time.Time
	free := 0 // may be moved
	for i := range ts {
		t := &ts[i]
		if t.given.IsZero() {
			continue
		}
		if first.IsZero() || t.given.Before(first) {
			first = t.given
		}
		if last.IsZero() || t.given.After(last) {
			last = t.given
		}
		if !t.keeps {
			free++
		}
	}
	if free > 0 && !now.IsZero() {
		c.latest(ts, first, last, now)
	}
	middle := first.UnixMicro()/2 + last.UnixMicro()/2
	earliest, newest := c.Bounds(now)
	for i := range ts {
		t := &ts[i]
		if !now.IsZero() {
			t.bound(earliest, newest)
		}
		t.order(middle, uint64(i))
	}
}

// latest moves the times that lie in the future.
func (c Clock) latest(ts []Timing, first, last, now time.Time) {
	limit := now.Add(c.ahead())
	if !last.After(limit) {
		return
	}
	now = rounded(now)
	together := first.After(limit) && last.Sub(first) < 1<<63-1 // else their distance is not known
	for i := range ts {
		t := &ts[i]
		switch {
		case t.keeps || t.given.IsZero():
		case together:
			t.At = now.Add(-rounded(last).Sub(t.At))
		case t.At.After(now):
			t.At = now
		}
	}
}

// The bits of an order, from the lowest.
const (
	placeBits  = 14 // more than the events of any request
	sentBits   = 20 // milliseconds from the event's time, up to nine minutes both ways
	middleBits = 20 // half milliseconds, up to four minutes both ways
)

func (t *Timing) order(middle int64, place uint64) {
	at := t.At.UnixMicro()
	if t.given.IsZero() {
		middle = at
	} else if t.At.Equal(rounded(t.given)) {
		t.Order = uint64(t.given.Nanosecond() / 1000 % 1000)
	}
	t.Order = t.Order<<middleBits | offset((middle-at)/500, middleBits)
	t.Order = t.Order<<sentBits | offset(t.sent.UnixMilli()-t.At.UnixMilli(), sentBits)
	t.Order = t.Order<<placeBits | min(place, 1<<placeBits-1)
}

// offset is n in so many bits, from the middle of their range.
func offset(n int64, bits int) uint64 {
	half := int64(1) << (bits - 1)
	return uint64(min(max(n, -half), half-1) + half)
}

// timed sets the event's time and order, unless the endpoint has done so already: the given
// time, corrected by the error of the client's clock; else our time, less the event's age in
// milliseconds if that is given. field names at in errors.
func (d *decoder) timed(m *Meta, field string, at, sent, offset []byte, asGiven bool, e *Event) error {
	e.given = at
	if !m.At.IsZero() {
		e.Timestamp, e.Order = m.At, m.Order
		return nil
	}
	t, ok, err := d.when(at, field)
	if err != nil {
		return err
	}
	clock := m.Sent
	if clock.IsZero() {
		clock = d.hint(sent)
	}
	off := m.Clock.error(clock, m.Received)
	if clock.IsZero() || off != 0 {
		clock = m.Received
	}
	e.timing = Timing{known: true, sent: clock, keeps: m.Import || asGiven}
	switch {
	case !ok && m.Received.IsZero():
		return invalid(field, "missing, and so is the time of receiving")
	case !ok:
		if t = m.Received; offset != nil {
			if age, good := age(d.characters(offset)); good {
				t = t.Add(-age)
			}
		}
	default:
		if moved := t.Add(off); !e.timing.keeps && inRange(moved.Unix()) {
			t = moved
		}
		e.timing.given = t
	}
	e.timing.At = rounded(t)
	return nil
}

// alone finishes the timing of an event that came by itself, or at a position of a stream.
// Timing from an endpoint stays.
func (e *Event) alone(m *Meta, place uint64) {
	beyond := m.Beyond
	if e.timing.known {
		one := [1]Timing{e.timing}
		m.Clock.Together(one[:], m.Received)
		e.timing = one[0]
		e.Timestamp, e.Order = one[0].At, one[0].Order|min(place, 1<<placeBits-1)
		beyond = one[0].Beyond != ""
	}
	e.keepGiven(beyond)
}

// age reads milliseconds of at most a year.
func age(s []byte) (time.Duration, bool) {
	var ms int64
	for i, ch := range s {
		if ch == '.' && i > 0 {
			break
		}
		if ch < '0' || '9' < ch || i > 10 {
			return 0, false
		}
		ms = ms*10 + int64(ch-'0')
	}
	return time.Duration(ms) * time.Millisecond, len(s) > 0 && ms <= 366*24*3600*1000
}
