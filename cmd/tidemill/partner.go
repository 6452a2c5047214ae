package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

type partnerCmd struct {
	List  partnerListCmd  `cmd:"" help:"List the partners and how each stands."`
	Open  partnerOpenCmd  `cmd:"" help:"Leave a partner alone for a while: open its circuit."`
	Close partnerCloseCmd `cmd:"" help:"Let a partner's jobs go on at once: close its circuit."`

	Listen partnerListenCmd `cmd:"" help:"Be a partner yourself: print what is sent, to try things out."`
}

// partnerLine is how a partner stands, as the API writes it.
type partnerLine struct {
	Partner     string
	Circuit     string     `json:"circuitState"`
	Success     *float64   `json:"successRate"`
	P50         *float64   `json:"latencyP50"`
	P99         *float64   `json:"latencyP99"`
	Depth       int64      `json:"queueDepth"`
	LastError   *string    `json:"lastError"`
	LastSuccess *time.Time `json:"lastSuccessAt"`
	Until       *time.Time `json:"openUntil"`
	Why         string     `json:"openReason"`
	Paused      bool
	Dead        int        `json:"deadLetters"`
	Full        bool       `json:"queueFull"`
	Parked      int64      `json:"parkedJobs"`
	Off         *time.Time `json:"switchedOffAt"`
}

// queue says how many jobs wait.
func (p *partnerLine) queue() string {
	text := whole(p.Depth)
	if p.Full {
		text += " full"
	}
	if p.Parked > 0 {
		text += ", " + whole(p.Parked) + " parked"
	}
	return text
}

// stands says in words whether it gets anything.
func (p *partnerLine) stands() string {
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

type partnerListCmd struct{ remote }

// Help is shown by tidemill partner list --help.
func (c *partnerListCmd) Help() string {
	return `SUCCESS, P50 and P99 are of the requests of the last five minutes. A closed CIRCUIT is the good one: requests go. While it is open the partner's jobs wait, and lose no try. They wait too when it has asked for less (429) five times in a row, for as long as it said. A QUEUE that is full parks, drops or gives up events as the partner's queue.full says. A partner that failed for too long is switched off, until tidemill partner close.`
}

func (c *partnerListCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "partners", nil, lineTo(e.out))
		}
		t := table{out: e.out, head: "PARTNER\tCIRCUIT\tSUCCESS\tP50\tP99\tQUEUE\tDEAD\tLAST SUCCESS\tLAST ERROR", none: "No partners."}
		err := a.lines(ctx, "partners", nil, func(line []byte) error {
			var p partnerLine
			if err := json.Unmarshal(line, &p); err != nil {
				return err
			}
			success, last, wrong := "-", "-", ""
			if p.Success != nil {
				success = strconv.FormatFloat(100**p.Success, 'f', 1, 64) + "%"
			}
			if p.LastSuccess != nil {
				last = p.LastSuccess.Format(time.RFC3339)
			}
			if p.LastError != nil {
				wrong = short(*p.LastError, 60)
			}
			return t.row(p.Partner, p.stands(), success, latency(p.P50), latency(p.P99), p.queue(), strconv.Itoa(p.Dead), last, wrong)
		})
		return t.end(err)
	})
}

func latency(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return strconv.FormatFloat(*ms, 'f', 0, 64) + "ms"
}

// onePartner is the argument of commands that move a circuit.
type onePartner struct {
	remote
	Partner string `arg:"" help:"Its name, as tidemill partner list shows it."`
}

func (c *onePartner) move(ctx context.Context, e env, verb string, form url.Values) error {
	return c.ask(ctx, e, func(a *client) error {
		if !a.live {
			return fmt.Errorf("nothing runs whose circuit could be moved: start it with `tidemill run`")
		}
		var raw json.RawMessage
		if err := a.post(ctx, "partners/"+url.PathEscape(c.Partner)+"/"+verb, form, &raw); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, raw)
		}
		var p partnerLine
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.out, "The circuit of %s is %s; %s.\n", printable(p.Partner), p.stands(), count(int(p.Depth), "job is in its queue", "jobs are in its queue"))
		return err
	})
}

type partnerOpenCmd struct {
	onePartner
	For time.Duration `help:"For how long. Default: a minute." placeholder:"TIME"`
}

// Help is shown by tidemill partner open --help.
func (c *partnerOpenCmd) Help() string {
	return `Its jobs wait in their queue and lose no try; no other partner is delayed. After that time one try decides whether it goes on.

  tidemill partner open dv360 --for 2h
  tidemill partner close dv360

To stop a partner until further notice, pause its queue: tidemill queue pause s2s.dv360.`
}

func (c *partnerOpenCmd) Run(ctx context.Context, e env) error {
	form := url.Values{}
	if c.For < 0 {
		return usageError{errors.New("--for wants a time to wait, like 10m")}
	}
	if c.For > 0 {
		form.Set("for", c.For.String())
	}
	return c.move(ctx, e, "open", form)
}

type partnerCloseCmd struct{ onePartner }

// Help is shown by tidemill partner close --help.
func (c *partnerCloseCmd) Help() string {
	return `If the partner still fails, its circuit opens again by itself. A partner that was switched off is switched on.`
}

func (c *partnerCloseCmd) Run(ctx context.Context, e env) error { return c.move(ctx, e, "close", nil) }
