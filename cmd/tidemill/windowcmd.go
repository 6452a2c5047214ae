package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

type windowCmd struct {
	List   windowListCmd   `cmd:"" help:"List windows: what collects, waits, is delivered, or is parked."`
	Show   windowShowCmd   `cmd:"" help:"Explain where a window is, why it waits, and what is in it."`
	Status windowStatusCmd `cmd:"" help:"Show how windows stand: counts and ages by state, processors."`
	Close  windowCloseCmd  `cmd:"" help:"Close the window of a batch id now: what is there is delivered."`
	Replay windowReplayCmd `cmd:"" help:"Deliver parked windows again."`
	Send   windowSendCmd   `cmd:"" help:"Put records of files into the window of a batch id."`
	Files  windowFilesCmd  `cmd:"" help:"Show the files that are being read, and why one cannot be."`
	GiveUp windowGiveUpCmd `cmd:"" help:"Give up a file that cannot be read any more: its rows are lost."`
	Adopt  windowAdoptCmd  `cmd:"" help:"Take over what the program that this replaces has collected in Redis."`
}

// windowLine is a window as the API writes it.
type windowLine struct {
	ID, Batch, Project     string
	State                  string
	Records, Bytes, Expect int64
	Lost                   int64
	Opened                 time.Time  `json:"opened_at"`
	Age                    float64    `json:"age_seconds"`
	Closed                 *time.Time `json:"closed_at"`
	Why                    string     `json:"closed_by"`
	Due                    *time.Time `json:"due_at"`
	Owner                  string
	Lease                  *time.Time `json:"leased_until"`
	Handed, Tries, Replays int
	Failed                 *time.Time `json:"failed_at"`
	Kind, Error            string
}

// age writes how old a window is.
func (l *windowLine) age() string { return roughly(time.Duration(l.Age * float64(time.Second))) }

// cause is the last failure in words.
func (l *windowLine) cause() string {
	if l.Failed == nil {
		return ""
	}
	return l.Kind + ": " + l.Error
}

// detail says of a window what is to be known first.
func (l *windowLine) detail() string {
	switch l.State {
	case "active":
		if l.Expect > 0 {
			return fmt.Sprintf("closes with %d records, or%s", l.Expect, at(l.Due))
		}
		return "closes" + at(l.Due)
	case "leased":
		return "with " + l.Owner + " until" + at(l.Lease)
	case "ready":
		if l.Due != nil {
			return because("again"+at(l.Due), l.cause())
		}
		return because("waits for its turn", l.cause())
	}
	return l.cause()
}

type windowListCmd struct {
	aboutWindows
	State   string `help:"Only windows of this state: active, ready, leased or parked." enum:",active,ready,leased,parked" default:"" placeholder:"STATE"`
	Batch   string `help:"Only windows of this batch id." placeholder:"ID"`
	Project string `help:"Only windows of this project, by name or id." placeholder:"NAME"`
	Max     *int   `help:"At most so many, the oldest first; 0: all. Default: 100, and with --json all." short:"n" placeholder:"N"`
}

// Help is shown by tidemill window list --help.
func (c *windowListCmd) Help() string {
	return `A window is ACTIVE while it collects; READY when it is closed and waits to be delivered; LEASED while an instance delivers it; PARKED when it failed too often: it is kept whole until tidemill window replay. One that was delivered is gone. Late records of a batch id open another window, with an id of its own. A batch id is one of its project: where there are several projects, PROJECT says whose it is.

  tidemill window list --state parked
  tidemill window list --batch 20250323151500
  tidemill window list --json | jq .error`
}

// most reads how many lines are wanted; 0: all.
func most(n *int, json bool) (int, error) {
	switch {
	case n != nil && *n < 0:
		return 0, usageError{fmt.Errorf("-n wants a number, or 0 for all, not %d", *n)}
	case n != nil:
		return *n, nil
	case json:
		return 0, nil
	}
	return 100, nil
}

func (c *windowListCmd) Run(ctx context.Context, e env) error {
	most, err := most(c.Max, c.JSON)
	if err != nil {
		return err
	}
	q := query("state", c.State, "batch", c.Batch, "project", c.Project, "max", positive(most))
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "windows", q, lineTo(e.out))
		}
		several, err := c.several(ctx, a)
		if err != nil {
			return err
		}
		t := table{out: e.out, head: "ID\tSTATE\tRECORDS\tAGE\tTRIES\tDETAIL", none: "No such windows."}
		if several {
			t.head = "PROJECT\t" + t.head
		}
		err = a.lines(ctx, "windows", q, func(line []byte) error {
			var l windowLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			row := []string{printable(l.Project), printable(l.ID), l.State, whole(l.Records), l.age(), strconv.Itoa(l.Tries), short(l.detail(), 100)}
			if !several {
				row = row[1:]
			}
			return t.row(row...)
		})
		if err = t.end(err); err == nil && most > 0 && t.rows == most && c.Max == nil {
			_, _ = fmt.Fprintf(e.err, "These are the first %d; there may be more: -n says how many, -n 0 shows all.\n", most)
		}
		return err
	})
}

