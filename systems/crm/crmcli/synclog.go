package crmcli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

type syncLogCmd struct {
	List syncLogListCmd `cmd:"" help:"List the sync log of CRM: what became of which event, by time of first receipt."`
	Show syncLogShowCmd `cmd:"" help:"Explain where one event is: sync log, job, dead letter, every attempt."`

	Handlers handlersCmd `cmd:"" help:"Show the handlers, and what they failed in the last 24 hours."`
}

type syncLogListCmd struct {
	command.Remote
	crmapi.SyncLogFilter
	Max *int `help:"How many to list; 0: all. Default: 100, and with --json all." short:"n" placeholder:"N"`
}

// Help is shown by tidemill synclog list --help.
func (c *syncLogListCmd) Help() string {
	return `An event is PROCESSING while a handler has it, then COMPLETED or FAILED. A FAILED event may still be tried again: tidemill synclog show says so. Of the kinds of failures, validation and skipped are not tried again, business becomes a dead letter at once, and all others after the last try.

  tidemill synclog list --since 24h --state failed
  tidemill synclog list --tenant club --type member.created --since 2026-01-31 --until 2026-01-31
  tidemill synclog list --json | jq .error`
}

func (c *syncLogListCmd) Run(ctx context.Context, e command.Env) (err error) {
	if c.SyncLogFilter.Max, err = command.Most(c.Max, c.JSON); err != nil {
		return err
	}
	t := command.Table{Head: "RECEIVED\tTENANT\tID\tTYPE\tSTATE\tATTEMPTS\tERROR", None: "No such events in the sync log."}
	err = command.List(ctx, e, c, crmapi.ListSyncLog, &c.SyncLogFilter, &t, func(r *crmapi.SyncRecord) []string {
		cause := r.Error
		if r.Kind != "" {
			cause = r.Kind + ": " + r.Error
		}
		return []string{r.Created.Format(time.RFC3339), command.Short(r.Tenant, 40), r.ID, command.Short(r.Type, 40), r.State, strconv.Itoa(r.Attempts), command.Short(cause, 80)}
	})
	return command.SayFirst(e, err, &t, c.Max, c.SyncLogFilter.Max)
}

type syncLogShowCmd struct {
	command.Remote
	crmapi.OneCRMEvent
	Payload bool `help:"Print only the event: byte for byte as received, into a file or another program."`
}

// Help is shown by tidemill synclog show --help.
func (c *syncLogShowCmd) Help() string {
	return `It reads the sync log, the queue and the dead letters, and says where the event is, why, and what you can do.

  tidemill synclog show club evt-1
  tidemill synclog show club evt-1 --payload >event.json`
}

func (c *syncLogShowCmd) Run(ctx context.Context, e command.Env) error {
	if c.Payload {
		return c.Ask(ctx, e, func(a *command.Client) error {
			s, err := crmapi.GetCRMEvent.Call(ctx, &a.Client, &c.OneCRMEvent)
			if err != nil {
				return err
			}
			text, base := crmPayload(&s)
			return command.PrintPayload(e, text, base)
		})
	}
	return command.Show(ctx, e, c, crmapi.GetCRMEvent, &c.OneCRMEvent, func(_ *command.Client, s *crmapi.CRMEvent) error { return printCRMEvent(e.Out, s) })
}

