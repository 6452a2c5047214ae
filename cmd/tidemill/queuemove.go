package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

type queueEditCmd struct {
	oneJob
	File string `arg:"" optional:"" help:"The new payload, byte for byte. Default, or -: standard input." type:"path"`
}

// Help is shown by tidemill queue edit --help.
func (c *queueEditCmd) Help() string {
	return `What is handed out from then on has the new payload.

  tidemill queue show s2s.dv360 e1/dv360 --payload >event.json
  $EDITOR event.json
  tidemill queue edit s2s.dv360 e1/dv360 event.json`
}

func (c *queueEditCmd) Run(ctx context.Context, e env) error {
	payload, err := readPayload(e, c.File)
	if err != nil {
		return err
	}
	return c.ask(ctx, e, func(a *client) error {
		var whole json.RawMessage
		if err := a.one(ctx, http.MethodPost, c.path("/edit"), c.query(), bytes.NewReader(payload), &whole); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, whole)
		}
		_, err := fmt.Fprintf(e.out, "Job %s is edited: %d bytes.\n", printable(c.Job), len(payload))
		return err
	})
}

// movingJobs are the flags of commands that change jobs.
type movingJobs struct {
	oneQueue
	those
	IDs    []string `arg:"" optional:"" name:"id" help:"Ids of jobs, as tidemill queue jobs shows them."`
	All    bool     `help:"All jobs that the command is for."`
	DryRun bool     `help:"Only say how many it would be."`
}

// chosen is the form that says which jobs; to mean all is to say so.
func (c *movingJobs) chosen(what, state string) (url.Values, error) {
	q := c.query(c.IDs)
	if state != "" {
		q.Set("state", state)
	}
	if len(q) == 0 && !c.All {
		return nil, usageError{fmt.Errorf("say which jobs to %s: ids, filters like --tenant, or --all", what)}
	}
	if c.All && len(q) > 0 {
		return nil, usageError{errors.New("--all and a choice of jobs contradict each other: leave one out")}
	}
	if c.All {
		q.Set("all", "true")
	}
	return q, nil
}

func (c *movingJobs) move(ctx context.Context, e env, what, state, done string) error {
	q, err := c.chosen(what, state)
	if err != nil {
		return err
	}
	if c.DryRun {
		q.Set("dry_run", "true")
		done = "would be " + done
	}
	return c.ask(ctx, e, func(a *client) error {
		var got moved
		if err := a.post(ctx, c.path("/"+what), q, &got); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, map[string]int{"count": got.Count})
		}
		_, err := fmt.Fprintf(e.out, "%s %s.\n", count(got.Count, "job", "jobs"), done)
		return err
	})
}

type queueRetryCmd struct{ movingJobs }

// Help is shown by tidemill queue retry --help.
func (c *queueRetryCmd) Help() string {
	return `A queue keeps failed jobs only where its settings say so (queue limits --keep-failed); otherwise what failed for good is among the dead letters: tidemill dead replay. What is kept is among them too. Send it again from one place: after a retry delete the letter (tidemill dead delete), or its replay sends the event once more.

  tidemill queue retry ingest.high e1
  tidemill queue retry ingest.high --tenant shop --dry-run`
}

func (c *queueRetryCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "retry", "", "waiting again")
}

type queuePromoteCmd struct{ movingJobs }

// Help is shown by tidemill queue promote --help.
func (c *queuePromoteCmd) Help() string {
	return `The next try of a job that failed comes at once and not after its pause. An open circuit still holds it back: tidemill partner close.

  tidemill queue promote s2s.dv360 e1/dv360
  tidemill queue promote s2s.dv360 --all`
}

func (c *queuePromoteCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "promote", "", "due now")
}

type queueRemoveCmd struct {
	movingJobs
	State string `help:"Only jobs that wait, or only those that were put off." enum:",waiting,delayed" default:"" placeholder:"waiting|delayed"`
}

// Help is shown by tidemill queue remove --help.
func (c *queueRemoveCmd) Help() string {
	return `What is taken out is not delivered; the books count it as skipped, so that the audit still balances. Jobs that somebody works on are left alone.

  tidemill queue remove s2s.dv360 e1/dv360
  tidemill queue remove s2s.dv360 --tenant shop --until 7d --dry-run`
}

func (c *queueRemoveCmd) Run(ctx context.Context, e env) error {
	return c.move(ctx, e, "remove", c.State, "taken out")
}

type queueCleanCmd struct {
	movingJobs
	State string `help:"Only jobs of this state: completed, failed, delayed, wait, or all of these. Default: those that have ended, completed and failed." enum:",completed,failed,delayed,wait,waiting,all" default:"" placeholder:"STATE"`
	Yes   bool   `help:"Do not ask." short:"y"`
}

// Help is shown by tidemill queue clean --help.
func (c *queueCleanCmd) Help() string {
	return `Jobs are kept after their end only where the queue's settings say so. Their names stay known: adding one of them again is still a duplicate. Jobs that were put off (delayed) or wait are taken out and never worked on; the books count them as skipped. Those that somebody works on are left alone.

  tidemill queue clean ingest.high --state completed
  tidemill queue clean ingest.high --until 24h
  tidemill queue clean crm-events --state wait --dry-run
  tidemill queue clean crm-events --state all

On a terminal it asks before it does anything; elsewhere only where jobs would never be worked on, and --yes answers that.`
}

