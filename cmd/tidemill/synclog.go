package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/systems/crm"
)

type syncLogCmd struct {
	List syncLogListCmd `cmd:"" help:"List the sync log of CRM: what became of which event, by time of first receipt."`
	Show syncLogShowCmd `cmd:"" help:"Explain where one event is: sync log, job, dead letter, every attempt."`
}

type syncLogListCmd struct {
	remote
	span
	Tenant string `help:"Only events of this tenant." placeholder:"ID"`
	Type   string `help:"Only events of this type." placeholder:"TYPE"`
	State  string `help:"Only events of this state: processing, completed or failed." enum:",processing,completed,failed" default:"" placeholder:"STATE"`
	Max    *int   `help:"At most so many, the oldest first; 0: all. Default: 100, and with --json all." short:"n" placeholder:"N"`
}

// Help is shown by tidemill synclog list --help.
func (c *syncLogListCmd) Help() string {
	return `An event is PROCESSING while a handler has it, then COMPLETED or FAILED. FAILED ones may still be tried again: tidemill synclog show says it. Kinds of failures: validation and skipped are not tried again, business is a dead letter at once, all others after the last try.

  tidemill synclog list --since 24h --state failed
  tidemill synclog list --tenant club --type member.created --since 2026-01-31 --until 2026-01-31
  tidemill synclog list --json | jq .error`
}

// recordLine is an entry of the sync log as the API writes it.
type recordLine struct {
	Tenant, ID, Type, State, Kind, Error string
	Attempts                             int
	Created                              time.Time  `json:"created_at"`
	Started                              *time.Time `json:"started_at"`
	Completed                            *time.Time `json:"completed_at"`
	Failed                               *time.Time `json:"failed_at"`
	Payload                              string
	PayloadBase64                        string `json:"payload_base64"`
}

// cause is a failure in words.
func (r *recordLine) cause() string {
	if r.Kind == "" {
		return r.Error
	}
	return r.Kind + ": " + r.Error
}

func (c *syncLogListCmd) Run(ctx context.Context, e env) error {
	most := 100
	switch {
	case c.Max != nil && *c.Max < 0:
		return usageError{fmt.Errorf("-n wants a number of events, or 0 for all, not %d", *c.Max)}
	case c.Max != nil:
		most = *c.Max
	case c.JSON:
		most = 0
	}
	q := query("since", c.since(), "until", c.until(), "tenant", c.Tenant, "type", c.Type, "state", c.State, "max", positive(most))
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "crm/log", q, lineTo(e.out))
		}
		t := table{out: e.out, head: "RECEIVED\tTENANT\tID\tTYPE\tSTATE\tATTEMPTS\tERROR", none: "No such events in the sync log."}
		err := a.lines(ctx, "crm/log", q, func(line []byte) error {
			var r recordLine
			if err := json.Unmarshal(line, &r); err != nil {
				return err
			}
			return t.row(r.Created.Format(time.RFC3339), short(r.Tenant, 40), r.ID, short(r.Type, 40), r.State, strconv.Itoa(r.Attempts), short(r.cause(), 80))
		})
		if err = t.end(err); err == nil && most > 0 && t.rows == most && c.Max == nil {
			_, _ = fmt.Fprintf(e.err, "These are the first %d; there may be more: -n says how many, -n 0 shows all.\n", most)
		}
		return err
	})
}

type syncLogShowCmd struct {
	remote
	Tenant  string `arg:"" help:"The event's tenant."`
	Event   string `arg:"" name:"id" help:"The event's id."`
	Payload bool   `help:"Print the event alone: byte for byte as received, into a file or another program."`
}

// Help is shown by tidemill synclog show --help.
func (c *syncLogShowCmd) Help() string {
	return `It looks into the sync log, the queue and the dead letters, and says why the event is where it is and what can be done.

  tidemill synclog show club evt-1
  tidemill synclog show club evt-1 --payload >event.json`
}

// explainedLine is where an event is, as the API writes it.
type explainedLine struct {
	Tenant, ID, Type, State string
	Received                *time.Time    `json:"received_at"`
	Attempts                []attemptLine `json:"failed_attempts"`
	Record                  *recordLine
	Job                     *jobLine
	Others                  []jobLine `json:"other_jobs"`
	Letter                  *wholeLetter
}

func (c *syncLogShowCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var raw json.RawMessage
		if err := a.get(ctx, "crm/events", query("tenant", c.Tenant, "id", c.Event), &raw); err != nil {
			return err
		}
		var s explainedLine
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		switch {
		case c.Payload:
			text, base := s.payload()
			return printPayload(e, text, base)
		case c.JSON:
			return printJSON(e.out, raw)
		}
		return s.print(e.out)
	})
}

