package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/systems/windows"
)

type auditCmd struct {
	remote
	System string `arg:"" optional:"" help:"One system only."`
}

type auditReport struct {
	System    string       `json:"system"`
	Accepted  uint64       `json:"accepted"`
	Delivered uint64       `json:"delivered"`
	Skipped   uint64       `json:"skipped"`
	Dead      uint64       `json:"dead"`
	InFlight  uint64       `json:"in_flight"`
	Lost      uint64       `json:"lost"`
	Balanced  bool         `json:"balanced"`
	Faults    []string     `json:"faults"`
	Letters   *letterBooks `json:"dead_letters"`
	Damaged   uint64       `json:"damaged"`
	Stored    *int64       `json:"stored"`
	Queues    []queueBooks `json:"queues"`    // of a system of many: instead of the sums
	Pipelines []queueBooks `json:"pipelines"` // the same of a system that is not made of queues
}

// letterBooks are the books of dead letters.
type letterBooks struct{ Put, Held, Replayed, Discarded, Trimmed uint64 }

// queueBooks are the books of one queue, or pipeline.
type queueBooks struct {
	Queue, Pipeline                    string
	Accepted, Delivered, Skipped, Dead uint64
	InFlight                           uint64 `json:"in_flight"`
	Lost                               uint64
	Letters                            letterBooks `json:"dead_letters"`
}

func (c *auditCmd) Run(ctx context.Context, e env) error {
	c.about = c.System
	return c.ask(ctx, e, func(a *client) error {
		var got struct {
			Balanced bool
			Systems  []json.RawMessage
		}
		if err := a.get(ctx, "audit", query("system", c.System), &got); err != nil {
			return err
		}
		for _, raw := range got.Systems {
			if c.JSON {
				if err := printJSON(e.out, raw); err != nil {
					return err
				}
				continue
			}
			var r auditReport
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			r.print(e)
		}
		if !got.Balanced {
			return errUnbalanced
		}
		return nil
	})
}

func (r *auditReport) print(e env) {
	_, _ = fmt.Fprintln(e.out, r.System)
	switch {
	case len(r.Queues) > 0:
		printBooks(e, "QUEUE", r.Queues)
	case r.Pipelines != nil:
		printBooks(e, "PIPELINE", r.Pipelines)
	default:
		r.printSums(e)
	}
	if r.Balanced {
		_, _ = fmt.Fprintln(e.out, "The books balance: every accepted "+r.unit()+" is accounted for.")
	}
	for _, f := range r.Faults {
		_, _ = fmt.Fprintln(e.out, "THE BOOKS DO NOT BALANCE:", f)
	}
}

// unit is what the books count, in a word.
func (r *auditReport) unit() string {
	if r.System == windows.Name {
		return "record"
	}
	return "event"
}

// printBooks shows a row for each queue, or pipeline.
func printBooks(e env, what string, all []queueBooks) {
	t := table{out: e.out, indent: "  ", head: what + "\tACCEPTED\t= DELIVERED\t+ SKIPPED\t+ DEAD\t+ IN FLIGHT\t+ LOST\tLETTERS\t= HELD\t+ REPLAYED\t+ DISCARDED\t+ TRIMMED"}
	for _, q := range all {
		l := q.Letters
		cells := []string{printable(q.Queue + q.Pipeline)}
		for _, n := range []uint64{q.Accepted, q.Delivered, q.Skipped, q.Dead, q.InFlight, q.Lost, l.Put, l.Held, l.Replayed, l.Discarded, l.Trimmed} {
			cells = append(cells, strconv.FormatUint(n, 10))
		}
		_ = t.row(cells...) // who read it may have gone
	}
	_ = t.end(nil)
}

// printSums shows the books of a system of one queue.
func (r *auditReport) printSums(e env) {
	row := func(name string, n uint64) { _, _ = fmt.Fprintf(e.out, "  %-24s %12d\n", name, n) }
	row("accepted", r.Accepted)
	row("= delivered", r.Delivered)
	row("+ skipped", r.Skipped)
	row("+ dead", r.Dead)
	row("+ in flight", r.InFlight)
	if r.Lost > 0 {
		row("+ lost at the source", r.Lost)
	}
	if r.Damaged > 0 {
		row("damaged on disk, dead", r.Damaged)
	}
	if r.Letters != nil {
		row("dead letters", r.Letters.Put)
		row("= held", r.Letters.Held)
		row("+ replayed", r.Letters.Replayed)
		row("+ discarded", r.Letters.Discarded)
	}
	if r.Stored != nil {
		row("rows in the warehouse", uint64(*r.Stored))
	}
}

