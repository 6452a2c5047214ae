package deliverycli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
)

type partnerShowCmd struct {
	command.Remote
	deliveryapi.OnePartner
}

func (c *partnerShowCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, deliveryapi.GetPartner, &c.OnePartner, func(_ *command.Client, p *deliveryapi.OnePartnerStatus) error {
		_, _ = fmt.Fprintf(e.Out, "%s: %s; %s\nfrom         %s\nendpoint     %s\ncredentials  %s%s\n", command.Printable(p.Partner), partnerStands(&p.Standing), command.Count(int(p.Depth), "job is in its queue", "jobs are in its queue"),
			command.Printable(p.From), command.Printable(p.Endpoint), cmp.Or(p.Auth, "none"), map[bool]string{true: ", " + p.Credentials}[p.Credentials != "none"])
		for _, f := range p.Mapping {
			_, _ = fmt.Fprintf(e.Out, "field        %s = %s\n", command.Printable(f.Field), command.Printable(f.Value))
		}
		for _, f := range p.Failures {
			_, _ = fmt.Fprintf(e.Out, "failed       %s: %s, %s\n", f.At.Format(time.RFC3339), f.Kind, command.Printable(f.Cause))
		}
		return nil
	})
}

// trial is an event for a partner, of a file or the standard input.
type trial struct {
	command.Remote
	deliveryapi.OnePartner
	File string `arg:"" optional:"" default:"-" help:"A file with one event as JSON. Default: the standard input."`
	Site string `help:"The site that the event is of. Default: its siteId." placeholder:"ID"`
}

// maxEvent is how many bytes are read of an event.
const maxEvent = 1 << 20

func (c *trial) run(ctx context.Context, e command.Env, by operation.Operation[deliveryapi.PartnerTrial, deliveryapi.TriedMapping]) error {
	in := e.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was read only
		in = f
	}
	event, err := io.ReadAll(io.LimitReader(in, maxEvent))
	if err != nil {
		return err
	}
	return command.Show(ctx, e, c, by, &deliveryapi.PartnerTrial{OnePartner: c.OnePartner, Site: c.Site, Body: event}, func(_ *command.Client, t *deliveryapi.TriedMapping) error {
		return printTrial(e.Out, t)
	})
}

func printTrial(out io.Writer, t *deliveryapi.TriedMapping) error {
	if !t.Takes {
		_, _ = fmt.Fprintf(out, "The event would not go to %s: %s.\n", command.Printable(t.Partner), command.Printable(t.Why))
	}
	if t.Invalid != "" {
		return fmt.Errorf("the mapping refuses the event: %s", command.Printable(t.Invalid))
	}
	r := t.Request
	_, _ = fmt.Fprintf(out, "%s %s\n", r.Method, command.Printable(r.URL))
	for _, h := range r.Headers {
		_, _ = fmt.Fprintf(out, "%s: %s\n", command.Printable(h.Name), command.Printable(h.Value))
	}
	if r.Signed {
		_, _ = fmt.Fprintln(out, "(and credentials)")
	}
	_, err := fmt.Fprintf(out, "\n%s\n", command.Printable(cmp.Or(r.Body, r.BodyBase64)))
	s := t.Sent
	if s == nil || err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nanswered %d in %.0f ms\n%s\n", s.Status, 1000*s.Took, command.Printable(cmp.Or(s.Answer, s.AnswerBase64)))
	if !s.Delivered {
		return fmt.Errorf("not delivered: %s, %s", s.Kind, command.Printable(s.Cause))
	}
	return nil
}

type partnerTryCmd struct{ trial }

// Help is shown by tidemill partner try --help.
func (c *partnerTryCmd) Help() string {
	return `Nothing is sent, and nothing is kept. What may be a secret is masked.

  tidemill partner try dv360 event.json`
}

func (c *partnerTryCmd) Run(ctx context.Context, e command.Env) error {
	return c.run(ctx, e, deliveryapi.TryMapping)
}

type partnerTestCmd struct{ trial }

// Help is shown by tidemill partner test --help.
func (c *partnerTestCmd) Help() string {
	return `One request is sent, beside the partner's queue, its circuit and the books. The partner has the event then: send nothing that must not count there.

  tidemill partner test dv360 event.json`
}

func (c *partnerTestCmd) Run(ctx context.Context, e command.Env) error {
	return c.run(ctx, e, deliveryapi.TestPartner)
}
