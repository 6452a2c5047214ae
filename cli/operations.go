package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/api"
)

type operationsCmd struct {
	Start operationsStartCmd `cmd:"" help:"Show what an operation changes, ask, and start it."`
	List  operationsListCmd  `cmd:"" help:"List operations: scheduled, running, ended."`
	Show  operationsShowCmd  `cmd:"" help:"Show one operation: progress, rate, failures."`
	Stop  operationsStopCmd  `cmd:"" help:"Stop an operation. What is changed stays changed."`
}

type operationsStartCmd struct {
	command.Remote
	api.OperationAsked
	DryRun bool `help:"Only show what it would change."`
	Yes    bool `help:"Do not ask." short:"y"`
	Detach bool `help:"Do not wait for its end."`
}

// Help is shown by tidemill operations start --help.
func (c *operationsStartCmd) Help() string {
	return `What matches now is changed; what comes or changes later is not part of it. An operation that cannot be taken back (delete, remove, clean) begins after a minute, or after 10 seconds for one thing: until then tidemill operations stop leaves all as it is. It runs in the instance and outlives this command; after a crash it goes on.

  tidemill operations start dead.replay --partner=dv360 --since=24h --rate=50/s
  tidemill operations start jobs.remove --queue=ingest.low --tenant=shop
  tidemill operations start dead.delete --reason=validation --until=30d --dry-run`
}

func (c *operationsStartCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		b := &asking{Asked: c.OperationAsked, Yes: c.Yes, JSON: c.JSON, Detach: c.Detach || !a.Live}
		return b.run(ctx, e, a, c.DryRun)
	})
}

// asking is an operation that somebody asks for.
type asking struct {
	Asked             api.OperationAsked
	Yes, JSON, Detach bool
}

// run shows a preview, asks, starts the operation and waits for its end; dry: only the preview.
func (b *asking) run(ctx context.Context, e command.Env, a *command.Client, dry bool) error {
	p, err := api.PreviewOperation.Call(ctx, &a.Client, &b.Asked)
	if err != nil {
		return err
	}
	if b.JSON && dry {
		return command.PrintJSON(e.Out, p)
	}
	if !b.JSON {
		to := e.Out
		if !dry {
			to = e.Err
		}
		if err := printPreview(to, &p); err != nil || dry {
			return err
		}
	}
	if p.Count == 0 {
		return b.print(e, &api.Operation{What: p.What, State: "done", Filter: p.Filter, Failed: map[string]int{}})
	}
	if !b.Yes {
		if err := confirmed(e, fmt.Sprintf("%s: %s.", p.What, counted(p.Count, p.AtLeast))); err != nil {
			return err
		}
	}
	o, err := api.StartOperation.Call(ctx, a.Once(rand.Text()), &api.OperationStart{Preview: p.ID})
	if err != nil {
		return err
	}
	if b.Detach {
		return b.print(e, &o)
	}
	return b.follow(ctx, e, a, &o)
}

// askEvery is how often an operation is asked for that somebody waits for.
const askEvery = 500 * time.Millisecond

// follow shows an operation's progress until its end.
func (b *asking) follow(ctx context.Context, e command.Env, a *command.Client, o *api.Operation) error {
	if wait := time.Until(o.Starts); wait > time.Second && !b.JSON {
		_, _ = fmt.Fprintf(e.Err, "It begins in %v; `tidemill operations stop %s` leaves all as it is.\n", wait.Round(time.Second), o.ID)
	}
	p := command.NewProgress(e, b.JSON, "things changed", o.Count)
	defer p.End()
	waits := ""
	for o.Ended == nil {
		if sleep.For(ctx, askEvery) != nil {
			return fmt.Errorf("the operation goes on: `tidemill operations stop %s` ends it, `tidemill operations show %s` shows it", o.ID, o.ID)
		}
		is, err := api.GetOperation.Call(ctx, &a.Client, &api.OneOperation{ID: o.ID})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			*o = is
		}
		if p.Set(o.Changed); o.Waits != "" && o.Waits != waits && !b.JSON {
			_, _ = fmt.Fprintf(e.Err, "It waits: %s.\n", command.Printable(o.Waits))
		}
		waits = o.Waits
	}
	p.End()
	if err := b.print(e, o); err != nil {
		return err
	}
	switch o.State {
	case "failed":
		return fmt.Errorf("the operation failed: %s", o.Why)
	case "stopped":
		return errors.New("the operation was stopped")
	}
	return nil
}

// print says in a line how an operation stands.
func (b *asking) print(e command.Env, o *api.Operation) error {
	if b.JSON {
		return command.PrintJSON(e.Out, o)
	}
	_, err := fmt.Fprintln(e.Out, inWords(o))
	return err
}

func counted(n int, more bool) string {
	return atLeast(strconv.Itoa(n), more)
}

