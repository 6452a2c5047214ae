package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type windowCmd struct {
	List   windowListCmd   `cmd:"" help:"List windows: those that collect, wait, are delivered, or are parked."`
	Show   windowShowCmd   `cmd:"" help:"Explain where a window is, why it waits, and what is in it."`
	Status windowStatusCmd `cmd:"" help:"Show windows by state, with counts and ages, and the processors."`
	Close  windowCloseCmd  `cmd:"" help:"Close the window of a batch id now and deliver its records."`
	Replay windowReplayCmd `cmd:"" help:"Deliver parked windows again."`
	Send   windowSendCmd   `cmd:"" help:"Put records of files into the window of a batch id."`
	Files  windowFilesCmd  `cmd:"" help:"Show the files that are being read, and why one cannot be read."`
	GiveUp windowGiveUpCmd `cmd:"" help:"Give up a file that cannot be read any more: its rows are lost."`
	Adopt  windowAdoptCmd  `cmd:"" help:"Take over the windows of the system you migrate from, in Redis."`
}

// windowAge writes how old a window is.
func windowAge(l *api.Window) string { return roughly(time.Duration(l.Age * float64(time.Second))) }

// windowCause is the last failure in words.
func windowCause(l *api.Window) string {
	if l.Failed == nil {
		return ""
	}
	return l.Kind + ": " + l.Error
}

// windowDetail says of a window what is to be known first.
func windowDetail(l *api.Window) string {
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
			return because("again"+at(l.Due), windowCause(l))
		}
		return because("waits for its turn", windowCause(l))
	}
	return windowCause(l)
}

type windowListCmd struct {
	aboutWindows
	api.WindowFilter
	Max *int `help:"How many to list, the oldest first; 0: all. Default: 100, and with --json all." short:"n" placeholder:"N"`
}

// Help is shown by tidemill window list --help.
func (c *windowListCmd) Help() string {
	return `A window is ACTIVE while it collects; READY when it is closed and waits for delivery; LEASED while an instance delivers it; PARKED after too many failures: it is kept whole until tidemill window replay. A delivered window is gone. Late records of a batch id open another window, with its own id. A batch id belongs to one project: if there are several, PROJECT says which.

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

// sayFirst says that a listing may have been cut, where nobody has said how many are wanted.
func sayFirst(e env, err error, t *table, said *int, most int) error {
	if err == nil && most > 0 && t.rows == most && said == nil {
		_, _ = fmt.Fprintf(e.err, "These are the first %d; there may be more. -n 0 shows all.\n", most)
	}
	return err
}

func (c *windowListCmd) Run(ctx context.Context, e env) (err error) {
	if c.WindowFilter.Max, err = most(c.Max, c.JSON); err != nil {
		return err
	}
	return c.ask(ctx, e, func(a *client) error {
		t := table{head: "ID\tSTATE\tRECORDS\tAGE\tTRIES\tDETAIL", none: "No such windows."}
		several, err := c.several(ctx, a)
		if err != nil {
			return err
		}
		if several {
			t.head = "PROJECT\t" + t.head
		}
		err = listed(ctx, e, c.JSON, a, api.ListWindows, &c.WindowFilter, &t, func(l *api.Window) []string {
			row := []string{l.Project, l.ID, l.State, whole(l.Records), windowAge(l), strconv.Itoa(l.Tries), short(windowDetail(l), 100)}
			if !several {
				row = row[1:]
			}
			return row
		})
		return sayFirst(e, err, &t, c.Max, c.WindowFilter.Max)
	})
}

// several says whether there are several projects, whose windows are to be told apart.
func (c *windowListCmd) several(ctx context.Context, a *client) (bool, error) {
	if c.JSON {
		return false, nil
	}
	n := 0
	for _, err := range api.ListProjects.Raw(ctx, &a.Client, &operation.None{}) {
		if notFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		n++
	}
	return n > 1, nil
}

type windowCloseCmd struct {
	aboutWindows
	api.OneBatch
}

// Help is shown by tidemill window close --help.
func (c *windowCloseCmd) Help() string {
	return `The records so far are frozen and delivered, as if the window's time were over. Later records of the batch id open another window.

  tidemill window close 20250323151500`
}

func (c *windowCloseCmd) Run(ctx context.Context, e env) error {
	return show(ctx, e, c, api.CloseWindow, &c.OneBatch, func(a *client, _ *api.ClosedWindow) error {
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
	api.WindowMove
}

// Help is shown by tidemill window replay --help.
func (c *windowReplayCmd) Help() string {
	return `A window that failed too often is parked, whole. Its replay processes and delivers all of it, as if it were just closed. Records that had arrived before it failed arrive once more, under the same keys. The books count its records as accepted once more.

  tidemill window list --state parked               which ones, and why
  tidemill window replay 20250323151500/1742743     one
  tidemill window replay --batch 20250323151500     all of a batch id
  tidemill window replay --all --dry-run            how many there are
  tidemill window replay --all

For single records that were given up: tidemill dead replay --pipeline windows-delivery.`
}

func (c *windowReplayCmd) Run(ctx context.Context, e env) error {
	chosen := len(c.IDs) > 0 || c.Batch != "" || c.Max > 0
	switch {
	case !chosen && !c.All:
		return usageError{errors.New("say which windows to replay: ids, --batch, or --all")}
	case c.All && (len(c.IDs) > 0 || c.Batch != ""):
		return usageError{errors.New("--all and a choice of windows contradict each other: leave one out")}
	}
	return c.ask(ctx, e, func(a *client) error {
		got, err := api.ReplayWindows.Call(ctx, &a.Client, &c.WindowMove)
		if err != nil {
			return err
		}
		if got.Count == 0 && !c.All {
			return fmt.Errorf("no window that matches is parked; `tidemill window list --state parked` shows those that are")
		}
		if c.JSON {
			return printJSON(e.out, got)
		}
		text := "Replaying " + count(got.Count, "window", "windows") + "."
		switch {
		case c.DryRun:
			text = "Would replay " + count(got.Count, "window", "windows") + "."
		case !a.live && got.Count > 0:
			text += " Nothing runs: `tidemill run` takes them up."
		}
		_, err = fmt.Fprintln(e.out, text)
		return err
	})
}
