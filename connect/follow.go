package connect

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/instance"
)

const (
	lookEvery        = 30 * time.Second       // how often an instance looks for another version, told or not
	lookSpread       = 5 * time.Second        // up to so much later, so that instances do not look together
	lookPause        = 100 * time.Millisecond // between two changes that it follows
	restAfterFailure = time.Second            // how long it leaves a store alone that did not answer
	againAfter       = 30 * time.Second       // when a version that was refused is tried again
)

// awaitDescriptions waits until others have changed something, or for a time, and has in force what there is.
func (i *Instance) awaitDescriptions(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, lookEvery+rand.N(lookSpread))
	defer cancel()
	err := i.shared.store.Await(waiting, i.shared.at.Load().Tried)
	if waiting.Err() != nil {
		err = nil // a notice may have been lost
	}
	if err == nil {
		err = i.follow(ctx)
	}
	if err != nil && ctx.Err() == nil { // the store is away
		_ = sleep.For(ctx, restAfterFailure)
	}
	return err
}

// follow has in force what others have changed.
func (i *Instance) follow(ctx context.Context) error {
	d := &i.shared
	version, err := d.store.Version(ctx)
	if err != nil {
		return err
	}
	if at := d.at.Load(); version == at.Tried && at.Refused == "" {
		return nil
	}
	end, err := i.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	if at := d.at.Load(); version == at.Tried && i.Now().Sub(d.tried) < againAfter {
		return nil // by a change of this instance meanwhile, or not yet again
	}
	kept, err := d.store.List(ctx)
	if err != nil {
		return err
	}
	next, err := i.checked(kept)
	var ready []*system.Prepared
	if err == nil {
		ready, err = i.prepare(ctx, next)
	}
	if err != nil {
		// Logged when a description that another instance stored is not good for the configuration of
		// this one.
		// To do: mend what the error names, in the file of this instance or in the description;
		// `tidemill status` shows which instances have it in force.
		i.Log.ErrorContext(ctx, "what the database describes is not in force in this instance, and everything is as it was", "version", kept.Version, "error", err)
		return i.stands(ctx, instance.Described{Applied: d.at.Load().Applied, Tried: kept.Version, Refused: err.Error()})
	}
	i.commit(ctx, next, ready, i.changes(next))
	return i.has(ctx, kept)
}

// has says that descriptions are in force.
func (i *Instance) has(ctx context.Context, kept description.Kept) error {
	i.shared.kept.Store(&kept)
	return i.stands(ctx, instance.Described{Applied: kept.Version, Tried: kept.Version})
}

// stands says how this instance stands. While it starts nobody is told: it says so when it enters.
func (i *Instance) stands(ctx context.Context, at instance.Described) error {
	d := &i.shared
	d.at.Store(&at)
	d.tried = i.Now()
	if d.beat == nil {
		return nil
	}
	return d.beat(ctx)
}
