package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/api"
)

type eventsCmd struct {
	remote
	api.EventFilter
	Max *int `help:"How many to list, the newest; 0: all. Default: 100." short:"n" placeholder:"N"`
}

// Help is shown by tidemill events --help.
func (c *eventsCmd) Help() string {
	return `Events are listed in the order in which they were stored, the newest last. TIME is when the event happened, not when it was stored.

  tidemill events                              the newest 100
  tidemill events -n 10 --name bought --follow
  tidemill events --since 1h --distinct-id user-1
  tidemill events -n 0 --json >events.ndjson   all of them`
}

// newestEvents is how many are listed where nobody says how many.
const newestEvents = 100

func (c *eventsCmd) Run(ctx context.Context, e env) error {
	switch {
	case c.Max == nil:
		c.Newest = newestEvents
	case *c.Max < 0:
		return usageError{fmt.Errorf("-n wants a number of events, or 0 for all, not %d", *c.Max)}
	default:
		c.Newest = *c.Max
	}
	return c.ask(ctx, e, func(a *client) error {
		if c.Follow && !a.live {
			return errors.New("no instance runs that could be followed: start one with `tidemill run`")
		}
		t := table{head: "TIME\tEVENT\tDISTINCT ID\tPERSON\tPROPERTIES", none: "No events.", live: c.Follow}
		err := listed(ctx, e, c.JSON, a, api.ListEvents, &c.EventFilter, &t, func(l *api.Event) []string {
			return []string{l.Timestamp, short(l.Name, 40), short(l.Distinct, 40), l.Person, short(characters(l.Properties), 60)}
		})
		switch {
		case c.Follow && ctx.Err() != nil:
			return nil
		case c.Follow && err == nil:
			_, _ = fmt.Fprintln(e.err, "The instance stops.")
		}
		return err
	})
}

type personCmd struct {
	Show personShowCmd `cmd:"" help:"Show the person behind a distinct id."`
}

type personShowCmd struct {
	remote
	api.OnePerson
}

func (c *personShowCmd) Run(ctx context.Context, e env) error {
	return show(ctx, e, c, api.GetPerson, &c.OnePerson, func(_ *client, p *api.Person) error {
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "person\t%s\nidentified\t%v\ncreated\t%s\n", p.ID, p.Identified, p.Created.Format(time.RFC3339))
		for _, d := range p.Distinct {
			_, _ = fmt.Fprintf(w, "distinct id\t%s\n", printable(d))
		}
		for _, k := range sorted(p.Properties) {
			_, _ = fmt.Fprintf(w, "property\t%s = %s\n", printable(k), printable(characters(p.Properties[k])))
		}
		return w.Flush()
	})
}

// characters is a JSON value as people read it: é, where its sender wrote an escape.
func characters(value []byte) string {
	if !bytes.Contains(value, []byte(`\u`)) {
		return string(value)
	}
	b, err := jsontext.AppendFormat(nil, value, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return string(value)
	}
	return string(b)
}

type warningsCmd struct {
	remote
	api.WarningFilter
}

func (c *warningsCmd) Run(ctx context.Context, e env) error {
	t := table{head: "TIME\tEVENT\tDISTINCT ID\tTYPE\tREASON", none: "No warnings."}
	return list(ctx, e, c, api.ListWarnings, &c.WarningFilter, &t, func(w *api.Warning) []string {
		return []string{w.Timestamp.Format(time.RFC3339), short(w.Name, 40), short(w.Distinct, 40), w.Type, short(w.Reason, 120)}
	})
}
