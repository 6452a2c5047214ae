package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
)

type findCmd struct {
	command.Remote
	api.FindQuery
	Scan bool `help:"Look through the jobs of all queues too, for the id in ids, headers and payloads: this reads every job."`
}

// Help is shown by tidemill find --help.
func (c *findCmd) Help() string {
	return `It finds an event of any system, an order, a job, a dead letter (by number or message), a person or profile, a window (batch/revision) or batch, a partner, a queue, a site, tenant or project, a replay. Each place is asked for this id alone, and answers within half a second; what could not be asked is said.

  tidemill find 5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01
  tidemill find order-17 --owner shop
  tidemill find anna@example.org --scan        in jobs that hold it, which takes longer

The exit status is 1 if nothing was found.`
}

func (c *findCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		found, err := command.Shown(ctx, e, c, a, api.Find, &c.FindQuery, func(f *api.FoundThings) error { return printFound(e, f) })
		if err != nil {
			return err
		}
		n := len(found.Hits)
		if c.Scan {
			more, err := c.scan(ctx, e, a)
			if err != nil {
				return err
			}
			n += more
		}
		if n == 0 {
			return fmt.Errorf("nothing has the id %s", command.Printable(c.ID))
		}
		return nil
	})
}

// scan looks through all jobs, request by request, and says how many it found.
func (c *findCmd) scan(ctx context.Context, e command.Env, a *command.Client) (hits int, err error) {
	q := &api.ScanQuery{Text: c.ID, Owner: c.Owner}
	for looked := 0; ; {
		s, err := api.Scan.Call(ctx, &a.Client, q)
		if err != nil {
			return hits, err
		}
		looked += s.Looked
		hits += len(s.Hits)
		if c.JSON {
			err = command.PrintJSON(e.Out, s)
		} else {
			err = printThings(e.Out, s.Hits)
		}
		if err != nil {
			return hits, err
		}
		if q.Cursor = s.Next; q.Cursor == "" {
			_, _ = fmt.Fprintf(e.Err, "Looked through %s.\n", command.Count(looked, "job", "jobs"))
			return hits, nil
		}
	}
}

// printFound shows what was found, and what could not be asked; where nothing was found, all places.
func printFound(e command.Env, f *api.FoundThings) error {
	if err := printThings(e.Out, f.Hits); err != nil {
		return err
	}
	if len(f.Hits) == 0 {
		for _, l := range f.Looked {
			_, _ = fmt.Fprintf(e.Err, "looked in   %s\n", place(&l))
		}
	}
	for _, l := range f.Missed {
		_, _ = fmt.Fprintf(e.Err, "not looked  %s: %s\n", place(&l), command.Printable(l.Why))
	}
	return nil
}

func place(l *api.Looked) string {
	if l.System == "" || l.System == l.Where {
		return command.Printable(l.Where)
	}
	return command.Printable(l.System + ": " + l.Where)
}

func printThings(out io.Writer, things []api.Thing) error {
	if len(things) == 0 {
		return nil
	}
	t := command.Table{Head: "KIND\tSYSTEM\tOWNER\tID\tWHAT", Out: out}
	for _, h := range things {
		if err := t.Row(strings.ReplaceAll(h.Kind, "_", " "), h.System, command.Printable(h.Owner), command.Printable(h.ID), command.Printable(h.Text)); err != nil {
			return err
		}
	}
	return t.End(nil)
}

type explainCmd struct {
	command.Remote
	api.OneEvent
}

// Help is shown by tidemill explain --help.
func (c *explainCmd) Help() string {
	return `It tells what happened to an event of any system, step by step: how it came in, where it waits and why, to which partners it was routed and why not to the others, every try, dead letter, replay, person, window; what comes next, and what is no longer known. It shows no payload.

  tidemill explain 5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01
  tidemill explain order-17                               by an order, while its key is known
  tidemill explain gdelt-7/3 --system windows             a window
  tidemill explain 17 --system crm --owner club-7 --json

Without --system the event is found first, in all systems. If several have the id they are listed, and the exit status is 1, as it is if none has.`
}

func (c *explainCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		q := c.OneEvent
		if q.System == "" {
			found, err := api.Find.Call(ctx, &a.Client, &api.FindQuery{ID: q.ID, Owner: q.Owner})
			if err != nil {
				return err
			}
			if q, err = c.choose(e, &found); err != nil {
				return err
			}
		}
		_, err := command.Shown(ctx, e, c, a, api.Explain, &q, func(x *api.Explanation) error {
			_, err := io.WriteString(e.Out, x.Text())
			return err
		})
		return err
	})
}

// choose is the one event that was found; several are listed.
func (c *explainCmd) choose(e command.Env, f *api.FoundThings) (q api.OneEvent, err error) {
	var all []api.OneEvent
	for _, h := range f.Hits {
		one := api.OneEvent{System: h.Parameters["system"], Owner: h.Parameters["owner"], ID: h.Parameters["id"]}
		if h.Operation == api.Explain.ID && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	switch {
	case len(all) == 1:
		return all[0], nil
	case c.JSON:
		err = command.PrintJSON(e.Out, f)
	default:
		err = printFound(e, f)
	}
	switch {
	case err != nil:
		return q, err
	case len(all) == 0:
		return q, fmt.Errorf("no event has the id %s", command.Printable(c.ID))
	}
	return q, errors.New("several events have the id: say which, with --system and --owner")
}
