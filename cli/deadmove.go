package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// moving are the flags of commands that change letters.
type moving struct {
	command.Remote
	api.DeadMove
}

// check wants a choice of letters; to mean all is to say so.
func (c *moving) check(what string) error {
	q := c.DeadMove
	chosen := !reflect.DeepEqual(q, api.DeadMove{All: q.All, DryRun: q.DryRun})
	switch {
	case !chosen && !c.All:
		return command.UsageError{Err: fmt.Errorf("say which dead letters to %s: ids, filters like --kind, or --all", what)}
	case chosen && c.All:
		return command.UsageError{Err: errors.New("--all and a choice of dead letters contradict each other: leave one out")}
	}
	return nil
}

func (c *moving) move(ctx context.Context, e command.Env, by operation.Operation[api.DeadMove, api.Moved], what, did, would string) error {
	if err := c.check(what); err != nil {
		return err
	}
	if c.DryRun {
		did = would
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		got, err := by.Call(ctx, &a.Client, &c.DeadMove)
		if err != nil {
			return err
		}
		if len(c.IDs) > 0 && got.Count == 0 {
			return fmt.Errorf("job not found: no held dead letter that matches is called %s; `tidemill dead list` shows them", strings.Join(c.IDs, " or "))
		}
		if c.JSON {
			return command.PrintJSON(e.Out, api.Counted{Count: got.Count})
		}
		text := did + " " + command.Count(got.Count, "dead letter", "dead letters") + "."
		if what == "replay" && !c.DryRun && !a.Live && got.Count > 0 {
			text += " Nothing runs: `tidemill run` takes them up."
		}
		_, err = fmt.Fprintln(e.Out, text)
		return err
	})
}

type deadReplayCmd struct {
	moving
	Rate command.Rate `help:"How many are replayed in a second (50/s), a minute (50/m) or an hour (50/h). Default: all at once." placeholder:"N/s"`
}

// Help is shown by tidemill dead replay --help.
func (c *deadReplayCmd) Help() string {
	return `A replay processes the event again from the start, persons and definitions included. If it succeeds, the dead letter is gone; if it fails, the dead letter stays, with one more replay in its history. An edited dead letter is sent as edited.

  tidemill dead replay 0190f3c2-…                     one
  tidemill dead replay --kind transient,timeout       all that failed for a reason that passes
  tidemill dead replay --partner dv360 --since 24h    what a partner did not take since yesterday
  tidemill dead replay --project shop --dry-run       how many there are
  tidemill dead replay --pipeline crm-events          what CRM's handlers gave up
  tidemill dead replay --pipeline windows-delivery    records that windows gave up: they go into a new window, as late ones
  tidemill dead replay --all                          all
  tidemill dead replay --all --rate 50/s              all, 50 a second

With --rate the command runs until it has replayed all dead letters that matched at its start; those that fail again meanwhile are not replayed twice. Ctrl-C stops it between two slices, and it says how many are left.`
}

func (c *deadReplayCmd) Run(ctx context.Context, e command.Env) error {
	if c.Rate.N == 0 {
		return c.move(ctx, e, api.ReplayDead, "replay", "Replaying", "Would replay")
	}
	if err := c.check("replay"); err != nil {
		return err
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		if !a.Live && !c.DryRun {
			return errors.New("no instance runs that could replay slowly: start one with `tidemill run`, or leave --rate out")
		}
		return c.slowly(ctx, e, a)
	})
}

// slowly lets letters go slice by slice: those that match at its start, by the instance's
// clock. A slice that has begun is finished.
func (c *deadReplayCmd) slowly(ctx context.Context, e command.Env, a *command.Client) error {
	q := c.DeadMove
	q.Span, q.DryRun = q.Fixed(time.Now()), true
	all, err := api.ReplayDead.Call(ctx, &a.Client, &q)
	if err != nil {
		return err
	}
	if c.DryRun {
		if c.JSON {
			return command.PrintJSON(e.Out, api.Counted{Count: all.Count})
		}
		_, err := fmt.Fprintf(e.Out, "Would replay %s, in %v.\n", command.Count(all.Count, "dead letter", "dead letters"), c.Rate.Takes(all.Count))
		return err
	}
	q.DryRun = false
	if until, err := time.Parse(time.RFC3339, q.Until); err != nil && q.Until == "" || err == nil && until.After(all.AsOf) {
		q.Until = all.AsOf.Format(time.RFC3339Nano)
	}
	size, every := c.Rate.Slice()
	p := command.NewProgress(e, c.JSON, "dead letters", all.Count)
	gone, ended, failed := 0, false, error(nil)
	for gone < all.Count && !ended {
		q.Max = min(size, all.Count-gone)
		var got api.Moved
		if got, failed = api.ReplayDead.Call(context.WithoutCancel(ctx), &a.Client, &q); failed != nil || got.Count == 0 {
			break // of none that is left: somebody else has moved them
		}
		gone += got.Count
		p.Set(gone)
		ended = gone < all.Count && !command.Pause(ctx, every)
	}
	p.End()
	left := 0
	if ended || failed != nil {
		left = all.Count - gone
	}
	if c.JSON {
		if err := command.PrintJSON(e.Out, map[string]int{"count": gone, "left": left}); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(e.Out, "Replaying %s.\n", command.Count(gone, "dead letter", "dead letters")); err != nil {
		return err
	}
	if left > 0 {
		return errors.Join(fmt.Errorf("stopped: %d of %d are left", left, all.Count), failed)
	}
	return failed
}

type deadDeleteCmd struct{ moving }

// Help is shown by tidemill dead delete --help.
func (c *deadDeleteCmd) Help() string {
	return `Dead letters that are being replayed are left alone. The books count the discarded ones, so that the audit still balances.

  tidemill dead delete 0190f3c2-…                     one
  tidemill dead delete --until 2026-01-31T00:00:00Z  all that died before then
  tidemill dead delete --reason validation --until 30d`
}

func (c *deadDeleteCmd) Run(ctx context.Context, e command.Env) error {
	return c.move(ctx, e, api.DeleteDead, "delete", "Discarded", "Would discard")
}