// countedThings is so many things, or at least so many.
func countedThings(n int, more bool, one, many string) string {
	return atLeast(command.Count(n, one, many), more)
}

func atLeast(count string, more bool) string {
	if more {
		return "at least " + count
	}
	return count
}

// inWords is how an operation stands.
func inWords(o *api.Operation) string {
	text := fmt.Sprintf("Operation %s (%s) is %s: %d changed of %s", o.ID, o.What, o.State, o.Changed, counted(o.Count, o.AtLeast))
	if o.ID == "" {
		return "Nothing matches: nothing was changed."
	}
	for _, reason := range slices.Sorted(maps.Keys(o.Failed)) {
		text += fmt.Sprintf(", %d %s", o.Failed[reason], command.Printable(reason))
	}
	if o.Gone > 0 {
		text += fmt.Sprintf(", %d changed by somebody else", o.Gone)
	}
	return text + "."
}

// printPreview shows a preview to people.
func printPreview(out io.Writer, p *api.OperationPreview) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "operation\t%s\nmatches\t%s\n", p.What, counted(p.Count, p.AtLeast))
	for _, by := range []struct {
		name string
		of   map[string]int
	}{{"kinds", p.Kinds}, {"owners", p.Owners}} {
		if len(by.of) > 0 {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", by.name, tallied(by.of))
		}
	}
	for i, s := range p.Sample[:min(len(p.Sample), 5)] {
		name := "first"
		if i > 0 {
			name = ""
		}
		_, _ = fmt.Fprintf(w, "%s\t%s  %s  %s\n", name, command.Printable(s.ID), command.Printable(s.Group), command.Short(s.Cause, 60))
	}
	_, _ = fmt.Fprintf(w, "does\t%s\nundo\t%s\n", p.Does, p.Undo)
	if p.Takes > 0 {
		_, _ = fmt.Fprintf(w, "takes\t%v\n", time.Duration(p.Takes*float64(time.Second)).Round(time.Second))
	}
	_, _ = fmt.Fprintf(w, "command\t%s\n", command.Printable(p.Command))
	return w.Flush()
}

// tallied are the largest of counts.
func tallied(of map[string]int) string {
	const most = 5
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return of[b] - of[a] })
	var parts []string
	for _, n := range names[:min(len(names), most)] {
		name := n
		if name == "" {
			name = "-"
		}
		parts = append(parts, fmt.Sprintf("%d %s", of[n], command.Printable(name)))
	}
	if len(names) > most {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}

type operationsListCmd struct {
	command.Remote
	api.OperationFilter
}

// Help is shown by tidemill operations list --help.
func (c *operationsListCmd) Help() string {
	return `Ended operations are kept for 30 days.

  tidemill operations list --state active
  tidemill operations list --order newest`
}

func (c *operationsListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "ID\tWHAT\tSTATE\tBY\tSTARTS\tCHANGED\tOF\tFAILED\tWAITS", None: "No operations."}
	return command.List(ctx, e, c, api.ListOperations, &c.OperationFilter, &t, func(o *api.Operation) []string {
		failed := 0
		for _, n := range o.Failed {
			failed += n
		}
		return []string{o.ID, o.What, o.State, o.By, o.Starts.Format(time.RFC3339), strconv.Itoa(o.Changed), counted(o.Count, o.AtLeast), strconv.Itoa(failed), command.Short(o.Waits, 60)}
	})
}

type operationsShowCmd struct {
	command.Remote
	api.OneOperation
}

func (c *operationsShowCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.GetOperation, &c.OneOperation, func(_ *command.Client, o *api.Operation) error {
		if _, err := fmt.Fprintln(e.Out, inWords(o)); err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "by\t%s\nas of\t%s\nstarts\t%s\nrate\t%.1f/s so far\n", command.Printable(o.By), o.AsOf.Format(time.RFC3339), o.Starts.Format(time.RFC3339), o.PerSecond)
		for _, line := range [][2]string{{"asked rate", o.Rate}, {"waits", o.Waits}, {"why", o.Why}, {"stopped by", o.StoppedBy}, {"instance", o.Instance}} {
			if line[1] != "" {
				_, _ = fmt.Fprintf(w, "%s\t%s\n", line[0], command.Printable(line[1]))
			}
		}
		for _, f := range o.Failures {
			_, _ = fmt.Fprintf(w, "failed\t%s  %s\n", command.Printable(f.ID), command.Printable(f.Reason))
		}
		return w.Flush()
	})
}

type operationsStopCmd struct {
	command.Remote
	api.OneOperation
}

func (c *operationsStopCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.StopOperation, &c.OneOperation, func(_ *command.Client, o *api.Operation) error {
		_, err := fmt.Fprintln(e.Out, inWords(o))
		return err
	})
}
