package analyticscli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
)

type eventsCmd struct {
	command.Remote
	analyticsapi.EventFilter
	Max *int `help:"How many to list, the newest; 0: all. Default: 100." short:"n" placeholder:"N"`
}

// Help is shown by tidemill events --help.
func (c *eventsCmd) Help() string {
	return `The newest events are listed in the order of their times, the newest last. TIME is when the event happened, not when it was stored. All of them (-n 0), and those that --follow shows, are in the order in which they were stored.

  tidemill events                              the newest 100
  tidemill events -n 10 --name bought --follow
  tidemill events --since 1h --distinct-id user-1
  tidemill events -n 0 --json >events.ndjson   all of them`
}

// newestEvents is how many are listed where nobody says how many.
const newestEvents = 100

func (c *eventsCmd) Run(ctx context.Context, e command.Env) error {
	switch {
	case c.Max == nil:
		c.Newest = newestEvents
	case *c.Max < 0:
		return command.UsageError{Err: fmt.Errorf("-n wants a number of events, or 0 for all, not %d", *c.Max)}
	default:
		c.Newest = *c.Max
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		if c.Follow && !a.Live {
			return errors.New("no instance runs that could be followed: start one with `tidemill run`")
		}
		t := command.Table{Head: "TIME\tEVENT\tDISTINCT ID\tPERSON\tPROPERTIES", None: "No events.", Live: c.Follow}
		err := command.Listed(ctx, e, c.JSON, a, analyticsapi.ListEvents, &c.EventFilter, &t, func(l *analyticsapi.Event) []string {
			return []string{l.Timestamp, command.Short(l.Name, 40), command.Short(l.Distinct, 40), l.Person, command.Short(command.Characters(l.Properties), 60)}
		})
		switch {
		case c.Follow && ctx.Err() != nil:
			return nil
		case c.Follow && err == nil:
			_, _ = fmt.Fprintln(e.Err, "The instance stops.")
		}
		return err
	})
}

type personCmd struct {
	Show personShowCmd `cmd:"" help:"Show the person behind a distinct id."`
	ByID personByIDCmd `cmd:"" name:"by-id" help:"Show a person by the id of the person."`
}

type personShowCmd struct {
	command.Remote
	analyticsapi.OnePerson
}

func (c *personShowCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, analyticsapi.GetPerson, &c.OnePerson, printPerson(e))
}

type personByIDCmd struct {
	command.Remote
	analyticsapi.PersonByID
}

func (c *personByIDCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, analyticsapi.GetPersonByID, &c.PersonByID, printPerson(e))
}

func printPerson(e command.Env) func(*command.Client, *analyticsapi.Person) error {
	return func(_ *command.Client, p *analyticsapi.Person) error {
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "person\t%s\nidentified\t%v\ncreated\t%s\n", p.ID, p.Identified, p.Created.Format(time.RFC3339))
		for _, d := range p.Distinct {
			_, _ = fmt.Fprintf(w, "distinct id\t%s\n", command.Printable(d))
		}
		for _, k := range command.Sorted(p.Properties) {
			_, _ = fmt.Fprintf(w, "property\t%s = %s\n", command.Printable(k), command.Printable(command.Characters(p.Properties[k])))
		}
		return w.Flush()
	}
}

type storedCmd struct {
	command.Remote
	analyticsapi.EventByID
}

func (c *storedCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, analyticsapi.GetEvent, &c.EventByID, func(_ *command.Client, s *analyticsapi.StoredEvent) error {
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "event\t%s\nname\t%s\ndistinct id\t%s\nperson\t%s\ntime\t%s\ntaken in\t%s\n", s.ID, command.Printable(s.Name), command.Printable(s.Distinct), s.Person, s.Timestamp.Format(time.RFC3339Nano), s.Ingested.Format(time.RFC3339Nano))
		for _, k := range slices.Sorted(maps.Keys(s.Context)) {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", command.Printable(k), command.Printable(s.Context[k]))
		}
		_, _ = fmt.Fprintf(w, "properties\t%s\n", command.Printable(command.Characters(s.Properties)))
		return w.Flush()
	})
}

type warningsCmd struct {
	command.Remote
	analyticsapi.WarningFilter
}

func (c *warningsCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "TIME\tEVENT\tDISTINCT ID\tTYPE\tREASON", None: "No warnings."}
	return command.List(ctx, e, c, analyticsapi.ListWarnings, &c.WarningFilter, &t, func(w *analyticsapi.Warning) []string {
		return []string{w.Timestamp.Format(time.RFC3339), command.Short(w.Name, 40), command.Short(w.Distinct, 40), w.Type, command.Short(w.Reason, 120)}
	})
}