// crmPayload is the event as received, from whoever has it.
func crmPayload(s *crmapi.CRMEvent) (text, base string) {
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

// printCRMEvent explains an event to people.
func printCRMEvent(out io.Writer, s *crmapi.CRMEvent) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "event\t%s\ntenant\t%s\ntype\t%s\nreceived\t%s\n%s\t%s\n", command.Printable(s.ID), command.Printable(s.Tenant), command.Printable(s.Type), command.Stamp(s.Received), command.Printable(s.State), crmWords(s))
	if r := s.Record; r != nil {
		_, _ = fmt.Fprintf(w, "sync log\t%s, %s, first tried %s\n", r.State, command.Count(r.Attempts, "attempt", "attempts"), r.Created.Format(time.RFC3339))
	} else {
		_, _ = fmt.Fprintf(w, "sync log\tno entry: it was not tried yet, or the entry has expired\n")
	}
	if s.Job != nil {
		_, _ = fmt.Fprintf(w, "job\t%s\n", jobWords(s.Job))
	} else {
		_, _ = fmt.Fprintf(w, "job\tthe queue has none, or no longer\n")
	}
	for i := range s.Others {
		_, _ = fmt.Fprintf(w, "job\t%s: %s\n", command.Printable(s.Others[i].ID), jobWords(&s.Others[i]))
	}
	if l := s.Letter; l != nil {
		_, _ = fmt.Fprintf(w, "dead letter\t%d, %s, replayed %s\n", l.Seq, l.State, command.Count(l.Replays, "time", "times"))
	}
	for i, f := range s.Attempts {
		_, _ = fmt.Fprintf(w, "failed\t%d. %s  %s  %s\n", i+1, f.At.Format(time.RFC3339), f.Kind, command.Printable(f.Cause))
	}
	if r := s.Record; r != nil && r.Completed != nil {
		_, _ = fmt.Fprintf(w, "completed\t%s, begun %s\n", command.Stamp(r.Completed), command.Stamp(r.Started))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text, base := crmPayload(s)
	_, err := fmt.Fprintf(out, "\n%s\n", command.ShownPayload(text, base))
	return err
}

// jobWords say how a job stands.
func jobWords(j *api.Job) string {
	text := j.State
	if j.Fate != "" {
		text += ": " + j.Fate
	}
	text += ", priority " + strconv.Itoa(int(j.Priority))
	switch {
	case j.Due != nil:
		text += ", due " + command.Stamp(j.Due)
	case j.Ended != nil:
		text += ", ended " + command.Stamp(j.Ended)
	}
	return text
}

// crmWords say where the event is, and what can be done.
func crmWords(s *crmapi.CRMEvent) string {
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
		return "a handler has it now, or its worker died and the lease has not ended"
	case "retrying":
		text := command.Because("it failed, and is tried again", last)
		for _, j := range s.Others {
			if j.Due != nil {
				return text + "; due" + command.At(j.Due)
			}
		}
		if s.Job != nil && s.Job.Due != nil {
			return text + "; due" + command.At(s.Job.Due)
		}
		return text
	case "completed":
		return "its handler succeeded"
	case "skipped":
		if why == crm.NoHandler {
			why = "no handler handles events of this type: crm.handlers of the configuration names them"
		}
		return command.Because("there was nothing to do", why)
	case "failed":
		return command.Because("it is not tried again", last) + "\n\t  when its cause is gone: `tidemill replay start --tenant " + command.Printable(s.Tenant) + " --type " + command.Printable(s.Type) + " --from …`"
	case "dead":
		return command.Because("it was given up and is a dead letter", last) + "\n\t  `tidemill dead replay --pipeline crm-events --tenant " + command.Printable(s.Tenant) + " " + command.Printable(s.ID) + "` opens it again"
	}
	return command.Because("that is all that is known", last)
}

type handlersCmd struct{ command.Remote }

func (c *handlersCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, crmapi.GetHandlers, &operation.None{}, func(_ *command.Client, h *crmapi.Handlers) error {
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "HANDLER\tTYPES\tFAILED\tLAST\tERROR")
		for _, one := range h.Handlers {
			cause := one.Error
			if one.Kind != "" {
				cause = one.Kind + ": " + one.Error
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", command.Printable(one.Name), command.Printable(strings.Join(one.Types, ", ")), one.Failed, command.Stamp(one.Last), command.Printable(command.Short(cause, 80)))
		}
		if h.AtLeast {
			_, _ = fmt.Fprintf(w, "Of the newest %d events that failed.\n", h.Looked)
		}
		return w.Flush()
	})
}