func (c *queueCleanCmd) Run(ctx context.Context, e env) error {
	done, loses := "forgotten", c.State != "" && c.State != "completed" && c.State != "failed"
	if loses {
		done = "removed"
	}
	if (loses || terminal(e.in)) && !c.Yes && !c.DryRun {
		if err := c.confirm(ctx, e, loses); err != nil {
			return err
		}
	}
	return c.move(ctx, e, "clean", c.State, done)
}

// confirm asks whether that is meant.
func (c *queueCleanCmd) confirm(ctx context.Context, e env, loses bool) error {
	q, err := c.chosen("clean", c.State)
	if err != nil {
		return err
	}
	q.Set("dry_run", "true")
	var all moved
	if err := c.ask(ctx, e, func(a *client) error { return a.post(ctx, c.path("/clean"), q, &all) }); err != nil {
		return err
	}
	text := "%s of %s will be forgotten."
	if loses {
		text = "%s of %s will be removed; those that have not ended are never worked on."
	}
	return confirmed(e, fmt.Sprintf(text, count(all.Count, "job", "jobs"), printable(c.Queue)))
}

// confirmed asks on standard error, and reads the answer from standard input.
func confirmed(e env, what string) error {
	_, _ = fmt.Fprintf(e.err, "%s Go on? [y/N] ", what)
	line, err := bufio.NewReader(io.LimitReader(e.in, 100)).ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(line)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "":
		_, _ = fmt.Fprintln(e.err)
		return errors.New("nobody answered, and nothing was done: --yes says that it is meant")
	}
	return errors.New("nothing was done")
}

// steer pauses, resumes or drains.
func (c *oneQueue) steer(ctx context.Context, e env, a *client, verb string) (*queueLine, error) {
	var raw json.RawMessage
	if err := a.post(ctx, c.path("/"+verb), nil, &raw); err != nil {
		return nil, err
	}
	q := new(queueLine)
	if err := json.Unmarshal(raw, q); err != nil || c.JSON {
		return q, errors.Join(err, printJSON(e.out, raw))
	}
	_, err := fmt.Fprintf(e.out, "%s is %s: %d waiting, %d delayed, %d out.\n", printable(q.Name), q.state(), q.Waiting, q.Delayed, q.Leased)
	return q, err
}

type queuePauseCmd struct{ oneQueue }

// Help is shown by tidemill queue pause --help.
func (c *queuePauseCmd) Help() string {
	return `All instances hand out nothing from the queue until tidemill queue resume, also after a restart. What is being worked on is finished. Jobs still come in.`
}

func (c *queuePauseCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error { _, err := c.steer(ctx, e, a, "pause"); return err })
}

type queueResumeCmd struct{ oneQueue }

// Help is shown by tidemill queue resume --help.
func (c *queueResumeCmd) Help() string {
	return `The queue hands out jobs again where it was paused, and takes jobs again where it was drained.`
}

func (c *queueResumeCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error { _, err := c.steer(ctx, e, a, "resume"); return err })
}

type queueDrainCmd struct {
	oneQueue
	Wait bool `help:"Stay until the queue is empty, and show how far it is."`
}

// Help is shown by tidemill queue drain --help.
func (c *queueDrainCmd) Help() string {
	return `The queue is closed: new jobs are refused, for all instances, until tidemill queue resume. Nothing is lost by it: what would have come in waits one step before (at the door senders are answered 503 and send again), and what is in the queue is worked on as always, retries included.

  tidemill queue drain ingest.low --wait
  tidemill queue resume ingest.low

The queue of a partner is not drained: events are routed to all of their partners at once, and all would wait for it. Before a partner is taken out of the configuration give it the condition "false" and restart: it gets nothing new then, and what waits for it is delivered.

Ctrl-C ends the waiting; the queue stays closed.`
}

// drainEvery is how often a queue is asked that is waited for.
const drainEvery = time.Second

func (c *queueDrainCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		q, err := c.steer(ctx, e, a, "drain")
		if err != nil || !c.Wait || q.held() == 0 {
			return err
		}
		switch {
		case !a.live:
			return errors.New("nothing runs that could work on them: start it with `tidemill run`; the queue stays closed")
		case q.Paused:
			return errors.New("the queue is paused, so that it never gets empty: `tidemill queue resume` opens it, then drain it again")
		}
		return c.empty(ctx, e, a, q.held())
	})
}

// empty waits until a queue of so many jobs is.
func (c *queueDrainCmd) empty(ctx context.Context, e env, a *client, total int64) error {
	p := newProgress(e, c.JSON, "jobs done", int(total))
	defer p.end()
	for left := total; left > 0; {
		if !pause(ctx, drainEvery) {
			return fmt.Errorf("stopped waiting: %d jobs are left, and the queue stays closed", left)
		}
		var q queueLine
		if err := a.get(ctx, c.path(""), nil, &q); err != nil {
			return err
		}
		if !q.Closed {
			return errors.New("somebody has opened the queue again")
		}
		left = q.held()
		p.set(int(max(0, total-left)))
	}
	if c.JSON {
		return nil
	}
	_, err := fmt.Fprintf(e.out, "%s is drained.\n", printable(c.Queue))
	return err
}
