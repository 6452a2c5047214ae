package crmcli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

type replayCmd struct {
	Start  replayStartCmd  `cmd:"" help:"Run CRM's handlers again for events of the sync log."`
	Status replayStatusCmd `cmd:"" help:"List the replays, or show the progress of one."`
	Stop   replayStopCmd   `cmd:"" help:"Stop a replay: no more of its events are handled."`
}

type replayStartCmd struct {
	command.Remote
	api.Span
	Type   string `help:"Only events of this type." placeholder:"TYPE"`
	Tenant string `help:"Only events of this tenant." placeholder:"ID"`
	All    bool   `help:"The whole sync log."`
	ID     string `name:"id" help:"A name for the replay. Started twice under one name it runs once. Default: a new name." placeholder:"NAME"`
	DryRun bool   `help:"Only say how many events."`
	Wait   bool   `help:"Wait until all of them are in the queue, and show the progress."`
}

// Help is shown by tidemill replay start --help.
func (c *replayStartCmd) Help() string {
	return `A replay takes events from the sync log by the time of their first receipt, and gives them to their handlers again, COMPLETED ones too. Their jobs have the lowest priority and obey all limits, so that new events are not held up. One replay handles each event once; another replay handles it again. A replay survives a restart.

  tidemill replay start --since 2026-01-31 --until 2026-02-01
  tidemill replay start --since 24h --type member.created --tenant club --wait
  tidemill replay start --since 7d --dry-run
  tidemill replay stop ID

Dead letters have a replay of their own: tidemill dead replay --pipeline crm-events.`
}

func (c *replayStartCmd) Run(ctx context.Context, e command.Env) error {
	chosen := c.Since != "" || c.Until != "" || c.Type != "" || c.Tenant != ""
	switch {
	case !chosen && !c.All:
		return command.UsageError{Err: errors.New("say what to replay: --since, --until, --type, --tenant, or --all")}
	case chosen && c.All:
		return command.UsageError{Err: errors.New("--all and a choice of events contradict each other: leave one out")}
	case c.Wait && c.DryRun:
		return command.UsageError{Err: errors.New("--wait and --dry-run contradict each other: leave one out")}
	}
	span := c.Fixed(time.Now()) // it is asked for twice
	request := crmapi.ReplayRequest{ID: c.ID, Since: span.Since, Until: span.Until, Type: c.Type, Tenant: c.Tenant, All: c.All}
	return c.Ask(ctx, e, func(a *command.Client) error {
		if c.Wait {
			if err := canWait(ctx, e, a); err != nil {
				return err
			}
		}
		total := 0
		if c.DryRun || c.Wait {
			var err error
			if total, err = countReplay(ctx, a, request); err != nil {
				return err
			}
		}
		if c.DryRun {
			if c.JSON {
				return command.PrintJSON(e.Out, api.Counted{Count: total})
			}
			_, err := fmt.Fprintf(e.Out, "Would handle %s again.\n", command.Count(total, "event", "events"))
			return err
		}
		q := crmapi.ReplayStart{Body: request}
		if !c.Wait {
			_, err := command.Shown(ctx, e, c, a, crmapi.StartReplay, &q, func(p *crmapi.StartedReplay) error { return c.print(e, a, p) })
			return err
		}
		p, err := crmapi.StartReplay.Call(ctx, &a.Client, &q)
		if err != nil {
			return err
		}
		return c.follow(ctx, e, a, p.ID, total)
	})
}

// canWait refuses to wait for what would never end, and says what may hold it up.
func canWait(ctx context.Context, e command.Env, a *command.Client) error {
	if !a.Live {
		return errors.New("no instance runs that could do it: start one with `tidemill run`, or leave --wait out")
	}
	s, err := crmapi.GetCRM.Call(ctx, &a.Client, &operation.None{})
	if err != nil {
		return err
	}
	if s.Closed {
		return fmt.Errorf("%s is being drained and takes no jobs, not even of replays: `tidemill queue resume %s` first, or leave --wait out", s.Queue, s.Queue)
	}
	if s.Paused {
		_, _ = fmt.Fprintf(e.Err, "%s is paused: after the first events the replay waits until `tidemill queue resume %s`.\n", s.Queue, s.Queue)
	}
	return nil
}

// countReplay asks how many events a request is of.
func countReplay(ctx context.Context, a *command.Client, request crmapi.ReplayRequest) (int, error) {
	request.DryRun = true
	got, err := crmapi.StartReplay.Call(ctx, &a.Client, &crmapi.ReplayStart{Body: request})
	if err != nil || got.Counted == nil {
		return 0, err
	}
	return got.Count, nil
}

// print says that a replay has begun.
func (c *replayStartCmd) print(e command.Env, a *command.Client, p *crmapi.StartedReplay) error {
	text := fmt.Sprintf("Replay %s has begun", command.Printable(p.ID))
	if p.Known {
		text = fmt.Sprintf("Replay %s is known: it is %s, with %s queued so far", command.Printable(p.ID), p.State, command.Count(p.Queued, "event", "events"))
	}
	text += ". `tidemill replay status " + command.Printable(p.ID) + "` shows its progress."
	if !a.Live {
		text += " Nothing runs: `tidemill run` goes on with it."
	}
	_, err := fmt.Fprintln(e.Out, text)
	return err
}