type statusCmd struct{ remote }

func (c *statusCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var whole json.RawMessage
		if err := a.get(ctx, "status", nil, &whole); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, whole)
		}
		var s struct {
			Version string
			Started time.Time
			Uses    []string
			Systems []struct {
				Name      string
				Notes     []string
				Pipelines []struct {
					Name, State, Breaker string
					Received             uint64
					Settled              struct{ Delivered, Skipped, Dead uint64 }
					InFlight             uint64  `json:"in_flight"`
					Pending              *uint64 `json:"pending"`
					Unread               string  `json:"pending_error"`
					Why                  string  `json:"breaker_why"`
					Last                 string  `json:"last_error"`
					Failure              string  `json:"last_failure"`
				}
			}
		}
		if err := json.Unmarshal(whole, &s); err != nil {
			return err
		}
		if a.live {
			_, _ = fmt.Fprintf(e.out, "tidemill %s at %s, up %v\n", s.Version, a.base, time.Since(s.Started).Round(time.Second))
		} else {
			_, _ = fmt.Fprintf(e.out, "Nothing runs; the data were opened to look at them.\n")
		}
		for _, u := range s.Uses {
			_, _ = fmt.Fprintf(e.out, "  %s\n", u)
		}
		_, _ = fmt.Fprintln(e.out)
		t := table{out: e.out, head: "PIPELINE\tSTATE\tRECEIVED\tDELIVERED\tSKIPPED\tDEAD\tIN FLIGHT\tBREAKER\tLAST ERROR"}
		for _, sys := range s.Systems {
			for _, p := range sys.Pipelines {
				if p.Pending != nil { // the books' in flight: what waits too
					p.InFlight = *p.Pending
				}
				n := func(n uint64) string { return strconv.FormatUint(n, 10) }
				if err := t.row(p.Name, p.State, n(p.Received), n(p.Settled.Delivered), n(p.Settled.Skipped), n(p.Settled.Dead), n(p.InFlight),
					p.Breaker, short(cmp.Or(p.Why, p.Last, p.Unread), 60)); err != nil {
					return err
				}
			}
		}
		if err := t.end(nil); err != nil {
			return err
		}
		for _, sys := range s.Systems {
			for _, note := range sys.Notes {
				_, _ = fmt.Fprintf(e.out, "%s: %s\n", sys.Name, note)
			}
		}
		return nil
	})
}

// steered is a pipeline that is to be paused or resumed.
type steered struct {
	remote
	Pipeline string `arg:"" help:"Its name, as tidemill status shows it."`
}

type pauseCmd struct{ steered }

// Help is shown by tidemill pause --help.
func (c *pauseCmd) Help() string {
	return `What is being worked on is finished first. The pause lasts until tidemill resume, or until the instance ends.`
}

func (c *pauseCmd) Run(ctx context.Context, e env) error { return c.steer(ctx, e, "pause") }

type resumeCmd struct{ steered }

func (c *resumeCmd) Run(ctx context.Context, e env) error { return c.steer(ctx, e, "resume") }

func (c *steered) steer(ctx context.Context, e env, verb string) error {
	return c.ask(ctx, e, func(a *client) error {
		if !a.live {
			return fmt.Errorf("nothing runs that could %s: start it with `tidemill run`", verb)
		}
		var got struct{ Name, State string }
		if err := a.post(ctx, "pipelines/"+url.PathEscape(c.Pipeline)+"/"+verb, nil, &got); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, map[string]string{"name": got.Name, "state": got.State})
		}
		_, err := fmt.Fprintf(e.out, "%s is %s.\n", got.Name, got.State)
		return err
	})
}

type doctorCmd struct{ remote }

func (c *doctorCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var got struct {
			Findings []struct {
				Check   string `json:"check"`
				Verdict string `json:"verdict"`
				Detail  string `json:"detail"`
				Advice  string `json:"advice,omitempty"`
			} `json:"findings"`
		}
		if err := a.get(ctx, "doctor", nil, &got); err != nil {
			return err
		}
		if c.JSON {
			if err := printJSON(e.out, got); err != nil {
				return err
			}
		}
		failed := 0
		for _, f := range got.Findings {
			if f.Verdict == "fail" {
				failed++
			}
			if c.JSON {
				continue
			}
			_, _ = fmt.Fprintf(e.out, "%-5s %s: %s\n", f.Verdict, f.Check, f.Detail)
			if f.Advice != "" {
				_, _ = fmt.Fprintf(e.out, "      %s\n", f.Advice)
			}
		}
		if failed > 0 {
			return fmt.Errorf("%d checks failed", failed)
		}
		return nil
	})
}
