package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

type deadCmd struct {
	List   deadListCmd   `cmd:"" help:"List dead letters, the oldest first."`
	Show   deadShowCmd   `cmd:"" help:"Show one dead letter: payload as received, every failure."`
	Edit   deadEditCmd   `cmd:"" help:"Replace the payload of a dead letter; the original stays beside it."`
	Replay deadReplayCmd `cmd:"" help:"Send dead letters the whole way again."`
	Delete deadDeleteCmd `cmd:"" help:"Discard dead letters. They are counted as discarded."`
	Export deadExportCmd `cmd:"" help:"Print dead letters as JSON for other programs, one a line."`
}

// which chooses dead letters.
type which struct {
	span
	Pipeline string   `help:"Only letters of this pipeline." placeholder:"NAME"`
	Partner  string   `help:"Only what this partner did not take." placeholder:"NAME"`
	Project  string   `help:"Only letters of this project." placeholder:"NAME"`
	Site     string   `help:"Only letters of this site." placeholder:"ID"`
	Tenant   string   `help:"Only letters of this tenant of CRM." placeholder:"ID"`
	Reason   []string `help:"Only these reasons: validation, timeout, rate_limit, partner_error, unknown." placeholder:"REASON"`
	Kind     []string `help:"Only failures of these kinds, which say it more exactly: validation, transient, timeout, internal, unknown…" placeholder:"KIND"`
	System   string   `help:"Only letters of this system; needed where two keep theirs apart and have the same numbers." placeholder:"NAME"`
	Seq      []int64  `help:"Only the letters of these numbers." placeholder:"N"`
	Max      int      `help:"At most so many." short:"n"`
}

func (w *which) query(ids []string) url.Values {
	q := query("system", w.System, "pipeline", w.Pipeline, "partner", w.Partner, "project", w.Project, "site", w.Site, "tenant", w.Tenant,
		"since", w.since(), "until", w.until(), "max", positive(w.Max))
	if len(w.Kind) > 0 {
		q["kind"] = w.Kind
	}
	if len(w.Reason) > 0 {
		q["reason"] = w.Reason
	}
	for _, n := range w.Seq {
		q.Add("seq", strconv.FormatInt(n, 10))
	}
	if len(ids) > 0 {
		q["id"] = ids
	}
	return q
}

