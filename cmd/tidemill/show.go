package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "TIME\tEVENT\tDISTINCT ID\tPERSON\tPROPERTIES")
		err := a.lines(ctx, "events", q, func(line []byte) error {
			var l eventLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Timestamp, printable(l.Name), printable(l.Distinct), l.Person, short(string(l.Props), 60))
			return err
		})
		if err != nil {
			return err
		}
		return w.Flush()
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
		_, _ = fmt.Fprintf(w, "person\t%s\nidentified\t%v\nfirst seen\t%s\nlast seen\t%s\n", p.ID, p.Identified, p.Created.Format(time.RFC3339), p.Updated.Format(time.RFC3339))
		for _, d := range p.Distinct {
			_, _ = fmt.Fprintf(w, "distinct id\t%s\n", printable(d))
		}
		for _, k := range sorted(p.Properties) {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", printable(k), printable(string(p.Properties[k])))
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
		return a.lines(ctx, "warnings", query("project", c.Project, "max", positive(c.Max)), func(line []byte) error {
			if c.JSON {
				_, err := e.out.Write(line)
				return err
			}
			var w struct {
				Type, Reason string
				Timestamp    time.Time
			}
			if err := json.Unmarshal(line, &w); err != nil {
				return err
			}
			_, err := fmt.Fprintf(e.out, "%s  %s  %s\n", w.Timestamp.Format(time.RFC3339), w.Type, printable(w.Reason))
			return err
		})
	})
}

// query makes URL values of pairs, leaving out empty ones.
func query(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// printable shows text from outside without letting it steer the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

func short(s string, n int) string {
	s = printable(s)
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
