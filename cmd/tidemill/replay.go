package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"
)

type replayCmd struct {
	Start  replayStartCmd  `cmd:"" help:"Let CRM's handlers run again for events of the sync log."`
	Status replayStatusCmd `cmd:"" help:"List the replays, or show how far one has come."`
	Stop   replayStopCmd   `cmd:"" help:"Stop a replay: no more of its events are handled."`
}

// replayLine is a replay as the API writes it.
type replayLine struct {
	ID, State, Tenant, Type string
	Since, Until            *time.Time
	Asked                   time.Time  `json:"asked_at"`
	Ended                   *time.Time `json:"ended_at"`
	Queued                  int
	Reached                 *time.Time `json:"reached_at"`
	Share                   float64
	Known                   bool `json:"known_before"`
}

func (p *replayLine) ended() bool { return p.State == "done" || p.State == "stopped" }

type replayStartCmd struct {
	remote
	span
	Type   string `help:"Only events of this type." placeholder:"TYPE"`
	Tenant string `help:"Only events of this tenant." placeholder:"ID"`
	All    bool   `help:"The whole sync log."`
	ID     string `name:"id" help:"A name for the request: the same one started again is the same replay, and runs once. Default: it gets one." placeholder:"NAME"`
	DryRun bool   `help:"Only say how many events it would be."`
	Wait   bool   `help:"Stay until all of them are in the queue, and show how far it is."`
}

// Help is shown by tidemill replay start --help.
func (c *replayStartCmd) Help() string {
	return `Events are taken from the sync log by when they were first received, and go to their handlers again although they are COMPLETED. Their jobs have the lowest priority and all limits hold, so that new events are not held up. Each event is handled once for one request; a later request handles it again. The request survives a restart.

  tidemill replay start --since 2026-01-31 --until 2026-02-01
  tidemill replay start --since 24h --type member.created --tenant club --wait
  tidemill replay start --since 7d --dry-run
  tidemill replay stop ID

Dead letters are another thing: tidemill dead replay --pipeline crm-events.`
}

func (c *replayStartCmd) Run(ctx context.Context, e env) error {
	chosen := c.Since != "" || c.Until != "" || c.Type != "" || c.Tenant != ""
	switch {
	case !chosen && !c.All:
		return usageError{errors.New("say what to replay: --since, --until, --type, --tenant, or --all")}
	case chosen && c.All:
		return usageError{errors.New("--all and a choice of events contradict each other: leave one out")}
	case c.Wait && c.DryRun:
		return usageError{errors.New("--wait and --dry-run contradict each other: leave one out")}
	}
	request := map[string]any{"id": c.ID, "since": c.since(), "until": c.until(), "type": c.Type, "tenant": c.Tenant, "all": c.All}
	return c.ask(ctx, e, func(a *client) error {
		if c.Wait {
			if err := canWait(ctx, e, a); err != nil {
				return err
			}
		}
		total := 0
		if c.DryRun || c.Wait {
			var err error
			if total, err = countReplay(ctx, a, request); err != nil {
				return err
			}
		}
		if c.DryRun {
			if c.JSON {
				return printJSON(e.out, map[string]int{"count": total})
			}
			_, err := fmt.Fprintf(e.out, "%s would be handled again.\n", count(total, "event", "events"))
			return err
		}
		p, raw, err := postReplay(ctx, a, "crm/replays", request)
		if err != nil {
			return err
		}
		if !c.Wait {
			return c.print(e, a, p, raw)
		}
		return c.follow(ctx, e, a, p.ID, total)
	})
}

// canWait refuses to wait for what would never end, and says what may hold it up.
func canWait(ctx context.Context, e env, a *client) error {
	if !a.live {
		return errors.New("nothing runs that could be waited for: start it with `tidemill run`, or leave --wait out")
	}
	var s crmLine
	if err := a.get(ctx, "crm/status", nil, &s); err != nil {
		return err
	}
	if s.Closed {
		return fmt.Errorf("%s is being drained and takes no jobs, those of replays neither: `tidemill queue resume %s` first, or leave --wait out", s.Queue, s.Queue)
	}
	if s.Paused {
		_, _ = fmt.Fprintf(e.err, "%s is paused: after the first events the replay waits until `tidemill queue resume %s`.\n", s.Queue, s.Queue)
	}
	return nil
}

// countReplay asks how many events a request is of.
func countReplay(ctx context.Context, a *client, request map[string]any) (int, error) {
	request["dry_run"] = true
	defer delete(request, "dry_run")
	b, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	var n struct{ Count int }
	return n.Count, errors.Join(a.one(ctx, http.MethodPost, "crm/replays", nil, bytes.NewReader(b), &n))
}

// postReplay asks for something, which is answered with a replay.
func postReplay(ctx context.Context, a *client, path string, request any) (p *replayLine, raw json.RawMessage, err error) {
	b, err := json.Marshal(request)
	if err != nil {
		return nil, nil, err
	}
	if err := a.one(ctx, http.MethodPost, path, nil, bytes.NewReader(b), &raw); err != nil {
		return nil, nil, err
	}
	p = new(replayLine)
	return p, raw, json.Unmarshal(raw, p)
}

