package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"
)

type eventsCmd struct {
	remote
	Project  string `help:"Project, by name or id. May be left out where there is one." placeholder:"NAME"`
	Distinct string `help:"Only events of this distinct id." name:"distinct-id" placeholder:"ID"`
	Person   string `help:"Only events of this person, merged ones included." placeholder:"UUID"`
	Name     string `help:"Only events of this name." placeholder:"EVENT"`
	From     string `help:"Only events at or after this time." placeholder:"TIME"`
	To       string `help:"Only events before this time." placeholder:"TIME"`
	Max      int    `help:"At most so many." short:"n"`
}

// eventLine is what of an event is shown to people.
type eventLine struct {
	Timestamp string          `json:"timestamp"`
	Name      string          `json:"event_name"`
	Distinct  string          `json:"distinct_id"`
	Person    string          `json:"person_id"`
	Props     json.RawMessage `json:"properties"`
}

func (c *eventsCmd) Run(ctx context.Context, e env) error {
	q := query("project", c.Project, "distinct_id", c.Distinct, "person", c.Person, "name", c.Name, "from", c.From, "to", c.To, "max", positive(c.Max))
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "events", q, func(line []byte) error { _, err := e.out.Write(line); return err })
		}
		t := table{out: e.out, head: "TIME\tEVENT\tDISTINCT ID\tPERSON\tPROPERTIES", none: "No events."}
		err := a.lines(ctx, "events", q, func(line []byte) error {
			var l eventLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			return t.row(l.Timestamp, short(l.Name, 40), short(l.Distinct, 40), l.Person, short(string(l.Props), 60))
		})
		return t.end(err)
	})
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
			_, _ = fmt.Fprintf(w, "property\t%s = %s\n", printable(k), printable(string(p.Properties[k])))
		}
		return w.Flush()
	})
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
			return a.lines(ctx, "warnings", q, func(line []byte) error { _, err := e.out.Write(line); return err })
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
