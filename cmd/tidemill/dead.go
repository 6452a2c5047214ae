package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
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
	q["kind"], q["id"] = w.Kind, ids
	return q
}

// letterLine is a dead letter as the API writes it.
type letterLine struct {
	Seq     int64     `json:"seq"`
	ID      string    `json:"id"`
	Type    string    `json:"type"`
	Project string    `json:"project_id"`
	State   string    `json:"state"`
	Kind    string    `json:"kind"`
	Cause   string    `json:"cause"`
	Replays int       `json:"replays"`
	Last    time.Time `json:"last_failed_at"`
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
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		n := 0
		err := a.lines(ctx, "dead", c.query(nil), func(line []byte) error {
			var l letterLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			if n++; n == 1 {
				_, _ = fmt.Fprintln(w, "NO\tDIED\tKIND\tSTATE\tREPLAYS\tEVENT\tCAUSE")
			}
			_, err := fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\n", l.Seq, l.Last.Format(time.RFC3339), l.Kind, l.State, l.Replays, short(l.Type, 30), short(l.Cause, 80))
			return err
		})
		if err != nil {
			return err
		}
		if n == 0 {
			_, err = fmt.Fprintln(e.out, "No dead letters.")
			return err
		}
		return w.Flush()
	})
}

type deadShowCmd struct {
	remote
	Letter string `arg:"" help:"Its number, or its message's id."`
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
			History       []struct {
				At          time.Time
				Kind, Cause string
				Tries       int
			}
		}
		if err := json.Unmarshal(whole, &l); err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "letter\t%d, %s\nmessage\t%s\nproject\t%s\nevent\t%s\nreplays\t%d\n", l.Seq, l.State, printable(l.ID), l.Project, printable(l.Type), l.Replays)
		for _, f := range l.History {
			_, _ = fmt.Fprintf(w, "failed\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, printable(f.Cause))
		}
		if err := w.Flush(); err != nil {
			return err
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
	IDs    []string `arg:"" optional:"" name:"id" help:"Message ids of the letters."`
	All    bool     `help:"All of them."`
	DryRun bool     `help:"Only say how many it would be."`
}

func (c *moving) move(ctx context.Context, e env, what, done string) error {
	q := c.query(c.IDs)
	if c.All {
		q.Set("all", "true")
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
		_, err := fmt.Fprintf(e.out, "%d dead letters %s.\n", got.Count, done)
		return err
	})
}

type deadReplayCmd struct{ moving }

// Help is shown by tidemill dead replay --help.
func (c *deadReplayCmd) Help() string {
	return `A replay goes the whole way again, persons and definitions included. What succeeds leaves the dead letters; what fails again stays, with one replay more in its history.

  tidemill dead replay --kind transient      all that failed for a passing reason
  tidemill dead replay 0190f3c2-…            one`
}

func (c *deadReplayCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "replay", "on their way again")
}

type deadDeleteCmd struct{ moving }

func (c *deadDeleteCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "delete", "discarded")
}
