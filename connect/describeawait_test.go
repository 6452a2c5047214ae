package connect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/instance"
)

// deaf is a store whose notices are lost, or that is away.
type deaf struct {
	description.Store
	looked int
	away   error
}

func (d *deaf) Await(ctx context.Context, _ uint64) error {
	if d.away != nil {
		return d.away
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d *deaf) Version(context.Context) (uint64, error) {
	d.looked++
	return 0, nil
}

// An instance that is not told looks after half a minute, and leaves a store that is away alone for a while.
func TestAnInstanceThatIsNotToldLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{}
		i := &Instance{}
		i.shared.store = d
		i.shared.at.Store(&instance.Described{})
		start := time.Now()
		if err := i.awaitDescriptions(t.Context()); err != nil || d.looked != 1 {
			t.Errorf("it looked %d times, %v", d.looked, err)
		}
		if took := time.Since(start); took < lookEvery || took > lookEvery+lookSpread {
			t.Errorf("it looked after %v", took)
		}
		d.away, start = errors.New("away"), time.Now()
		if err := i.awaitDescriptions(t.Context()); !errors.Is(err, d.away) || time.Since(start) != restAfterFailure {
			t.Errorf("of a store that is away it says %v, after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		_ = i.awaitDescriptions(ctx) // it ends
		if took := time.Since(start); took != 0 {
			t.Errorf("it ends %v after its context", took)
		}
	})
}
