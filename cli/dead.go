package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
)

type deadCmd struct {
	List   deadListCmd   `cmd:"" help:"List dead letters."`
	Show   deadShowCmd   `cmd:"" help:"Show one dead letter: payload as received, every failure."`
	Edit   deadEditCmd   `cmd:"" help:"Replace the payload of a dead letter; the original stays beside it."`
	Replay deadReplayCmd `cmd:"" help:"Process dead letters again from the start."`
	Delete deadDeleteCmd `cmd:"" help:"Discard dead letters. They are counted as discarded."`
	Export deadExportCmd `cmd:"" help:"Print dead letters as JSON for other programs, one a line."`
}

type deadListCmd struct {
	command.Remote
	api.DeadFilter
}

// Help is shown by tidemill dead list --help.
func (c *deadListCmd) Help() string {
	return `Filters can be combined: a dead letter has to match all of them.

  tidemill dead list --partner dv360 --reason timeout
  tidemill dead list --site shop --since 24h
  tidemill dead list --json | jq .payload`
}

func (c *deadListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "ID\tDIED\tKIND\tSTATE\tREPLAYS\tEVENT\tCAUSE", None: "No dead letters."}
	return command.List(ctx, e, c, api.ListDead, &c.DeadFilter, &t, func(l *api.ListedDead) []string {
		return []string{l.ID, l.Last.Format(time.RFC3339), l.Kind, l.State, strconv.Itoa(l.Replays), command.Short(l.Type, 30), command.Short(l.Cause, 80)}
	})
}

type deadShowCmd struct {
	command.Remote
	api.OneDead
	Payload  bool `help:"Print only the payload: byte for byte, into a file or another program."`
	Original bool `help:"Print only the payload as it was received, before any edit."`
}

// Help is shown by tidemill dead show --help.
func (c *deadShowCmd) Help() string {
	return `It shows why the message died each time, the tries before, and what the destination answered.

  tidemill dead show 17
  tidemill dead show 17 --payload >event.json`
}

func (c *deadShowCmd) Run(ctx context.Context, e command.Env) error {
	if c.Original || c.Payload {
		return c.Ask(ctx, e, func(a *command.Client) error {
			l, err := api.GetDead.Call(ctx, &a.Client, &c.OneDead)
			switch {
			case err != nil:
				return err
			case c.Original && l.Edited != nil:
				return command.PrintPayload(e, l.Original, l.OriginalBase64)
			}
			return command.PrintPayload(e, l.Payload, l.PayloadBase64)
		})
	}
	return command.Show(ctx, e, c, api.GetDead, &c.OneDead, func(_ *command.Client, l *api.DeadLetter) error { return printLetter(e.Out, l) })
}

// printLetter shows a letter to people.
func printLetter(out io.Writer, l *api.DeadLetter) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "number\t%d, %s\nmessage\t%s\npipeline\t%s\n", l.Seq, l.State, command.Printable(l.ID), command.Printable(l.Pipeline))
	switch {
	case l.Site != "":
		_, _ = fmt.Fprintf(w, "site\t%s\n", command.Printable(l.Site))
	case l.Tenant != "":
		_, _ = fmt.Fprintf(w, "tenant\t%s\n", command.Printable(l.Tenant))
	case l.Project != "":
		_, _ = fmt.Fprintf(w, "project\t%s\n", command.Printable(l.Project))
	}
	_, _ = fmt.Fprintf(w, "event\t%s\nreason\t%s\nreplays\t%d\n", command.Printable(l.Type), l.Reason, l.Replays)
	for _, f := range l.Attempts {
		_, _ = fmt.Fprintf(w, "tried\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, command.Printable(f.Cause))
	}
	for _, f := range l.History {
		_, _ = fmt.Fprintf(w, "failed\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, command.Printable(f.Cause))
	}
	if l.Damaged != "" {
		_, _ = fmt.Fprintf(w, "damaged\t%s\n", command.Printable(l.Damaged))
	}
	var answer api.Response
	if json.Unmarshal(l.Row, &answer) == nil && answer.Status > 0 {
		_, _ = fmt.Fprintf(w, "answer\t%d %s\n", answer.Status, strings.ReplaceAll(command.PrintableLines(answer.Body), "\n", "\n\t"))
	}
	if l.Edited != nil {
		_, _ = fmt.Fprintf(w, "edited\t%s\n", l.Edited.Format(time.RFC3339))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := command.PrintFields(out, l.Fields); err != nil {
		return err
	}
	if l.Edited != nil {
		if _, err := fmt.Fprintf(out, "\nas received:\n%s\n\nas edited:", command.ShownPayload(l.Original, l.OriginalBase64)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", command.ShownPayload(l.Payload, l.PayloadBase64))
	return err
}

type deadExportCmd struct {
	command.Remote
	api.Dead
	IDs []string `arg:"" optional:"" name:"id" help:"Message ids of the dead letters. Default: all that match the filters."`
}

// Help is shown by tidemill dead export --help.
func (c *deadExportCmd) Help() string {
	return `Each line is one dead letter: originalPayload (text, byte for byte as received), error, attempts, firstFailure, lastFailure, queue, reason (validation, timeout, partner_error, rate_limit, unknown); id, kind, partner, site, response {status, body}, and editedPayload if it was edited.

  tidemill dead export >dead.ndjson
  tidemill dead export --partner dv360 --reason timeout | jq -r .originalPayload`
}

func (c *deadExportCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		return command.PrintLines(ctx, e, a, api.ListDead, &api.DeadFilter{Dead: c.Dead, IDs: c.IDs, Format: "export"})
	})
}
