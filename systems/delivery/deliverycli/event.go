package deliverycli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
)

type eventCmd struct {
	Send eventSendCmd `cmd:"" help:"Send events to be delivered to partners."`
	Show eventShowCmd `cmd:"" help:"Explain where an event is, why it waits, and what became of it at each partner."`
}

type eventSendCmd struct {
	command.Remote
	command.EventsIn
}

// Help is shown by tidemill event send --help.
func (c *eventSendCmd) Help() string {
	return `An event has a type, a time and a site; docs/delivery.md lists its other fields:

  {"eventType": "purchase", "timestamp": "2026-01-15T10:00:00Z", "siteId": "shop", "eventId": "5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01", "orderId": "o-1", "value": 39.90, "currency": "EUR", "items": [{"id": "lamp", "name": "Lamp", "quantity": 1, "price": 39.90}]}

  tidemill event send events.ndjson
  producer | tidemill event send

Events counted as accepted are durable. The same events can be sent again without harm: known ones are duplicates and change nothing. A rejected event does not stop the others; the exit status is then 1.`
}

func (c *eventSendCmd) Run(ctx context.Context, e command.Env) error {
	return c.Send(ctx, e, &c.Remote, deliveryapi.SendDelivery)
}

type eventShowCmd struct {
	command.Remote
	Event string `arg:"" name:"id" help:"The event's id, as in the answer to its sender."`
	Site  string `help:"The site it came from. Default: every site is searched." placeholder:"ID"`
}

// Help is shown by tidemill event show --help.
func (c *eventShowCmd) Help() string {
	return `An event that has ended is known as long as its queue keeps it, or as long as it has a dead letter.

  tidemill event show 5f0f2a1c-53b5-4a6c-9c3b-1d6a5f6d0009 --site shop`
}

func (c *eventShowCmd) Run(ctx context.Context, e command.Env) error {
	id := deliveryapi.DeliveryID{ID: c.Event}
	print := func(_ *command.Client, d *deliveryapi.Delivery) error { return printDelivery(e.Out, d) }
	if c.Site == "" {
		return command.Show(ctx, e, c, deliveryapi.FindDelivery, &id, print)
	}
	return command.Show(ctx, e, c, deliveryapi.GetDelivery, &deliveryapi.DeliveryOf{Site: c.Site, DeliveryID: id}, print)
}

// printDelivery explains an event to people.
func printDelivery(out io.Writer, s *deliveryapi.Delivery) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "event\t%s\nsite\t%s\n", command.Printable(s.ID), command.Printable(s.Site))
	if s.Type != "" {
		_, _ = fmt.Fprintf(w, "type\t%s\n", command.Printable(s.Type))
	}
	if s.Received != nil {
		_, _ = fmt.Fprintf(w, "received\t%s\n", s.Received.Format(time.RFC3339))
	}
	_, _ = fmt.Fprintf(w, "%s\t%s\n", command.Printable(s.State), deliveryWords(s))
	if len(s.Partners) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	for _, p := range s.Partners {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", command.Printable(p.Partner), fateWords(&p, s.ID))
		for i, f := range p.Attempts {
			try := "a try"
			if len(p.Attempts) == p.Tries { // else some are not known
				try = fmt.Sprintf("try %d", i+1)
			}
			_, _ = fmt.Fprintf(w, "\t  %s failed %s: %s, %s\n", try, f.At.Format(time.RFC3339), f.Kind, command.Printable(f.Cause))
		}
	}
	return w.Flush()
}

// skips are why an event goes to nobody, in words.
var skips = map[string]string{
	"no_route": "no partner's route matches it (no_route)",
	"consent":  "there is no consent to pass it on (consent)",
}

func skipped(why string) string {
	if text, ok := skips[why]; ok {
		return text
	}
	if why == "" {
		return "no reason is known"
	}
	return command.Printable(why)
}

// deliveryWords say where the event is.
func deliveryWords(s *deliveryapi.Delivery) string {
	switch s.State {
	case delivery.StateQueued:
		return command.Because(fmt.Sprintf("it waits in %s to be routed to partners", command.Printable(s.Queue)), s.Why)
	case delivery.StateDelivering:
		n := 0
		for _, p := range s.Partners {
			if p.State == delivery.StateWaiting || p.State == delivery.StateDelayed || p.State == delivery.StateSending {
				n++
			}
		}
		return command.Because(fmt.Sprintf("it was routed to %s; %s not have it yet", command.Count(len(s.Partners), "partner", "partners"), command.Count(n, "does", "do")), s.Why)
	case delivery.StateDone:
		if len(s.Partners) == 0 {
			return "nothing is left to do; what became of it at its partners is no longer known"
		}
		return "nothing is left to do"
	case delivery.StateSkipped:
		return "it went to no partner, on purpose: " + skipped(s.Why)
	case delivery.StateSettled:
		return command.Because("settled by hand", s.Why)
	case delivery.StateDead:
		return command.Because("it could not be routed and is a dead letter", s.Why) + "\n\t  `tidemill dead show " + command.Printable(s.ID) + "`"
	}
	return command.Because("that is all that is known", s.Why)
}

// fateWords say how the delivery of an event to a partner stands.
func fateWords(p *deliveryapi.PartnerDelivery, event string) string {
	letter := "\n\t  `tidemill dead show " + command.Printable(delivery.JobOf(event, p.Partner)) + "`"
	switch p.State {
	case delivery.StateWaiting:
		return command.Because("it waits", p.Why)
	case delivery.StateDelayed:
		text, due := command.Because("it waits", p.Why), command.At(p.Next)
		if !strings.Contains(text, due) {
			text += "; its time is" + due
		}
		return text
	case delivery.StateSending:
		return command.Because("it is being sent now", p.Why)
	case delivery.StateDelivered:
		return command.Because("delivered"+command.At(p.Ended)+afterTries(p.Tries), p.Why)
	case delivery.StateSkipped:
		return "not sent, on purpose: " + skipped(p.Why)
	case delivery.StateDead:
		return command.Because("given up"+command.At(p.Ended)+afterTries(p.Tries), p.Why) + letter
	case delivery.StateHeld:
		return command.Because("it may have arrived, and the partner would count it twice: you decide", p.Why) + letter
	case delivery.StateSettled:
		return command.Because("settled by hand", p.Why)
	}
	return command.Because(command.Printable(p.State), p.Why)
}

// afterTries says how many tries failed.
func afterTries(n int) string {
	if n == 0 {
		return ""
	}
	return " after " + command.Count(n, "failed try", "failed tries")
}
