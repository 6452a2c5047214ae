package deliverycli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
)

type partnerCmd struct {
	List  partnerListCmd  `cmd:"" help:"List the partners, their circuits and their success."`
	Open  partnerOpenCmd  `cmd:"" help:"Send nothing to a partner for a while: open its circuit."`
	Close partnerCloseCmd `cmd:"" help:"Send to a partner again at once: close its circuit."`

	Show partnerShowCmd `cmd:"" help:"Show one partner: what it is sent, its credentials, its last failures."`
	Try  partnerTryCmd  `cmd:"" help:"Show the request that an event would make; nothing is sent."`
	Test partnerTestCmd `cmd:"" help:"Send an event to a partner at once, and show its answer."`

	Add    partnerAddCmd    `cmd:"" help:"Make a partner, in the database of the instances."`
	Change partnerChangeCmd `cmd:"" help:"Change a partner that the database describes."`
	Off    partnerOffCmd    `cmd:"" help:"Switch a partner off: nothing is sent to it, nor queued for it, until it is closed."`
	Remove partnerRemoveCmd `cmd:"" help:"Remove a partner that the database describes. When it answers, nothing is sent to it any more."`

	Listen partnerListenCmd `cmd:"" help:"Be a test partner: print the requests."`
}

// partnerQueue says how many jobs wait.
func partnerQueue(p *deliveryapi.Partner) string {
	text := command.Whole(p.Depth)
	if p.Full {
		text += " full"
	}
	if p.Parked > 0 {
		text += ", " + command.Whole(p.Parked) + " parked"
	}
	return text
}

// partnerStands says in words whether it gets anything.
func partnerStands(p *deliveryapi.Partner) string {
	if p.Off != nil {
		return "switched off at " + p.Off.Format(time.RFC3339)
	}
	text := p.Circuit
	switch {
	case p.Until == nil:
	case p.Circuit == "open":
		text = "open until " + p.Until.Format(time.RFC3339)
	default:
		text += ", asked for less until " + p.Until.Format(time.RFC3339)
	}
	if p.Paused {
		text += ", paused"
	}
	return text
}

type partnerListCmd struct{ command.Remote }

// Help is shown by tidemill partner list --help.
func (c *partnerListCmd) Help() string {
	return `SUCCESS, P50 and P99 are of the requests of the last five minutes. While a CIRCUIT is closed, requests are sent. While it is open, the partner's jobs wait, and no try is counted. They also wait after the partner asked for less (429) five times in a row, for as long as it said. A full QUEUE parks, drops or gives up events, as the partner's queue.full says. A partner that failed for too long is switched off until tidemill partner close.`
}

func (c *partnerListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "PARTNER\tCIRCUIT\tSUCCESS\tP50\tP99\tQUEUE\tDEAD\tLAST SUCCESS\tLAST ERROR", None: "No partners."}
	return command.List(ctx, e, c, deliveryapi.ListPartners, &operation.None{}, &t, func(p *deliveryapi.Partner) []string {
		success, wrong := "-", ""
		if p.Success != nil {
			success = strconv.FormatFloat(100**p.Success, 'f', 1, 64) + "%"
		}
		if p.LastError != nil {
			wrong = command.Short(*p.LastError, 60)
		}
		return []string{p.Partner, partnerStands(p), success, latency(p.P50), latency(p.P99), partnerQueue(p), strconv.Itoa(p.Dead), command.Stamp(p.LastSuccess), wrong}
	})
}

func latency(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return strconv.FormatFloat(*ms, 'f', 0, 64) + "ms"
}

// moveCircuit opens or closes a circuit of a running instance.
func moveCircuit[Q any](ctx context.Context, e command.Env, c command.Asker, by operation.Operation[Q, deliveryapi.Partner], q *Q) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		if !a.Live {
			return fmt.Errorf("no instance runs whose circuit could be changed: start one with `tidemill run`")
		}
		_, err := command.Shown(ctx, e, c, a, by, q, func(p *deliveryapi.Partner) error {
			_, err := fmt.Fprintf(e.Out, "The circuit of %s is %s; %s.\n", command.Printable(p.Partner), partnerStands(p), command.Count(int(p.Depth), "job is in its queue", "jobs are in its queue"))
			return err
		})
		return err
	})
}

type partnerOpenCmd struct {
	command.Remote
	deliveryapi.OnePartner
	For time.Duration `help:"For how long. Default: a minute." placeholder:"TIME"`
}

// Help is shown by tidemill partner open --help.
func (c *partnerOpenCmd) Help() string {
	return `The partner's jobs wait in their queue, and no try is counted; no other partner is delayed. After that time one try decides whether the circuit closes.

  tidemill partner open dv360 --for 2h
  tidemill partner close dv360

To stop a partner until further notice, pause its queue: tidemill queue pause s2s.dv360.`
}

func (c *partnerOpenCmd) Run(ctx context.Context, e command.Env) error {
	if c.For < 0 {
		return command.UsageError{Err: errors.New("--for needs a time, like 10m")}
	}
	q := deliveryapi.CircuitOpening{OnePartner: c.OnePartner}
	if c.For > 0 {
		q.For = c.For.String()
	}
	return moveCircuit(ctx, e, c, deliveryapi.OpenCircuit, &q)
}

type partnerCloseCmd struct {
	command.Remote
	deliveryapi.OnePartner
}

// Help is shown by tidemill partner close --help.
func (c *partnerCloseCmd) Help() string {
	return `If the partner still fails, its circuit opens again by itself. A partner that was switched off is switched on again.`
}

func (c *partnerCloseCmd) Run(ctx context.Context, e command.Env) error {
	return moveCircuit(ctx, e, c, deliveryapi.CloseCircuit, &c.OnePartner)
}
