package windowscli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
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
func windowAge(l *windowsapi.Window) string {
	return command.Roughly(time.Duration(l.Age * float64(time.Second)))
}

// windowCause is the last failure in words.
func windowCause(l *windowsapi.Window) string {
	if l.Failed == nil {
		return ""
	}
	return l.Kind + ": " + l.Error
}

// windowDetail says of a window what is to be known first.
func windowDetail(l *windowsapi.Window) string {
	switch l.State {
	case "active":
		if l.Expect > 0 {
			return fmt.Sprintf("closes with %d records, or%s", l.Expect, command.At(l.Due))
		}
		return "closes" + command.At(l.Due)
	case "leased":
		return "with " + l.Owner + " until" + command.At(l.Lease)
	case "ready":
		if l.Due != nil {
			return command.Because("again"+command.At(l.Due), windowCause(l))
		}
		return command.Because("waits for its turn", windowCause(l))
	}
	return windowCause(l)
}

type windowListCmd struct {
	aboutWindows
	windowsapi.WindowFilter
	Max *int `help:"How many to list; 0: all. Default: 100, and with --json all." short:"n" placeholder:"N"`
}

// Help is shown by tidemill window list --help.
func (c *windowListCmd) Help() string {
	return `A window is ACTIVE while it collects; READY when it is closed and waits for delivery; LEASED while an instance delivers it; PARKED after too many failures: it is kept whole until tidemill window replay. A delivered window is gone. Late records of a batch id open another window, with its own id. A batch id belongs to one project: if there are several, PROJECT says which.

  tidemill window list --state parked
  tidemill window list --batch 20250323151500
  tidemill window list --json | jq .error`
}

func (c *windowListCmd) Run(ctx context.Context, e command.Env) (err error) {
	if c.WindowFilter.Max, err = command.Most(c.Max, c.JSON); err != nil {
		return err
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		t := command.Table{Head: "ID\tSTATE\tRECORDS\tAGE\tTRIES\tDETAIL", None: "No such windows."}
		several, err := c.several(ctx, a)
		if err != nil {
			return err
		}
		if several {
			t.Head = "PROJECT\t" + t.Head
		}
		err = command.Listed(ctx, e, c.JSON, a, windowsapi.ListWindows, &c.WindowFilter, &t, func(l *windowsapi.Window) []string {
			row := []string{l.Project, l.ID, l.State, command.Whole(l.Records), windowAge(l), strconv.Itoa(l.Tries), command.Short(windowDetail(l), 100)}
			if !several {
				row = row[1:]
			}
			return row
		})
		return command.SayFirst(e, err, &t, c.Max, c.WindowFilter.Max)
	})
}

// several says whether there are several projects, whose windows are to be told apart.
func (c *windowListCmd) several(ctx context.Context, a *command.Client) (bool, error) {
	if c.JSON {
		return false, nil
	}
	n := 0
	for _, err := range api.ListProjects.Raw(ctx, &a.Client, &operation.None{}) {
		if command.NotFound(err) {
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
	windowsapi.OneBatch
}

// Help is shown by tidemill window close --help.
func (c *windowCloseCmd) Help() string {
	return `The records so far are frozen and delivered, as if the window's time were over. Later records of the batch id open another window.

  tidemill window close 20250323151500`
}

func (c *windowCloseCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, windowsapi.CloseWindow, &c.OneBatch, func(a *command.Client, _ *windowsapi.ClosedWindow) error {
		text := fmt.Sprintf("The window of batch %s is closed.", command.Printable(c.Batch))
		if !a.Live {
			text += " Nothing runs: `tidemill run` delivers it."
		}
		_, err := fmt.Fprintln(e.Out, text)
		return err
	})
}

type windowReplayCmd struct {
	aboutWindows
	windowsapi.WindowMove
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

func (c *windowReplayCmd) Run(ctx context.Context, e command.Env) error {
	chosen := len(c.IDs) > 0 || c.Batch != "" || c.Max > 0
	switch {
	case !chosen && !c.All:
		return command.UsageError{Err: errors.New("say which windows to replay: ids, --batch, or --all")}
	case c.All && (len(c.IDs) > 0 || c.Batch != ""):
		return command.UsageError{Err: errors.New("--all and a choice of windows contradict each other: leave one out")}
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		got, err := windowsapi.ReplayWindows.Call(ctx, &a.Client, &c.WindowMove)
		if err != nil {
			return err
		}
		if got.Count == 0 && !c.All {
			return fmt.Errorf("no window that matches is parked; `tidemill window list --state parked` shows those that are")
		}
		if c.JSON {
			return command.PrintJSON(e.Out, got)
		}
		text := "Replaying " + command.Count(got.Count, "window", "windows") + "."
		switch {
		case c.DryRun:
			text = "Would replay " + command.Count(got.Count, "window", "windows") + "."
		case !a.Live && got.Count > 0:
			text += " Nothing runs: `tidemill run` takes them up."
		}
		_, err = fmt.Fprintln(e.Out, text)
		return err
	})
}

// aboutWindows are the flags of commands about windows.
type aboutWindows struct{ command.Remote }

// Ask opens the instance, runs do, and closes what was opened.
func (r *aboutWindows) Ask(ctx context.Context, e command.Env, do func(*command.Client) error) error {
	r.About = windows.Name
	return r.Remote.Ask(ctx, e, do)
}