// replayEvery is how often a replay is asked that is waited for.
const replayEvery = 500 * time.Millisecond

// follow waits until a replay has ended.
func (c *replayStartCmd) follow(ctx context.Context, e command.Env, a *command.Client, id string, total int) error {
	bar := command.NewProgress(e, c.JSON, "events in the queue", total)
	defer bar.End()
	for {
		p, err := crmapi.GetReplay.Call(ctx, &a.Client, &crmapi.OneReplay{ID: id})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			return stopped(id)
		}
		bar.Set(min(p.Queued, total))
		if p.State == "done" || p.State == "stopped" {
			bar.End()
			if c.JSON {
				return command.PrintJSON(e.Out, p)
			}
			text := fmt.Sprintf("Replay %s is %s: %s put into the queue", command.Printable(id), p.State, command.Count(p.Queued, "event was", "events were"))
			if p.State == "stopped" {
				return errors.New(text + "; it was stopped")
			}
			_, err := fmt.Fprintln(e.Out, text+".")
			return err
		}
		if sleep.For(ctx, replayEvery) != nil {
			return stopped(id)
		}
	}
}

// stopped says that somebody waits no longer.
func stopped(id string) error {
	return fmt.Errorf("stopped waiting; the replay goes on: `tidemill replay stop %s` ends it", command.Printable(id))
}

type replayStatusCmd struct {
	command.Remote
	ID string `arg:"" optional:"" name:"id" help:"One replay, by the name that replay start gave it. Default: all of them, the newest first."`
}

// Help is shown by tidemill replay status --help.
func (c *replayStatusCmd) Help() string {
	return `A replay is running while its events are put into the queue, up to a thousand ahead of the handlers. It is done when all of them are in the queue or were handled, and stopping or stopped after replay stop. DONE is how much of its span of time it has covered.`
}

func (c *replayStatusCmd) Run(ctx context.Context, e command.Env) error {
	if c.ID != "" {
		return command.Show(ctx, e, c, crmapi.GetReplay, &crmapi.OneReplay{ID: c.ID}, func(_ *command.Client, p *crmapi.Replay) error { return printReplay(e, p) })
	}
	t := command.Table{Head: "ID\tSTATE\tASKED\tSINCE\tUNTIL\tTENANT\tTYPE\tQUEUED\tDONE", None: "No replays."}
	return command.List(ctx, e, c, crmapi.ListReplays, &operation.None{}, &t, func(p *crmapi.Replay) []string {
		return []string{p.ID, p.State, p.Asked.Format(time.RFC3339), command.Stamp(p.Since), command.Stamp(p.Until), dash(p.Tenant), dash(p.Type), strconv.Itoa(p.Queued), replayShare(p)}
	})
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return command.Short(s, 40)
}

// replayShare is how far a replay has come.
func replayShare(p *crmapi.Replay) string {
	if p.Share == 0 && p.Since == nil && p.State != "done" {
		return "-" // of a time without a beginning nobody knows
	}
	return strconv.FormatFloat(100*p.Share, 'f', 0, 64) + "%"
}

// printReplay shows a replay to people.
func printReplay(e command.Env, p *crmapi.Replay) error {
	w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "replay\t%s\nstate\t%s\nasked\t%s\nsince\t%s\nuntil\t%s\ntenant\t%s\ntype\t%s\nqueued\t%s\nreached\t%s\ndone\t%s\n", command.Printable(p.ID), p.State, p.Asked.Format(time.RFC3339),
		command.Stamp(p.Since), command.Stamp(p.Until), dash(p.Tenant), dash(p.Type), command.Count(p.Queued, "event", "events"), command.Stamp(p.Reached), replayShare(p))
	if p.Ended != nil {
		_, _ = fmt.Fprintf(w, "ended\t%s\n", command.Stamp(p.Ended))
	}
	return w.Flush()
}

type replayStopCmd struct {
	command.Remote
	crmapi.OneReplay
}

// Help is shown by tidemill replay stop --help.
func (c *replayStopCmd) Help() string {
	return `No more events are put into the queue; those that wait there are skipped at their turn. Events that were handled stay handled. A stopped replay cannot go on: start another one for the rest.`
}

func (c *replayStopCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, crmapi.StopReplay, &c.OneReplay, func(_ *command.Client, p *crmapi.Replay) error {
		text := "is stopped"
		switch p.State {
		case "stopping":
			text = "is being stopped"
		case "done":
			text = "had ended before"
		}
		_, err := fmt.Fprintf(e.Out, "Replay %s %s: %s put into the queue.\n", command.Printable(p.ID), text, command.Count(p.Queued, "event was", "events were"))
		return err
	})
}
