// What the checkers find needs no race detector: make sim runs these.

//go:build !race

package sim

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/bridge"
)

// The bugs below are the classic ones of a bridge.

// blameless counts tries although the broker was down.
type blameless struct{ tidemill.Sink }

func (s blameless) Write(ctx context.Context, batch []*tidemill.Message) error {
	err := s.Sink.Write(ctx, batch)
	if e, ok := err.(*tidemill.Error); ok && e.Kind == tidemill.Transient {
		return tidemill.Fail(tidemill.Partner, "%w", e.Err)
	}
	return err
}

// deaf changes what the subscriber says.
type deaf struct {
	bridge.Acks
	hears func(string) string
}

func (a deaf) Receive(ctx context.Context, each func([]byte)) error {
	return a.Acks.Receive(ctx, func(p []byte) {
		if said := a.hears(string(p)); said != "" {
			each([]byte(said))
		}
	})
}

// impatient counts every hand-out as a failed try.
type impatient struct{ gatedSource }

func (s impatient) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.gatedSource.Receive(ctx, into)
	for _, m := range into[:n] {
		m.Tries = m.Handed - 1
	}
	return n, err
}

// gravedigger does not report the dead.
type gravedigger struct{ tidemill.Sink }

func (s gravedigger) Write(ctx context.Context, batch []*tidemill.Message) error {
	if batch[0].To == deadTopic {
		return nil
	}
	return s.Sink.Write(ctx, batch)
}

// eager counts messages as delivered that were published and left for their ack.
type eager struct{ gatedSource }

func (s eager) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		if ends[i].End == tidemill.Left {
			ends[i].End, ends[i].Fate = tidemill.Done, tidemill.Delivered
		}
	}
	return s.gatedSource.Settle(ctx, ends)
}

// repeater publishes again by itself when the answer was lost.
type repeater struct{ tidemill.Sink }

func (s repeater) Write(ctx context.Context, batch []*tidemill.Message) error {
	err := s.Sink.Write(ctx, batch)
	if tidemill.KindOf(err) == tidemill.Unknown {
		return s.Sink.Write(ctx, batch)
	}
	return err
}

// stubborn repeats settlements that may have been applied, also of refusals.
type stubborn struct{ gatedSource }

func (s stubborn) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	err := s.gatedSource.Settle(ctx, ends)
	for range 10 {
		if tidemill.KindOf(err) != tidemill.Unknown {
			break
		}
		err = s.gatedSource.Settle(ctx, ends)
	}
	return err
}

// keen makes the subscriber's refusals end their entries as dead at once.
type keen struct{ gatedSource }

func (s keen) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		if e := &ends[i]; e.CountTry && e.After == 0 {
			e.End, e.Fate, e.CountTry = tidemill.Done, tidemill.Dead, false
		}
	}
	return s.gatedSource.Settle(ctx, ends)
}

// firstOwn settles messages' own ends first: an ack in the same call is lost to them.
type firstOwn struct{ gatedSource }

func (s firstOwn) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	own := map[string]bool{}
	for i := range ends {
		if (ends[i].Mark != tidemill.Mark{}) {
			own[ends[i].ID] = true
		}
	}
	var rest []tidemill.Settlement
	var at []int
	for i, e := range ends {
		if (e.Mark == tidemill.Mark{}) && own[e.ID] {
			ends[i].Outcome = tidemill.Stale
			continue
		}
		rest, at = append(rest, e), append(at, i)
	}
	err := s.gatedSource.Settle(ctx, rest)
	for k, i := range at {
		ends[i] = rest[k]
	}
	return err
}

func TestTheCheckerFindsPlantedBugsOfTheBridge(t *testing.T) {
	with := bridgeWith
	findBugs(t, 500, []planted{
		{"the broker's word ends an entry although there is a topic of acks", with(func(p *bridge.Parts) { p.Acks = nil })},
		{"what is left for its ack is taken for delivered", with(func(p *bridge.Parts) { p.Source = eager{p.Source.(gatedSource)} })},
		{"tries are used up while the broker is away", with(func(p *bridge.Parts) { p.Sink, p.Up = blameless{p.Sink}, nil })},
		{"refusals are not heard", with(func(p *bridge.Parts) {
			p.Acks = deaf{p.Acks, func(s string) string { return strings.ReplaceAll(s, "false", `"false"`) }}
		})},
		{"refusals are taken for acks", with(func(p *bridge.Parts) {
			p.Acks = deaf{p.Acks, func(s string) string { return strings.ReplaceAll(s, "false", "true") }}
		})},
		{"silence is a failed try", with(func(p *bridge.Parts) { p.Source = impatient{p.Source.(gatedSource)} })},
		{"dead without a letter", with(func(p *bridge.Parts) { p.Sink = gravedigger{p.Sink} })},
		{"a refusal whose answer was lost counts twice", with(func(p *bridge.Parts) { p.Source = stubborn{p.Source.(gatedSource)} })},
		{"the last refusal ends an entry before its letter is there", with(func(p *bridge.Parts) { p.Source = keen{p.Source.(gatedSource)} })},
		{"an ack at once is lost to its message's own end", with(func(p *bridge.Parts) { p.Source = firstOwn{p.Source.(gatedSource)} })},
		{"published again without being handed out again", with(func(p *bridge.Parts) { p.Sink = repeater{p.Sink} })},
	})
}
