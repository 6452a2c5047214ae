package bridge

import (
	"context"

	"github.com/tidemill/tidemill"
)

// once is a source that is told of a refusal from outside once. Where the answer was lost
// nobody knows whether it was counted, and it names no hand-out by which the source could
// tell that it was: told again, it might count twice. Dropped it is silence, which costs
// nothing: the entry comes again and is refused again.
type once struct{ tidemill.Source }

// toldOnce makes a source one of these, with what it can do beside.
func toldOnce(s tidemill.Source) tidemill.Source {
	keeper, keeps := s.(tidemill.Keeper)
	gater, gates := s.(tidemill.Gater)
	switch {
	case keeps && gates:
		return struct {
			once
			tidemill.Keeper
			tidemill.Gater
		}{once{s}, keeper, gater}
	case keeps:
		return struct {
			once
			tidemill.Keeper
		}{once{s}, keeper}
	case gates:
		return struct {
			once
			tidemill.Gater
		}{once{s}, gater}
	}
	return once{s}
}

// Settle implements tidemill.Source.
func (o once) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	err := o.Source.Settle(ctx, ends)
	if err == nil {
		return nil
	}
	for i := range ends {
		if e := &ends[i]; e.Took == tidemill.Unanswered && e.End == tidemill.Again && e.Mark == (tidemill.Mark{}) {
			e.Took = tidemill.Stale
		}
	}
	return err
}