// print says that a replay has begun.
func (c *replayStartCmd) print(e env, a *client, p *replayLine, raw json.RawMessage) error {
	if c.JSON {
		return printJSON(e.out, raw)
	}
	text := fmt.Sprintf("Replay %s has begun", printable(p.ID))
	if p.Known {
		text = fmt.Sprintf("Replay %s is known: it is %s, with %s in the queue so far", printable(p.ID), p.State, count(p.Queued, "event", "events"))
	}
	text += ". `tidemill replay status " + printable(p.ID) + "` shows how far it is."
	if !a.live {
		text += " Nothing runs: `tidemill run` goes on with it."
	}
	_, err := fmt.Fprintln(e.out, text)
	return err
}

// replayEvery is how often a replay is asked that is waited for.
const replayEvery = 500 * time.Millisecond

// follow waits until a replay has ended.
func (c *replayStartCmd) follow(ctx context.Context, e env, a *client, id string, total int) error {
	bar := newProgress(e, c.JSON, "events in the queue", total)
	defer bar.end()
	for {
		p, raw, err := getReplay(ctx, a, id)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			return stopped(id)
		}
		bar.set(min(p.Queued, total))
		if p.ended() {
			bar.end()
			if c.JSON {
				return printJSON(e.out, raw)
			}
			text := fmt.Sprintf("Replay %s is %s: %s put into the queue", printable(id), p.State, count(p.Queued, "event was", "events were"))
			if p.State == "stopped" {
				return errors.New(text + "; somebody has stopped it")
			}
			_, err := fmt.Fprintln(e.out, text+".")
			return err
		}
		if !pause(ctx, replayEvery) {
			return stopped(id)
		}
	}
}

// stopped says that somebody waits no longer.
func stopped(id string) error {
	return fmt.Errorf("stopped waiting; the replay goes on: `tidemill replay stop %s` ends it", printable(id))
}

func getReplay(ctx context.Context, a *client, id string) (p *replayLine, raw json.RawMessage, err error) {
	if err := a.get(ctx, "crm/replays/"+url.PathEscape(id), nil, &raw); err != nil {
		return nil, nil, err
	}
	p = new(replayLine)
	return p, raw, json.Unmarshal(raw, p)
}

type replayStatusCmd struct {
	remote
	ID string `arg:"" optional:"" name:"id" help:"One replay, as replay start named it. Default: all of them, the newest first."`
}

// Help is shown by tidemill replay status --help.
func (c *replayStatusCmd) Help() string {
	return `A replay is running while its events are put into the queue, a thousand ahead of the handlers at the most; done when all of them are there or were handled; stopping and stopped after replay stop. DONE is how far it has come between the ends of its time.`
}

func (c *replayStatusCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		if c.ID != "" {
			p, raw, err := getReplay(ctx, a, c.ID)
			if err != nil || c.JSON {
				return errors.Join(err, printFound(e, raw))
			}
			return p.print(e)
		}
		if c.JSON {
			return a.lines(ctx, "crm/replays", nil, lineTo(e.out))
		}
		t := table{out: e.out, head: "ID\tSTATE\tASKED\tSINCE\tUNTIL\tTENANT\tTYPE\tQUEUED\tDONE", none: "No replays."}
		err := a.lines(ctx, "crm/replays", nil, func(line []byte) error {
			var p replayLine
			if err := json.Unmarshal(line, &p); err != nil {
				return err
			}
			return t.row(p.ID, p.State, p.Asked.Format(time.RFC3339), stamp(p.Since), stamp(p.Until), dash(p.Tenant), dash(p.Type), strconv.Itoa(p.Queued), p.share())
		})
		return t.end(err)
	})
}

// printFound prints what was found as JSON.
func printFound(e env, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	return printJSON(e.out, raw)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return short(s, 40)
}

// share is how far a replay has come.
func (p *replayLine) share() string {
	if p.Share == 0 && p.Since == nil && p.State != "done" {
		return "-" // of a time without a beginning nobody knows
	}
	return strconv.FormatFloat(100*p.Share, 'f', 0, 64) + "%"
}

// print shows a replay to people.
func (p *replayLine) print(e env) error {
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "replay\t%s\nstate\t%s\nasked\t%s\nsince\t%s\nuntil\t%s\ntenant\t%s\ntype\t%s\nqueued\t%s\nreached\t%s\ndone\t%s\n", printable(p.ID), p.State, p.Asked.Format(time.RFC3339),
		stamp(p.Since), stamp(p.Until), dash(p.Tenant), dash(p.Type), count(p.Queued, "event", "events"), stamp(p.Reached), p.share())
	if p.Ended != nil {
		_, _ = fmt.Fprintf(w, "ended\t%s\n", stamp(p.Ended))
	}
	return w.Flush()
}

type replayStopCmd struct {
	remote
	ID string `arg:"" name:"id" help:"The replay, as replay status shows it."`
}

// Help is shown by tidemill replay stop --help.
func (c *replayStopCmd) Help() string {
	return `No more events of it are put into the queue, and those that wait there are skipped when it is their turn. What was handled stays so. It cannot go on: start another one for the rest.`
}

func (c *replayStopCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		p, raw, err := postReplay(ctx, a, "crm/replays/"+url.PathEscape(c.ID)+"/stop", struct{}{})
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, raw)
		}
		text := "is stopped"
		switch p.State {
		case "stopping":
			text = "is being stopped"
		case "done":
			text = "had ended before"
		}
		_, err = fmt.Fprintf(e.out, "Replay %s %s: %s put into the queue.\n", printable(p.ID), text, count(p.Queued, "event was", "events were"))
		return err
	})
}
