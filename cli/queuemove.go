package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type queueEditCmd struct {
	command.Remote
	api.OneJob
	api.Seen
	newPayload
}

// Help is shown by tidemill queue edit --help.
func (c *queueEditCmd) Help() string {
	return `Every later hand-out has the new payload.

` + editHelp + `
  tidemill queue edit s2s.dv360 e1/dv360

  tidemill queue show s2s.dv360 e1/dv360 --json >job.json
  jq -j .payload job.json | mend >event.json
  tidemill queue edit s2s.dv360 e1/dv360 event.json --if-match $(jq -r .etag job.json)`
}

func (c *queueEditCmd) Run(ctx context.Context, e command.Env) error {
	read := func(a *command.Client) ([]byte, string, error) {
		j, err := api.GetJob.Call(ctx, &a.Client, &c.OneJob)
		if err != nil {
			return nil, "", err
		}
		was, err := command.PayloadOf(j.Payload, j.PayloadBase64)
		return was, j.ETag, err
	}
	return editPayload(ctx, e, c, c.newPayload, &c.Seen, read, func(a *command.Client, payload []byte) error {
		_, err := command.Shown(ctx, e, c, a, api.EditJob, &api.JobEdit{OneJob: c.OneJob, Seen: c.Seen.OrWhatever(), NewPayload: c.of(payload)}, func(*api.Job) error {
			_, err := fmt.Fprintf(e.Out, "Job %s is edited: %d bytes.\n", command.Printable(c.Job), len(payload))
			return err
		})
		return err
	})
}

// movingJobs are the flags of commands that change jobs.
type movingJobs struct {
	command.Remote
	api.JobMove
}

// check wants a choice of jobs, of a state where one is given; to mean all is to say so.
func (c *movingJobs) check(what, state string) error {
	q := c.JobMove
	chosen := state != "" || !reflect.DeepEqual(q, api.JobMove{OneQueue: q.OneQueue, All: q.All, DryRun: q.DryRun})
	c.JobMove.State = state
	return choice(chosen, c.All, "jobs", what, "--tenant")
}

func (c *movingJobs) move(ctx context.Context, e command.Env, by operation.Operation[api.JobMove, api.Counted], what, state, done string) error {
	if err := c.check(what, state); err != nil {
		return err
	}
	if c.DryRun {
		done = "would be " + done
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		if a.Live && !c.DryRun && what != "clean" && len(c.IDs) == 0 && command.Terminal(e.In) { // clean asks by itself
			return c.many("jobs."+what).run(ctx, e, a, false)
		}
		_, err := command.Shown(ctx, e, c, a, by, &c.JobMove, func(got *api.Counted) error {
			_, err := fmt.Fprintf(e.Out, "%s %s.\n", countedThings(got.Count, got.AtLeast, "job", "jobs"), done)
			return err
		})
		return err
	})
}

// many is the same as an operation.
func (c *movingJobs) many(what string) *asking {
	return &asking{JSON: c.JSON, Asked: api.OperationAsked{What: what, OperationThings: c.Things()}}
}

type queueRetryCmd struct{ movingJobs }

// Help is shown by tidemill queue retry --help.
func (c *queueRetryCmd) Help() string {
	return `A queue keeps failed jobs only if its settings say so (queue limits --keep-failed). Kept or not, a job that failed for good is a dead letter: tidemill dead replay. Use one of the two. After a retry delete the dead letter (tidemill dead delete), or its replay sends the event once more.

  tidemill queue retry ingest.high e1
  tidemill queue retry ingest.high --tenant shop --dry-run`
}

func (c *queueRetryCmd) Run(ctx context.Context, e command.Env) error {
	return c.move(ctx, e, api.RetryJobs, "retry", "", "waiting again")
}

type queuePromoteCmd struct{ movingJobs }

// Help is shown by tidemill queue promote --help.
func (c *queuePromoteCmd) Help() string {
	return `A job that failed is tried again at once, not after its pause. An open circuit still holds it back: tidemill partner close.

  tidemill queue promote s2s.dv360 e1/dv360
  tidemill queue promote s2s.dv360 --all`
}