// letterLine is a dead letter as the API writes it.
type letterLine struct {
	Seq      int64     `json:"seq"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Pipeline string    `json:"pipeline"`
	Project  string    `json:"project_id"`
	Site     string    `json:"site"`
	Tenant   string    `json:"tenant"`
	State    string    `json:"state"`
	Reason   string    `json:"reason"`
	Kind     string    `json:"kind"`
	Cause    string    `json:"cause"`
	Replays  int       `json:"replays"`
	Last     time.Time `json:"last_failed_at"`
}

type deadListCmd struct {
	remote
	which
	State string `help:"Only letters that are held, or that are being replayed." enum:",held,replaying" default:"" placeholder:"held|replaying"`
}

// Help is shown by tidemill dead list --help.
func (c *deadListCmd) Help() string {
	return `Filters can be combined; a letter is listed that matches all of them.

  tidemill dead list --partner dv360 --reason timeout
  tidemill dead list --site shop --since 24h
  tidemill dead list --json | jq .payload`
}

func (c *deadListCmd) Run(ctx context.Context, e env) error {
	q := c.query(nil)
	if c.State != "" {
		q.Set("state", c.State)
	}
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "dead", q, lineTo(e.out))
		}
		t := table{out: e.out, head: "ID\tDIED\tKIND\tSTATE\tREPLAYS\tEVENT\tCAUSE", none: "No dead letters."}
		err := a.lines(ctx, "dead", q, func(line []byte) error {
			var l letterLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			return t.row(l.ID, l.Last.Format(time.RFC3339), l.Kind, l.State, strconv.Itoa(l.Replays), short(l.Type, 30), short(l.Cause, 80))
		})
		return t.end(err)
	})
}

// fieldLine is a header of a message as the API writes it.
type fieldLine struct {
	Name, Value string
	ValueBase64 string `json:"value_base64"`
}

// attemptLine is a failed try as the API writes it.
type attemptLine struct {
	At          time.Time
	Kind, Cause string
}

// wholeLetter is what the API says of one letter.
type wholeLetter struct {
	letterLine
	Payload        string
	PayloadBase64  string     `json:"payload_base64"`
	Edited         *time.Time `json:"edited_at"`
	Original       string     `json:"original_payload"`
	OriginalBase64 string     `json:"original_payload_base64"`
	Damaged        string
	Fields         []fieldLine
	Attempts       []attemptLine
	History        []struct {
		attemptLine
		Tries int
	}
	Row json.RawMessage
}

type deadShowCmd struct {
	remote
	Letter   string `arg:"" name:"id" help:"Its message's id, as dead list shows it, or its number."`
	Pipeline string `help:"The pipeline that it died in; needed where letters of two have that id." placeholder:"NAME"`
	System   string `help:"The system that it is of; needed where two have a letter of that number." placeholder:"NAME"`
	Payload  bool   `help:"Print the payload alone: byte for byte, into a file or another program."`
	Original bool   `help:"Print the payload as it was received alone, of a letter that was edited."`
}

// Help is shown by tidemill dead show --help.
func (c *deadShowCmd) Help() string {
	return `It shows why the letter died each time, the tries before, and what its destination answered.

  tidemill dead show 17
  tidemill dead show 17 --payload >event.json`
}

func (c *deadShowCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var whole json.RawMessage
		if err := a.get(ctx, "dead/"+url.PathEscape(c.Letter), query("system", c.System, "pipeline", c.Pipeline), &whole); err != nil {
			return err
		}
		var l wholeLetter
		if err := json.Unmarshal(whole, &l); err != nil {
			return err
		}
		switch {
		case c.Original && l.Edited != nil:
			return printPayload(e, l.Original, l.OriginalBase64)
		case c.Original || c.Payload:
			return printPayload(e, l.Payload, l.PayloadBase64)
		case c.JSON:
			return printJSON(e.out, whole)
		}
		return l.print(e.out)
	})
}

// print shows a letter to people.
func (l *wholeLetter) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "letter\t%d, %s\nmessage\t%s\npipeline\t%s\n", l.Seq, l.State, printable(l.ID), printable(l.Pipeline))
	switch {
	case l.Site != "":
		_, _ = fmt.Fprintf(w, "site\t%s\n", printable(l.Site))
	case l.Tenant != "":
		_, _ = fmt.Fprintf(w, "tenant\t%s\n", printable(l.Tenant))
	case l.Project != "":
		_, _ = fmt.Fprintf(w, "project\t%s\n", printable(l.Project))
	}
	_, _ = fmt.Fprintf(w, "event\t%s\nreason\t%s\nreplays\t%d\n", printable(l.Type), l.Reason, l.Replays)
	for _, f := range l.Attempts {
		_, _ = fmt.Fprintf(w, "tried\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, printable(f.Cause))
	}
	for _, f := range l.History {
		_, _ = fmt.Fprintf(w, "failed\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, printable(f.Cause))
	}
	if l.Damaged != "" {
		_, _ = fmt.Fprintf(w, "damaged\t%s\n", printable(l.Damaged))
	}
	var answer struct {
		Status int
		Body   string
	}
	if json.Unmarshal(l.Row, &answer) == nil && answer.Status > 0 {
		_, _ = fmt.Fprintf(w, "answer\t%d %s\n", answer.Status, strings.ReplaceAll(printableLines(answer.Body), "\n", "\n\t"))
	}
	if l.Edited != nil {
		_, _ = fmt.Fprintf(w, "edited\t%s\n", l.Edited.Format(time.RFC3339))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printFields(out, l.Fields); err != nil {
		return err
	}
	if l.Edited != nil {
		if _, err := fmt.Fprintf(out, "\nas received:\n%s\n\nas edited:", shownPayload(l.Original, l.OriginalBase64)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", shownPayload(l.Payload, l.PayloadBase64))
	return err
}

func printFields(out io.Writer, fields []fieldLine) error {
	for _, f := range fields {
		if _, err := fmt.Fprintf(out, "  %s = %s\n", printable(f.Name), shownPayload(f.Value, f.ValueBase64)); err != nil {
			return err
		}
	}
	return nil
}

// shownPayload is a payload as people see it, in base64 where it is no text.
func shownPayload(text, base string) string {
	if text == "" && base != "" {
		return "(base64) " + base
	}
	return printable(text)
}

// printPayload writes a payload byte for byte, but to a terminal without steering it.
func printPayload(e env, text, base string) error {
	b := []byte(text)
	if text == "" && base != "" {
		var err error
		if b, err = base64.StdEncoding.DecodeString(base); err != nil {
			return err
		}
	}
	if terminal(e.out) {
		_, err := fmt.Fprintln(e.out, shownPayload(text, base))
		return err
	}
	_, err := asBytes(e.out).Write(b)
	return err
}

type deadExportCmd struct {
	remote
	which
	IDs []string `arg:"" optional:"" name:"id" help:"Message ids of the letters. Default: all that the filters choose."`
}

// Help is shown by tidemill dead export --help.
func (c *deadExportCmd) Help() string {
	return `Each line is one letter: originalPayload (text, byte for byte as received), error, attempts, firstFailure, lastFailure, queue, reason (validation, timeout, partner_error, rate_limit, unknown); id, kind, partner, site, response {status, body}, and editedPayload where it was edited.

  tidemill dead export >letters.ndjson
  tidemill dead export --partner dv360 --reason timeout | jq -r .originalPayload`
}

func (c *deadExportCmd) Run(ctx context.Context, e env) error {
	q := c.query(c.IDs)
	q.Set("format", "export")
	return c.ask(ctx, e, func(a *client) error {
		return a.lines(ctx, "dead", q, lineTo(e.out))
	})
}
