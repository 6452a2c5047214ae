package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"
)

type deadCmd struct {
	List   deadListCmd   `cmd:"" help:"List dead letters, the oldest first."`
	Show   deadShowCmd   `cmd:"" help:"Show one dead letter: payload as received, every failure."`
	Replay deadReplayCmd `cmd:"" help:"Send dead letters the whole way again."`
	Delete deadDeleteCmd `cmd:"" help:"Discard dead letters. They are counted as discarded."`
}

// which chooses dead letters.
type which struct {
	Pipeline string   `help:"Only letters of this pipeline." placeholder:"NAME"`
	Project  string   `help:"Only letters of this project." placeholder:"NAME"`
	Kind     []string `help:"Only failures of these kinds: validation, transient, timeout, internal, unknown…" placeholder:"KIND"`
	Before   string   `help:"Only letters that died before this time." placeholder:"TIME"`
	Max      int      `help:"At most so many." short:"n"`
}

func (w *which) query(ids []string) url.Values {
	q := query("pipeline", w.Pipeline, "project", w.Project, "before", w.Before, "max", positive(w.Max))
	if len(w.Kind) > 0 {
		q["kind"] = w.Kind
	}
	if len(ids) > 0 {
		q["id"] = ids
	}
	return q
}

// letterLine is a dead letter as the API writes it.
type letterLine struct {
	Seq      int64     `json:"seq"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Pipeline string    `json:"pipeline"`
	Project  string    `json:"project_id"`
	State    string    `json:"state"`
	Kind     string    `json:"kind"`
	Cause    string    `json:"cause"`
	Replays  int       `json:"replays"`
	Last     time.Time `json:"last_failed_at"`
}

type deadListCmd struct {
	remote
	which
}

func (c *deadListCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "dead", c.query(nil), func(line []byte) error { _, err := e.out.Write(line); return err })
		}
		t := table{out: e.out, head: "ID\tDIED\tKIND\tSTATE\tREPLAYS\tEVENT\tCAUSE", none: "No dead letters."}
		err := a.lines(ctx, "dead", c.query(nil), func(line []byte) error {
			var l letterLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			return t.row(printable(l.ID), l.Last.Format(time.RFC3339), l.Kind, l.State, strconv.Itoa(l.Replays), short(l.Type, 30), short(l.Cause, 80))
		})
		return errors.Join(t.end(), err)
	})
}

type deadShowCmd struct {
	remote
	Letter string `arg:"" name:"id" help:"Its message's id, as dead list shows it, or its number."`
}

func (c *deadShowCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var whole json.RawMessage
		if err := a.get(ctx, "dead/"+url.PathEscape(c.Letter), nil, &whole); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, whole)
		}
		var l struct {
			letterLine
			Payload       string
			PayloadBase64 string `json:"payload_base64"`
			Fields        []struct {
				Name, Value string
				ValueBase64 string `json:"value_base64"`
			}
			History []struct {
				At          time.Time
				Kind, Cause string
				Tries       int
			}
		}
		if err := json.Unmarshal(whole, &l); err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "letter\t%d, %s\nmessage\t%s\npipeline\t%s\nproject\t%s\nevent\t%s\nreplays\t%d\n",
			l.Seq, l.State, printable(l.ID), l.Pipeline, printable(l.Project), printable(l.Type), l.Replays)
		for _, f := range l.History {
			_, _ = fmt.Fprintf(w, "failed\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, printable(f.Cause))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, f := range l.Fields {
			value := f.Value
			if f.ValueBase64 != "" {
				value = "(base64) " + f.ValueBase64
			}
			if _, err := fmt.Fprintf(e.out, "  %s = %s\n", printable(f.Name), printable(value)); err != nil {
				return err
			}
		}
		payload := l.Payload
		if payload == "" && l.PayloadBase64 != "" {
			payload = "(base64) " + l.PayloadBase64
		}
		_, err := fmt.Fprintf(e.out, "\n%s\n", printable(payload))
		return err
	})
}

// moving are the flags of commands that change letters.
type moving struct {
	remote
	which
	IDs    []string `arg:"" optional:"" name:"id" help:"Message ids of the letters, as dead list shows them."`
	All    bool     `help:"All letters there are."`
	DryRun bool     `help:"Only say how many it would be."`
}

func (c *moving) move(ctx context.Context, e env, what, done string) error {
	q := c.query(c.IDs)
	if c.All {
		q.Set("all", "true")
	}
	if len(q) == 0 {
		return usageError{fmt.Errorf("say which letters to %s: ids, filters like --kind, or --all", what)}
	}
	if c.All && len(q) > 1 {
		return usageError{errors.New("--all and a choice of letters contradict each other: leave one out")}
	}
	if c.DryRun {
		q.Set("dry_run", "true")
		done = "would be " + done
	}
	return c.ask(ctx, e, func(a *client) error {
		var got struct{ Count int }
		if err := a.post(ctx, "dead/"+what, q, &got); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, map[string]int{"count": got.Count})
		}
		text := count(got.Count, "dead letter", "dead letters") + " " + done + "."
		if what == "replay" && !c.DryRun && !a.live && got.Count > 0 {
			text += " Nothing runs: `tidemill run` takes them up."
		}
		_, err := fmt.Fprintln(e.out, text)
		return err
	})
}

type deadReplayCmd struct{ moving }

// Help is shown by tidemill dead replay --help.
func (c *deadReplayCmd) Help() string {
	return `A replay goes the whole way again, persons and definitions included. What succeeds leaves the dead letters; what fails again stays, with one replay more in its history.

  tidemill dead replay 0190f3c2-…                     one
  tidemill dead replay --kind transient,timeout       all that failed for a passing reason
  tidemill dead replay --project shop --dry-run       how many it would be
  tidemill dead replay --all                          all`
}

func (c *deadReplayCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "replay", "on their way again")
}

type deadDeleteCmd struct{ moving }

// Help is shown by tidemill dead delete --help.
func (c *deadDeleteCmd) Help() string {
	return `Letters that are being replayed are left alone. The books keep the number of those discarded, so that the audit still balances.

  tidemill dead delete 0190f3c2-…                     one
  tidemill dead delete --before 2026-01-31T00:00:00Z  all that died before then`
}

func (c *deadDeleteCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "delete", "discarded")
}
