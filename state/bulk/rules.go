package bulk

import (
	"fmt"
	"time"
)

// Millis is the precision in which times of operations are kept: whole milliseconds, UTC.
func Millis(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Active says whether the operation is scheduled or running.
func (o *Operation) Active() bool { return o.State == Scheduled || o.State == Running }

// Expires is when the operation is forgotten; zero: not while it is as it is.
func (o *Operation) Expires() time.Time {
	switch {
	case o.State == Previewed:
		return o.Made.Add(PreviewFor)
	case o.Active():
		return time.Time{}
	}
	return o.Ended.Add(KeptFor)
}

// Start schedules a previewed operation for a time. ErrState, ErrTooOld.
func (o *Operation) Start(by string, rate Rate, at, now time.Time) error {
	switch {
	case o.State != Previewed:
		return fmt.Errorf("operation %s is %s: %w", o.ID, o.State, ErrState)
	case !now.Before(o.Expires()):
		return ErrTooOld
	}
	o.State, o.By, o.Rate, o.Starts = Scheduled, by, rate, at
	return nil
}

// Stop ends an operation that is scheduled or running; what has ended stays as it is. Its owner
// still counts the slice that it is changing.
func (o *Operation) Stop(by string, now time.Time) error {
	if o.State == Previewed {
		return fmt.Errorf("operation %s was not started: %w", o.ID, ErrState)
	}
	if o.Active() {
		o.end(Stopped, now)
		o.StoppedBy = by
	}
	return nil
}

func (o *Operation) end(as State, now time.Time) { o.State, o.Ended, o.Waits = as, now, "" }

// Claim makes owner the one who runs the operation for a lease, or renews that. ErrState: it is not
// to be run, or not yet; ErrHeld.
func (o *Operation) Claim(owner string, lease time.Duration, now time.Time) error {
	switch {
	case !o.Active() || now.Before(o.Starts):
		return ErrState
	case o.Owner != owner && now.Before(o.Until):
		return ErrHeld
	case o.State == Scheduled:
		o.State, o.Begun = Running, now
	}
	o.Owner, o.Until = owner, now.Add(lease)
	return nil
}

// Release lets go of an operation, so that another instance takes it up at once.
func (o *Operation) Release(owner string) error {
	if o.Owner != owner || o.State != Running {
		return ErrHeld
	}
	o.Owner, o.Until = "", time.Time{}
	return nil
}

// Begin notes the things that owner is about to change. ErrState: it was stopped; ErrHeld.
func (o *Operation) Begin(owner string, s Slice) error {
	switch {
	case o.State != Running:
		return ErrState
	case o.Owner != owner:
		return ErrHeld
	}
	o.Slice, o.Waits = s, ""
	return nil
}

// Count adds what became of the slice, and moves the cursor; also of an operation that was stopped
// meanwhile. ErrHeld: another owner has counted it, or will.
func (o *Operation) Count(owner, cursor string, did Progress) error {
	if o.Owner != owner || o.Slice.N == 0 {
		return ErrHeld
	}
	o.Cursor, o.Slice = cursor, Slice{}
	o.Changed += did.Changed
	for reason, n := range did.Failed {
		if o.Failed == nil {
			o.Failed = map[string]int{}
		}
		o.Failed[reason] += n
	}
	o.Failures = append(o.Failures, did.Failures[:min(len(did.Failures), MaxFailures-len(o.Failures))]...)
	return nil
}

// End ends a running operation of owner: why says why it could not go on; empty: it is done, and what
// matched and is neither changed nor failed was changed by somebody else.
// ErrState: it has ended; ErrHeld.
func (o *Operation) End(owner, why string, now time.Time) error {
	if err := o.Begin(owner, Slice{}); err != nil {
		return err
	}
	o.end(Done, now)
	if o.Why = why; why != "" {
		o.State = Failed
	} else if want := o.Total; !o.AtLeast {
		if o.Most > 0 {
			want = min(want, o.Most)
		}
		o.Gone = max(0, want-o.Changed-o.FailedAll())
	}
	return nil
}

// FailedAll is how many things could not be changed.
func (p *Progress) FailedAll() (n int) {
	for _, of := range p.Failed {
		n += of
	}
	return n
}

// Through is how many things the operation is done with.
func (p *Progress) Through() int { return p.Changed + p.Gone + p.FailedAll() }