func (c *queuePromoteCmd) Run(ctx context.Context, e command.Env) error {
	return c.move(ctx, e, api.PromoteJobs, "promote", "", "due now")
}

type queueRemoveCmd struct {
	movingJobs
	State string `help:"Only waiting, or only delayed jobs." enum:",waiting,delayed" default:"" placeholder:"waiting|delayed"`
}

// Help is shown by tidemill queue remove --help.
func (c *queueRemoveCmd) Help() string {
	return `Removed jobs are not delivered. The books count them as skipped, so that the audit still balances. Running jobs are left alone.

  tidemill queue remove s2s.dv360 e1/dv360
  tidemill queue remove s2s.dv360 --tenant shop --until 7d --dry-run`
}

func (c *queueRemoveCmd) Run(ctx context.Context, e command.Env) error {
	return c.move(ctx, e, api.RemoveJobs, "remove", c.State, "removed")
}

type queueCleanCmd struct {
	movingJobs
	State string `help:"Only jobs of this state: completed, failed, delayed, wait, or all of these. Default: those that have ended: completed and failed." enum:",completed,failed,delayed,wait,waiting,all" default:"" placeholder:"STATE"`
	Yes   bool   `help:"Do not ask." short:"y"`
}

// Help is shown by tidemill queue clean --help.
func (c *queueCleanCmd) Help() string {
	return `A queue keeps ended jobs only if its settings say so. A forgotten job's id stays known: adding the job again is still a duplicate. Waiting and delayed jobs are removed and never run; the books count them as skipped. Running jobs are left alone.

  tidemill queue clean ingest.high --state completed
  tidemill queue clean ingest.high --until 24h
  tidemill queue clean crm-events --state wait --dry-run
  tidemill queue clean crm-events --state all

On a terminal it asks first. Elsewhere it asks only before it removes jobs that have not ended. --yes answers the question.`
}

func (c *queueCleanCmd) Run(ctx context.Context, e command.Env) error {
	done, loses := "forgotten", c.State != "" && c.State != "completed" && c.State != "failed"
	if loses {
		done = "removed"
	}
	if (loses || command.Terminal(e.In)) && !c.Yes && !c.DryRun {
		if err := c.confirm(ctx, e, loses); err != nil {
			return err
		}
	}
	return c.move(ctx, e, api.CleanJobs, "clean", c.State, done)
}

// confirm asks whether that is meant.
func (c *queueCleanCmd) confirm(ctx context.Context, e command.Env, loses bool) error {
	if err := c.check("clean", c.State); err != nil {
		return err
	}
	q := c.JobMove
	q.DryRun = true
	var all api.Counted
	if err := c.Ask(ctx, e, func(a *command.Client) (err error) {
		all, err = api.CleanJobs.Call(ctx, &a.Client, &q)
		return err
	}); err != nil {
		return err
	}
	text := "%s of %s will be forgotten."
	if loses {
		text = "%s of %s will be removed; those that have not ended will never run."
	}
	return confirmed(e, fmt.Sprintf(text, countedThings(all.Count, all.AtLeast, "job", "jobs"), command.Printable(c.Queue)))
}

// confirmed asks on standard error, and reads the answer from standard input.
func confirmed(e command.Env, what string) error {
	_, _ = fmt.Fprintf(e.Err, "%s Go on? [y/N] ", what)
	line, err := bufio.NewReader(io.LimitReader(e.In, 100)).ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(line)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "":
		_, _ = fmt.Fprintln(e.Err)
		return errors.New("there was no answer, and nothing was done: --yes answers the question")
	}
	return errors.New("nothing was done")
}

// steerQueue pauses, resumes or drains.
func steerQueue[Q any](ctx context.Context, e command.Env, c command.Asker, a *command.Client, by operation.Operation[Q, api.Queue], of *Q) (api.Queue, error) {
	return command.Shown(ctx, e, c, a, by, of, func(q *api.Queue) error {
		until := ""
		if q.Paused && q.Until != nil {
			until = " until " + q.Until.UTC().Format(time.RFC3339)
		}
		_, err := fmt.Fprintf(e.Out, "%s is %s%s: %d waiting, %d delayed, %d running.\n", command.Printable(q.Name), command.QueueState(q), until, q.Waiting, q.Delayed, q.Leased)
		return err
	})
}

