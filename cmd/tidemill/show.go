package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

type eventsCmd struct {
	remote
	Project  string `help:"Project, by name or id. May be left out where there is one." placeholder:"NAME"`
	Distinct string `help:"Only events of this distinct id." name:"distinct-id" placeholder:"ID"`
	Person   string `help:"Only events of this person, merged ones included." placeholder:"UUID"`
	Name     string `help:"Only events of this name." placeholder:"EVENT"`
	span
	Max    *int `help:"At most so many, the newest; 0: all. Default: 100." short:"n" placeholder:"N"`
	Follow bool `help:"Go on with events as they are stored, until Ctrl-C." short:"f"`
}

// Help is shown by tidemill events --help.
func (c *eventsCmd) Help() string {
	return `Events are listed in the order in which they were stored, the newest last. A time is that of the event, not of its storing.

  tidemill events                              the newest 100
  tidemill events -n 10 --name bought --follow
  tidemill events --since 1h --distinct-id user-1
  tidemill events -n 0 --json >events.ndjson   all of them`
}

// newestEvents is how many are listed where nobody says how many.
const newestEvents = 100

// eventLine is what of an event is shown to people.
type eventLine struct {
	Timestamp string          `json:"timestamp"`
	Name      string          `json:"event_name"`
	Distinct  string          `json:"distinct_id"`
	Person    string          `json:"person_id"`
	Props     json.RawMessage `json:"properties"`
}

func (c *eventsCmd) Run(ctx context.Context, e env) error {
	q := query("project", c.Project, "distinct_id", c.Distinct, "person", c.Person, "name", c.Name, "since", c.since(), "until", c.until())
	switch {
	case c.Max == nil:
		q.Set("newest", strconv.Itoa(newestEvents))
	case *c.Max < 0:
		return usageError{fmt.Errorf("-n wants a number of events, or 0 for all, not %d", *c.Max)}
	case *c.Max > 0:
		q.Set("newest", strconv.Itoa(*c.Max))
	}
	if c.Follow {
		q.Set("follow", "true")
	}
	return c.ask(ctx, e, func(a *client) error {
		if c.Follow && !a.live {
			return errors.New("nothing runs that could be followed: start it with `tidemill run`")
		}
		err := c.list(ctx, e, a, q)
		switch {
		case c.Follow && ctx.Err() != nil:
			return nil
		case c.Follow && err == nil:
			_, _ = fmt.Fprintln(e.err, "The instance stops.")
		}
		return err
	})
}

// list prints the events that the API lists.
func (c *eventsCmd) list(ctx context.Context, e env, a *client, q url.Values) error {
	if c.JSON {
		return a.lines(ctx, "events", q, lineTo(e.out))
	}
	t := table{out: e.out, head: "TIME\tEVENT\tDISTINCT ID\tPERSON\tPROPERTIES", none: "No events.", live: c.Follow}
	err := a.lines(ctx, "events", q, func(line []byte) error {
		var l eventLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		return t.row(l.Timestamp, short(l.Name, 40), short(l.Distinct, 40), l.Person, short(characters(l.Props), 60))
	})
	return t.end(err)
}

type personCmd struct {
	Show personShowCmd `cmd:"" help:"Show the person behind a distinct id."`
}

type personShowCmd struct {
	remote
	Distinct string `arg:"" name:"distinct-id" help:"One of the person's distinct ids."`
	Project  string `help:"Project, by name or id. May be left out where there is one." placeholder:"NAME"`
}

func (c *personShowCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var p struct {
			ID         string                     `json:"id"`
			Distinct   []string                   `json:"distinct_ids"`
			Properties map[string]json.RawMessage `json:"properties"`
			Identified bool                       `json:"is_identified"`
			Created    time.Time                  `json:"created_at"`
			Updated    time.Time                  `json:"updated_at"`
		}
		if err := a.get(ctx, "persons", query("project", c.Project, "distinct_id", c.Distinct), &p); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, p)
		}
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
	Project string `help:"Project, by name or id. May be left out where there is one." placeholder:"NAME"`
	Max     int    `help:"At most so many, the newest first." short:"n" default:"100"`
}

func (c *warningsCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		q := query("project", c.Project, "max", positive(c.Max))
		if c.JSON {
			return a.lines(ctx, "warnings", q, lineTo(e.out))
		}
		t := table{out: e.out, head: "TIME\tEVENT\tDISTINCT ID\tTYPE\tREASON", none: "No warnings."}
		err := a.lines(ctx, "warnings", q, func(line []byte) error {
			var w struct {
				Type, Reason string
				Name         string `json:"event_name"`
				Distinct     string `json:"distinct_id"`
				Timestamp    time.Time
			}
			if err := json.Unmarshal(line, &w); err != nil {
				return err
			}
			return t.row(w.Timestamp.Format(time.RFC3339), short(w.Name, 40), short(w.Distinct, 40), w.Type, short(w.Reason, 120))
		})
		return t.end(err)
	})
}
