// Package operate runs operations on many things (state/bulk): slice by slice, in whichever instance
// claims one first. What it changes is a Things; package admin has those of dead letters and of jobs.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/bulk"
)

// Thing is one of the things that an operation is about.
type Thing struct {
	Key     Key
	ID      string // of its message
	Owner   string // its tenant
	Sort    string // how it failed, or its type
	Group   string // the pipeline or queue that works on it
	Cause   string // of its last failure; empty: none is known
	At      time.Time
	Refused string // why it cannot be changed; empty: it can
}

// Key is where a thing is among those of an operation: in a part, then by two numbers.
type Key struct {
	Part   string
	Hi, Lo uint64
}

// String is the key as a cursor.
func (k Key) String() string { return fmt.Sprintf("%s/%d/%d", k.Part, k.Hi, k.Lo) }

// ParseKey reads a cursor; the zero Key for an empty one.
func ParseKey(cursor string) (k Key) {
	part, numbers, _ := strings.Cut(cursor, "/")
	_, _ = fmt.Sscanf(numbers, "%d/%d", &k.Hi, &k.Lo) // it was written so
	k.Part = part
	return k
}

// upTo says whether a key is before another of its part, or is it.
func (k Key) upTo(o Key) bool { return cmp.Or(cmp.Compare(k.Hi, o.Hi), cmp.Compare(k.Lo, o.Lo)) <= 0 }

// Things are those that a filter chooses, in the order of their keys, part by part. They do not
// match any more when they have been changed.
type Things interface {
	// List are the first of those that follow a key, at most most of one part.
	List(ctx context.Context, after Key, most int) iter.Seq2[Thing, error]
	// Move changes the first of those of a group that follow a key, in its part, and can be changed:
	// at most most of them. It says how many, also beside an error.
	Move(ctx context.Context, group string, after Key, most int) (int, error)
	// Waits says why nothing of a group should be changed now; empty: nothing hinders.
	Waits(ctx context.Context, group string) (string, error)
}

// Options tune a Runner; the zero value is ready to use.
type Options struct {
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: discarded
	Lease time.Duration    // after which another instance takes over; 0: 30s
}

// Runner runs the operations of a store.
type Runner struct {
	store bulk.Store
	owner string
	of    func(context.Context, *bulk.Operation) (Things, error)
	o     Options
	pace  map[string]*pace // of the operations that it runs, by id
}

// pace is how fast an operation goes.
type pace struct {
	things Things    // that it is about; nil: not told yet
	next   time.Time // not before
	size   int       // things of the next slice
	fails  int       // in a row
	renew  time.Time // the lease is renewed then, if not before
}

// New makes a runner; owner names this process, as no other. of finds the things of an operation.
func New(store bulk.Store, owner string, of func(context.Context, *bulk.Operation) (Things, error), o Options) *Runner {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	return &Runner{store: store, owner: owner, of: of, o: o, pace: map[string]*pace{}}
}

const (
	lookEvery  = time.Second            // for operations that are to be run
	firstSlice = 64                     // things
	mostSlice  = 1000                   // things
	leastRest  = 2 * time.Millisecond   // between slices
	quick      = 10 * time.Millisecond  // a slice that takes less is followed by a larger one
	slow       = 25 * time.Millisecond  // one that takes longer by a smaller one: others wait for the store meanwhile
	waitFor    = time.Second            // where a group waits
	within     = 10 * time.Second       // a slice
	mostAgain  = 30 * time.Second       // between two attempts while the store is away
	firstAgain = 500 * time.Millisecond // the same, at first
)