type queuePauseCmd struct {
	command.Remote
	api.OneQueue
	For time.Duration `help:"For how long. Default: until tidemill queue resume." placeholder:"TIME"`
}

// Help is shown by tidemill queue pause --help.
func (c *queuePauseCmd) Help() string {
	return `No instance hands out jobs of the queue until tidemill queue resume, also after a restart. Running jobs are finished. New jobs still come in.

  tidemill queue pause s2s.dv360
  tidemill queue pause s2s.dv360 --for 30m     it is resumed by itself, at most 10 s after that time`
}

func (c *queuePauseCmd) Run(ctx context.Context, e command.Env) error {
	if c.For < 0 {
		return command.UsageError{Err: errors.New("--for needs a time, like 30m")}
	}
	q := api.Pausing{OneQueue: c.OneQueue}
	if c.For > 0 {
		q.For = c.For.String()
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		_, err := steerQueue(ctx, e, c, a, api.PauseQueue, &q)
		return err
	})
}

type queueResumeCmd struct {
	command.Remote
	api.OneQueue
}

// Help is shown by tidemill queue resume --help.
func (c *queueResumeCmd) Help() string {
	return `A paused queue hands out jobs again. A drained queue takes new jobs again.`
}

func (c *queueResumeCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		_, err := steerQueue(ctx, e, c, a, api.ResumeQueue, &c.OneQueue)
		return err
	})
}

type queueDrainCmd struct {
	command.Remote
	api.OneQueue
	Wait bool `help:"Wait until the queue is empty, and show the progress."`
}

// Help is shown by tidemill queue drain --help.
func (c *queueDrainCmd) Help() string {
	return `The queue is closed: all instances refuse new jobs until tidemill queue resume. Nothing is lost. New events wait one step earlier: the ingest API answers senders 503, and they send again. Jobs in the queue run as always, retries included.

  tidemill queue drain ingest.low --wait
  tidemill queue resume ingest.low

The queue of a partner cannot be drained: events are routed to all of their partners at once, and all would wait for it. Before you remove a partner from the configuration, give it the condition "false" and restart. It gets nothing new then, and the jobs that wait for it are delivered.

Ctrl-C ends the waiting; the queue stays closed.`
}

// drainEvery is how often a queue is asked that is waited for.
const drainEvery = time.Second

func (c *queueDrainCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		q, err := steerQueue(ctx, e, c, a, api.DrainQueue, &c.OneQueue)
		if err != nil || !c.Wait || command.Held(&q) == 0 {
			return err
		}
		switch {
		case !a.Live:
			return errors.New("no instance runs that could finish them: start one with `tidemill run`; the queue stays closed")
		case q.Paused:
			return errors.New("the queue is paused and never gets empty: `tidemill queue resume` opens it, then drain it again")
		}
		return c.empty(ctx, e, a, command.Held(&q))
	})
}

// empty waits until a queue of so many jobs is.
func (c *queueDrainCmd) empty(ctx context.Context, e command.Env, a *command.Client, total int64) error {
	p := command.NewProgress(e, c.JSON, "jobs done", int(total))
	defer p.End()
	for left := total; left > 0; {
		if sleep.For(ctx, drainEvery) != nil {
			return fmt.Errorf("stopped waiting: %d jobs are left, and the queue stays closed", left)
		}
		q, err := api.GetQueue.Call(ctx, &a.Client, &c.OneQueue)
		if err != nil {
			return err
		}
		if !q.Closed {
			return errors.New("the queue was opened again")
		}
		left = command.Held(&q)
		p.Set(int(max(0, total-left)))
	}
	if c.JSON {
		return nil
	}
	_, err := fmt.Fprintf(e.Out, "%s is drained.\n", command.Printable(c.Queue))
	return err
}
