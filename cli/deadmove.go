package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/bulk"
)

// moving are the flags of commands that change letters.
type moving struct {
	command.Remote
	api.DeadMove
	Yes bool `help:"Do not ask, and do it as an operation of the instance." short:"y"`
}

// many is the same as an operation.
func (c *moving) many(what string) *asking {
	return &asking{Asked: api.OperationAsked{What: what, OperationThings: c.Things()}, Yes: c.Yes, JSON: c.JSON}
}

// check wants a choice of letters; to mean all is to say so.
func (c *moving) check(what string) error {
	q := c.DeadMove
	return choice(!reflect.DeepEqual(q, api.DeadMove{All: q.All, DryRun: q.DryRun}), q.All, "dead letters", what, "--kind")
}

// choice wants what is to be changed to be chosen, or --all.
func choice(chosen, all bool, things, what, filter string) error {
	switch {
	case !chosen && !all:
		return command.UsageError{Err: fmt.Errorf("say which %s to %s: ids, filters like %s, or --all", things, what, filter)}
	case chosen && all:
		return command.UsageError{Err: fmt.Errorf("--all and a choice of %s contradict each other: leave one out", things)}
	}
	return nil
}

func (c *moving) move(ctx context.Context, e command.Env, by operation.Operation[api.DeadMove, api.Moved], kind, did, would string) error {
	_, what, _ := strings.Cut(kind, ".")
	if err := c.check(what); err != nil {
		return err
	}
	if c.DryRun {
		did = would
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		if a.Live && !c.DryRun && (c.Yes || len(c.IDs) == 0 && command.Terminal(e.In)) {
			return c.many(kind).run(ctx, e, a, false)
		}
		got, err := by.Call(ctx, &a.Client, &c.DeadMove)
		if err != nil {
			return err
		}
		if len(c.IDs) > 0 && got.Count == 0 {
			return fmt.Errorf("job not found: no held dead letter that matches is called %s; `tidemill dead list` shows them", strings.Join(c.IDs, " or "))
		}
		if c.JSON {
			return command.PrintJSON(e.Out, api.Counted{Count: got.Count, AtLeast: got.AtLeast})
		}
		text := did + " " + countedThings(got.Count, got.AtLeast, "dead letter", "dead letters") + "."
		if what == "replay" && !c.DryRun && !a.Live && got.Count > 0 {
			text += " Nothing runs: `tidemill run` takes them up."
		}
		_, err = fmt.Fprintln(e.Out, text)
		return err
	})
}

type deadReplayCmd struct {
	moving
	Rate bulk.Rate `help:"How many are replayed in a second (50/s), a minute (50/m) or an hour (50/h). Default: all at once." placeholder:"N/s"`
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

With --rate it is an operation of the instance, which replays the dead letters that matched at its start; those that fail again meanwhile are not replayed twice. The command waits for its end; Ctrl-C ends the waiting, and tidemill operations stop the operation.`
}

func (c *deadReplayCmd) Run(ctx context.Context, e command.Env) error {
	if c.Rate == 0 {
		return c.move(ctx, e, api.ReplayDead, api.DeadReplay, "Replaying", "Would replay")
	}
	if err := c.check("replay"); err != nil {
		return err
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		if !a.Live && !c.DryRun {
			return errors.New("no instance runs that could replay slowly: start one with `tidemill run`, or leave --rate out")
		}
		b := c.many(api.DeadReplay)
		b.Asked.Rate, b.Yes = c.Rate.String(), c.Yes || !command.Terminal(e.In)
		return b.run(ctx, e, a, c.DryRun)
	})
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
	return c.move(ctx, e, api.DeleteDead, api.DeadDelete, "Discarded", "Would discard")
}