// several says whether there are several projects, whose windows are to be told apart.
func (c *windowListCmd) several(ctx context.Context, a *client) (bool, error) {
	n := 0
	err := a.lines(ctx, "projects", nil, func([]byte) error { n++; return nil })
	if notFound(err) {
		err = nil
	}
	return n > 1, err
}

// segment is a part of a path: one of dots alone would be taken for a way up.
func segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

type windowCloseCmd struct {
	aboutWindows
	Batch   string `arg:"" help:"Its batch id."`
	Project string `help:"Project, by name or id. May be left out where one alone collects under the batch id." placeholder:"NAME"`
}

// Help is shown by tidemill window close --help.
func (c *windowCloseCmd) Help() string {
	return `What has come so far is frozen and delivered as if the window's time were over. What comes later under the batch id opens another window.

  tidemill window close 20250323151500`
}

func (c *windowCloseCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var raw json.RawMessage
		if err := a.post(ctx, "windows/"+segment(c.Batch)+"/close", query("project", c.Project), &raw); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, raw)
		}
		text := fmt.Sprintf("The window of batch %s is closed.", printable(c.Batch))
		if !a.live {
			text += " Nothing runs: `tidemill run` delivers it."
		}
		_, err := fmt.Fprintln(e.out, text)
		return err
	})
}

type windowReplayCmd struct {
	aboutWindows
	IDs     []string `arg:"" optional:"" name:"id" help:"Windows, as tidemill window list --state parked shows them."`
	Batch   string   `help:"Those of this batch id." placeholder:"ID"`
	Project string   `help:"Only windows of this project, by name or id. To be said where several have what is chosen." placeholder:"NAME"`
	All     bool     `help:"All windows that are parked."`
	Max     int      `help:"At most so many, the oldest first." short:"n"`
	DryRun  bool     `help:"Only say how many it would be."`
}

// Help is shown by tidemill window replay --help.
func (c *windowReplayCmd) Help() string {
	return `A window that failed too often is parked, whole. Its replay processes and delivers all of it, as if it were closed just now; what had arrived before it failed arrives once more, under the same keys. In the books its records are accepted once more.

  tidemill window list --state parked               which there are, and why
  tidemill window replay 20250323151500/1742743     one
  tidemill window replay --batch 20250323151500     all of a batch id
  tidemill window replay --all --dry-run            how many it would be
  tidemill window replay --all

Single records that were given up are another thing: tidemill dead replay --pipeline windows-delivery.`
}

func (c *windowReplayCmd) Run(ctx context.Context, e env) error {
	chosen := len(c.IDs) > 0 || c.Batch != "" || c.Max > 0
	switch {
	case !chosen && !c.All:
		return usageError{errors.New("say which windows to replay: ids, --batch, or --all")}
	case c.All && (len(c.IDs) > 0 || c.Batch != ""):
		return usageError{errors.New("--all and a choice of windows contradict each other: leave one out")}
	}
	q := query("batch", c.Batch, "project", c.Project, "max", positive(c.Max))
	if len(c.IDs) > 0 {
		q["id"] = c.IDs
	}
	if c.All {
		q.Set("all", "true")
	}
	if c.DryRun {
		q.Set("dry_run", "true")
	}
	return c.ask(ctx, e, func(a *client) error {
		var got struct{ Count int }
		if err := a.post(ctx, "windows/replay", q, &got); err != nil {
			return err
		}
		if got.Count == 0 && !c.All {
			return fmt.Errorf("no window of that choice is parked; `tidemill window list --state parked` shows those that are")
		}
		if c.JSON {
			return printJSON(e.out, map[string]int{"count": got.Count})
		}
		text := count(got.Count, "window", "windows") + " on their way again."
		switch {
		case c.DryRun:
			text = count(got.Count, "window", "windows") + " would be on their way again."
		case !a.live && got.Count > 0:
			text += " Nothing runs: `tidemill run` takes them up."
		}
		_, err := fmt.Fprintln(e.out, text)
		return err
	})
}

// notFound says whether the API knows nothing of what was asked for.
func notFound(err error) bool {
	said, ok := errors.AsType[*apiError](err)
	return ok && said.status == http.StatusNotFound
}