// Run runs what there is to be run until nothing is left, or ctx ends: then others may take it up at
// once. It is called again and again, by one goroutine.
func (r *Runner) Run(ctx context.Context) error {
	defer r.release(context.WithoutCancel(ctx))
	for {
		next, err := r.turn(ctx)
		if err != nil || next.IsZero() {
			return err
		}
		t := time.NewTimer(next.Sub(r.o.Now()))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

// turn does a slice of each operation whose time it is, and says when the next is; zero: none runs.
func (r *Runner) turn(ctx context.Context) (next time.Time, err error) {
	all, err := r.store.List(ctx, bulk.Filter{States: []bulk.State{bulk.Scheduled, bulk.Running}})
	if err != nil {
		if len(r.pace) == 0 || ctx.Err() != nil {
			return next, err
		}
		return r.o.Now().Add(lookEvery), nil // it is away; what runs goes on when it is back
	}
	active := map[string]bool{}
	for _, o := range all {
		active[o.ID] = true
		r.advance(ctx, o)
	}
	for id, p := range r.pace {
		if !active[id] {
			delete(r.pace, id)
		} else if next.IsZero() || p.next.Before(next) {
			next = p.next
		}
	}
	if latest := r.o.Now().Add(lookEvery); next.After(latest) {
		next = latest
	}
	return next, nil
}

// advance does the next slice of an operation, if it is for this runner and its time is there.
func (r *Runner) advance(ctx context.Context, o *bulk.Operation) {
	now := r.o.Now()
	p := r.pace[o.ID]
	switch {
	case p != nil && now.Before(p.next) && now.Before(p.renew):
		return
	case now.Before(o.Starts), o.Owner != r.owner && now.Before(o.Until):
		return
	}
	claimed, err := r.store.Change(ctx, o.ID, func(o *bulk.Operation) error { return o.Claim(r.owner, r.o.Lease, now) })
	if err != nil {
		r.lost(o.ID, err)
		return
	}
	if p == nil {
		p = &pace{size: firstSlice}
		r.pace[o.ID] = p
		// Logged when this instance took up an operation, new or of one that is gone.
		r.o.Log.InfoContext(ctx, "operation goes on in this instance", "operation", o.ID, "what", o.Kind, "through", claimed.Through(), "total", o.Total)
	}
	if p.renew = now.Add(r.o.Lease / 3); now.Before(p.next) {
		return
	}
	sliced, stop := context.WithTimeout(ctx, within)
	defer stop()
	if err := r.slice(sliced, claimed, p); err != nil && ctx.Err() == nil {
		r.failed(ctx, claimed, p, err)
	} else {
		p.fails = 0
	}
}

// lost forgets an operation that is another's or has ended.
func (r *Runner) lost(id string, err error) {
	if errors.Is(err, bulk.ErrHeld) || errors.Is(err, bulk.ErrState) || errors.Is(err, bulk.ErrNotFound) {
		delete(r.pace, id)
	}
}

// failed has a slice done again later, and says why.
func (r *Runner) failed(ctx context.Context, o *bulk.Operation, p *pace, err error) {
	if r.lost(o.ID, err); r.pace[o.ID] == nil {
		return
	}
	again := min(firstAgain<<min(p.fails, 10), mostAgain)
	p.fails++
	p.next = r.o.Now().Add(again)
	// Logged when a slice of an operation failed; it is done again after a while.
	// To do: see whether what the error names is well, or stop the operation (`tidemill operations
	// stop`).
	r.o.Log.WarnContext(ctx, "operation is tried again", "operation", o.ID, "again_in", again, "error", err)
	r.waits(ctx, o, err.Error())
}

// waits notes why an operation does not go on now. That it could not be noted changes nothing.
func (r *Runner) waits(ctx context.Context, o *bulk.Operation, why string) {
	if o.Waits == why {
		return
	}
	_, _ = r.store.Change(ctx, o.ID, func(o *bulk.Operation) error {
		if o.Owner != r.owner || !o.Active() {
			return bulk.ErrHeld
		}
		o.Waits = why
		return nil
	})
}

// release lets others take up what this runner ran.
func (r *Runner) release(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	for id := range r.pace {
		if _, err := r.store.Change(ctx, id, func(o *bulk.Operation) error { return o.Release(r.owner) }); err != nil && !errors.Is(err, bulk.ErrHeld) {
			// Logged when an instance stops and cannot give up an operation; others go on with it when
			// its lease of 30 seconds is over.
			// To do: nothing.
			r.o.Log.WarnContext(ctx, "operation is not released, others wait for its lease", "operation", id, "error", err)
		}
		delete(r.pace, id)
	}
}
