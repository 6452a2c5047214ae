package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
)

type auditCmd struct {
	Books auditBooksCmd `cmd:"" default:"withargs" help:"Prove that no event is missing. The exit status is 1 if the books do not balance."`
	Trail auditTrailCmd `cmd:"" help:"List who did what, or check that nothing of that was changed."`
}

type auditBooksCmd struct {
	command.Remote
	api.OneSystem
}

func (c *auditBooksCmd) Run(ctx context.Context, e command.Env) error {
	c.About = c.System
	return c.Ask(ctx, e, func(a *command.Client) error {
		got, err := api.GetAudit.Call(ctx, &a.Client, &api.AuditOf{OneSystem: c.OneSystem})
		if err != nil {
			return err
		}
		for _, raw := range got.Systems {
			if c.JSON {
				if err := command.PrintJSON(e.Out, raw); err != nil {
					return err
				}
				continue
			}
			var r api.Audit
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			printAudit(e, &r)
		}
		if !got.Balanced {
			return errUnbalanced
		}
		return nil
	})
}

func printAudit(e command.Env, r *api.Audit) {
	_, _ = fmt.Fprintln(e.Out, r.System)
	switch {
	case len(r.Queues) > 0:
		printBooks(e, "QUEUE", r.Queues)
	case r.Pipelines != nil:
		printBooks(e, "PIPELINE", r.Pipelines)
	default:
		printSums(e, r)
	}
	if r.Balanced {
		_, _ = fmt.Fprintln(e.Out, "The books balance: every accepted "+auditUnit(e.Table, r)+" is accounted for.")
	}
	for _, f := range r.Faults {
		_, _ = fmt.Fprintln(e.Out, "THE BOOKS DO NOT BALANCE:", f)
	}
}

// auditUnit is what the books count, in a word.
func auditUnit(table system.Table, r *api.Audit) string {
	for _, s := range table.Of([]string{r.System}) {
		if s.Unit != "" {
			return s.Unit
		}
	}
	return "event"
}

// printBooks shows a row for each queue, or pipeline.
func printBooks(e command.Env, what string, all []api.Books) {
	t := command.Table{Out: e.Out, Indent: "  ", Head: what + "\tACCEPTED\t= DELIVERED\t+ SKIPPED\t+ DEAD\t+ IN FLIGHT\t+ LOST\tDEAD LETTERS\t= HELD\t+ REPLAYED\t+ DISCARDED\t+ TRIMMED"}
	for _, q := range all {
		l := q.Letters
		cells := []string{command.Printable(q.Queue + q.Pipeline)}
		for _, n := range []uint64{q.Accepted, q.Delivered, q.Skipped, q.Dead, q.InFlight, q.Lost, l.Put, l.Held, l.Replayed, l.Discarded, l.Trimmed} {
			cells = append(cells, strconv.FormatUint(n, 10))
		}
		_ = t.Row(cells...) // who read it may have gone
	}
	_ = t.End(nil)
}

// printSums shows the books of a system of one queue.
func printSums(e command.Env, r *api.Audit) {
	row := func(name string, n uint64) { _, _ = fmt.Fprintf(e.Out, "  %-24s %12d\n", name, n) }
	row("accepted", r.Accepted)
	row("= delivered", r.Delivered)
	row("+ skipped", r.Skipped)
	row("+ dead", r.Dead)
	row("+ in flight", r.InFlight)
	if r.Lost > 0 {
		row("+ lost at the source", r.Lost)
	}
	if r.Damaged > 0 {
		row("damaged on disk, dead", r.Damaged)
	}
	if r.Letters != (deadletter.Account{}) || r.Stored != nil {
		row("dead letters", r.Letters.Put)
		row("= held", r.Letters.Held)
		row("+ replayed", r.Letters.Replayed)
		row("+ discarded", r.Letters.Discarded)
	}
	if r.Stored != nil {
		row("rows in the warehouse", uint64(*r.Stored))
	}
	if r.Removed > 0 {
		row("removed by age or size", uint64(r.Removed))
	}
}

type statusCmd struct{ command.Remote }

func (c *statusCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.GetStatus, &operation.None{}, func(a *command.Client, s *api.Status) error {
		if a.Live {
			_, _ = fmt.Fprintf(e.Out, "tidemill %s at %s, up %v\n", s.Version, a.Base, time.Since(s.Started).Round(time.Second))
		} else {
			_, _ = fmt.Fprintf(e.Out, "No instance runs; the data was read directly.\n")
		}
		for _, u := range s.Uses {
			_, _ = fmt.Fprintf(e.Out, "  %s\n", u)
		}
		_, _ = fmt.Fprintln(e.Out)
		t := command.Table{Out: e.Out, Head: "PIPELINE\tSTATE\tRECEIVED\tDELIVERED\tSKIPPED\tDEAD\tIN FLIGHT\tBREAKER\tLAST ERROR"}
		for _, sys := range s.Systems {
			for _, p := range sys.Pipelines {
				inFlight := uint64(p.InFlight)
				if p.Pending != nil { // the books' in flight: what waits too
					inFlight = *p.Pending
				}
				n := func(n uint64) string { return strconv.FormatUint(n, 10) }
				if err := t.Row(p.Name, p.State, n(p.Received), n(p.Settled.Delivered), n(p.Settled.Skipped), n(p.Settled.Dead), n(inFlight),
					p.Breaker, command.Short(cmp.Or(p.Why, p.Last, p.Unread), 60)); err != nil {
					return err
				}
			}
		}
		if err := t.End(nil); err != nil {
			return err
		}
		for _, sys := range s.Systems {
			for _, note := range sys.Notes {
				_, _ = fmt.Fprintf(e.Out, "%s: %s\n", sys.Name, note)
			}
		}
		return nil
	})
}

// steered is a pipeline that is to be paused or resumed.
type steered struct {
	command.Remote
	api.OnePipeline
}

type pauseCmd struct{ steered }

// Help is shown by tidemill pause --help.
func (c *pauseCmd) Help() string {
	return `Running work is finished first. The pause lasts until tidemill resume or until the instance ends.`
}

func (c *pauseCmd) Run(ctx context.Context, e command.Env) error {
	return c.steer(ctx, e, "pause", api.PausePipeline)
}

type resumeCmd struct{ steered }

func (c *resumeCmd) Run(ctx context.Context, e command.Env) error {
	return c.steer(ctx, e, "resume", api.ResumePipeline)
}

func (c *steered) steer(ctx context.Context, e command.Env, verb string, by operation.Operation[api.OnePipeline, api.Steered]) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		if !a.Live {
			return fmt.Errorf("no instance runs that could %s: start one with `tidemill run`", verb)
		}
		_, err := command.Shown(ctx, e, c, a, by, &c.OnePipeline, func(got *api.Steered) error {
			_, err := fmt.Fprintf(e.Out, "%s is %s.\n", got.Name, got.State)
			return err
		})
		return err
	})
}

type doctorCmd struct{ command.Remote }

func (c *doctorCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		got, err := api.GetDoctor.Call(ctx, &a.Client, &operation.None{})
		if err != nil {
			return err
		}
		if c.JSON {
			if err := command.PrintJSON(e.Out, got); err != nil {
				return err
			}
		}
		if !c.JSON {
			printFindings(e, got.Findings)
		}
		return failures(got.Findings)
	})
}