// payload is the event as received, from whoever has it.
func (s *explainedLine) payload() (text, base string) {
	switch {
	case s.Record != nil:
		return s.Record.Payload, s.Record.PayloadBase64
	case s.Job != nil:
		return s.Job.Payload, s.Job.PayloadBase64
	case s.Letter != nil && s.Letter.Edited != nil:
		return s.Letter.Original, s.Letter.OriginalBase64
	case s.Letter != nil:
		return s.Letter.Payload, s.Letter.PayloadBase64
	}
	return "", ""
}

// print explains an event to people.
func (s *explainedLine) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "event\t%s\ntenant\t%s\ntype\t%s\nreceived\t%s\n%s\t%s\n", printable(s.ID), printable(s.Tenant), printable(s.Type), stamp(s.Received), printable(s.State), s.words())
	if r := s.Record; r != nil {
		_, _ = fmt.Fprintf(w, "sync log\t%s, %s, first taken up %s\n", r.State, count(r.Attempts, "attempt", "attempts"), r.Created.Format(time.RFC3339))
	} else {
		_, _ = fmt.Fprintf(w, "sync log\tnothing: it was not taken up so far, or that is forgotten\n")
	}
	if s.Job != nil {
		_, _ = fmt.Fprintf(w, "job\t%s\n", s.Job.words())
	} else {
		_, _ = fmt.Fprintf(w, "job\tthe queue has none, or not any more\n")
	}
	for i := range s.Others {
		_, _ = fmt.Fprintf(w, "job\t%s: %s\n", printable(s.Others[i].ID), s.Others[i].words())
	}
	if l := s.Letter; l != nil {
		_, _ = fmt.Fprintf(w, "dead letter\t%d, %s, replayed %s\n", l.Seq, l.State, count(l.Replays, "time", "times"))
	}
	for i, f := range s.Attempts {
		_, _ = fmt.Fprintf(w, "failed\t%d. %s  %s  %s\n", i+1, f.At.Format(time.RFC3339), f.Kind, printable(f.Cause))
	}
	if r := s.Record; r != nil && r.Completed != nil {
		_, _ = fmt.Fprintf(w, "completed\t%s, begun %s\n", stamp(r.Completed), stamp(r.Started))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text, base := s.payload()
	_, err := fmt.Fprintf(out, "\n%s\n", shownPayload(text, base))
	return err
}

// words say how a job stands.
func (j *jobLine) words() string {
	text := j.State
	if j.Fate != "" {
		text += ": " + j.Fate
	}
	text += ", priority " + strconv.Itoa(j.Priority)
	switch {
	case j.Due != nil:
		text += ", due " + stamp(j.Due)
	case j.Ended != nil:
		text += ", ended " + stamp(j.Ended)
	}
	return text
}

// words say where the event is, and what can be done.
func (s *explainedLine) words() string {
	var last string
	if n := len(s.Attempts); n > 0 {
		last = s.Attempts[n-1].Kind + ": " + s.Attempts[n-1].Cause
	}
	why := ""
	if s.Record != nil {
		why = s.Record.Error
	}
	switch s.State {
	case "queued":
		return "it waits in crm-events for its turn; `tidemill queue stats crm-events` shows what holds it up"
	case "processing":
		return "a handler has it just now, or its worker died and its lease is not over"
	case "retrying":
		text := because("it failed, and is tried again", last)
		for _, j := range append(s.Others[:len(s.Others):len(s.Others)], s.jobs()...) {
			if j.Due != nil {
				return text + "; due" + at(j.Due)
			}
		}
		return text
	case "completed":
		return "its handler has taken it"
	case "skipped":
		if why == crm.NoHandler {
			why = "no handler is for events of this type: crm.handlers of the configuration names them"
		}
		return because("nothing was to be done with it", why)
	case "failed":
		return because("it is not tried again", last) + "\n\t  when its cause is gone: `tidemill replay start --tenant " + printable(s.Tenant) + " --type " + printable(s.Type) + " --from …`"
	case "dead":
		return because("it was given up and is a dead letter", last) + "\n\t  `tidemill dead replay --pipeline crm-events --tenant " + printable(s.Tenant) + " " + printable(s.ID) + "` opens it again"
	}
	return because("that is all that is known", last)
}

// jobs are those of the event's own, if it is known.
func (s *explainedLine) jobs() []jobLine {
	if s.Job == nil {
		return nil
	}
	return []jobLine{*s.Job}
}
