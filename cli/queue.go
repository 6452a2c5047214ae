package cli

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type queueCmd struct {
	List    queueListCmd    `cmd:"" help:"List the queues: what waits, what is running, how old the oldest job is."`
	Stats   queueStatsCmd   `cmd:"" help:"Show one queue: its priorities, its deepest tenants, its limits."`
	Jobs    queueJobsCmd    `cmd:"" help:"List jobs of a queue, the oldest first."`
	Show    queueShowCmd    `cmd:"" help:"Show one job: payload, every failed try."`
	Edit    queueEditCmd    `cmd:"" help:"Replace the payload of a job that no worker has."`
	Retry   queueRetryCmd   `cmd:"" help:"Let failed jobs wait again, as if added now."`
	Promote queuePromoteCmd `cmd:"" help:"Make delayed jobs due now."`
	Remove  queueRemoveCmd  `cmd:"" help:"Remove waiting or delayed jobs. They are counted as skipped."`
	Clean   queueCleanCmd   `cmd:"" help:"Forget ended jobs that are kept; remove jobs of other states too."`
	Pause   queuePauseCmd   `cmd:"" help:"Hand out no jobs: new ones still come in, and wait."`
	Resume  queueResumeCmd  `cmd:"" help:"End a pause or a drain."`
	Drain   queueDrainCmd   `cmd:"" help:"Refuse new jobs, and finish those in the queue."`
	Limits  queueLimitsCmd  `cmd:"" help:"Show or change limits, weights and fairness of a queue."`
}

// held is how many jobs have not ended.
func held(q *api.Queue) int64 { return q.Waiting + q.Delayed + q.Leased }

// queueState says in a word what an operator has done to a queue.
func queueState(q *api.Queue) string {
	switch {
	case q.Paused && q.Closed:
		return "paused, draining"
	case q.Paused:
		return "paused"
	case q.Closed && held(q) == 0:
		return "drained"
	case q.Closed:
		return "draining"
	}
	return "open"
}

// queueAge writes how old the oldest job is.
func queueAge(q *api.Queue) string {
	if held(q) == 0 {
		return "-"
	}
	return roughly(time.Duration(q.Age * float64(time.Second)))
}

// waits says how many wait, and since when, where that is known.
func waits(n int64, oldest time.Time) string {
	if oldest.IsZero() {
		return fmt.Sprintf("%d waiting", n)
	}
	return fmt.Sprintf("%d waiting, the oldest for %s", n, roughly(time.Since(oldest)))
}

// roughly is a time as people say it.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

type queueListCmd struct{ remote }

// Help is shown by tidemill queue list --help.
func (c *queueListCmd) Help() string {
	return `WAITING jobs are due. DELAYED jobs come back later. RUNNING jobs are with a worker. COMPLETED and FAILED jobs have ended and are kept. OLDEST is the age of the oldest job that has not ended.`
}

func (c *queueListCmd) Run(ctx context.Context, e env) error {
	t := table{head: "QUEUE\tSTATE\tWAITING\tDELAYED\tRUNNING\tCOMPLETED\tFAILED\tOLDEST", none: "No queues."}
	return list(ctx, e, c, api.ListQueues, &operation.None{}, &t, func(q *api.Queue) []string {
		return []string{q.Name, queueState(q), whole(q.Waiting), whole(q.Delayed), whole(q.Leased), whole(q.Completed), whole(q.Failed), queueAge(q)}
	})
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

type queueStatsCmd struct {
	remote
	api.OneQueue
}

func (c *queueStatsCmd) Run(ctx context.Context, e env) error {
	return show(ctx, e, c, api.GetQueue, &c.OneQueue, func(_ *client, q *api.Queue) error {
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "queue\t%s, %s\nwaiting\t%d\ndelayed\t%d\nrunning\t%d\ncompleted\t%d, kept\nfailed\t%d, kept\noldest\t%s\n",
			printable(q.Name), queueState(q), q.Waiting, q.Delayed, q.Leased, q.Completed, q.Failed, queueAge(q))
		for _, p := range q.Priorities {
			_, _ = fmt.Fprintf(w, "priority %d\t%s\n", p.Priority, waits(p.Waiting, p.Oldest))
		}
		for _, t := range q.Tenants {
			_, _ = fmt.Fprintf(w, "tenant %s\t%s\n", printable(t.Tenant), waits(t.Waiting, t.Oldest))
		}
		printSettings(w, q.Settings)
		return w.Flush()
	})
}

type queueJobsCmd struct {
	remote
	api.JobFilter
}

// Help is shown by tidemill queue jobs --help.
func (c *queueJobsCmd) Help() string {
	return `DUE is when a delayed job comes back.

  tidemill queue jobs s2s.dv360 --state delayed
  tidemill queue jobs ingest.high --tenant shop -n 20`
}

func (c *queueJobsCmd) Run(ctx context.Context, e env) error {
	t := table{head: "ID\tTENANT\tTYPE\tSTATE\tPRIORITY\tTRIES\tADDED\tDUE\tCAUSE", none: "No such jobs."}
	return list(ctx, e, c, api.ListJobs, &c.JobFilter, &t, func(j *api.Job) []string {
		return []string{j.ID, short(j.Tenant, 36), short(j.Type, 30), j.State, strconv.Itoa(int(j.Priority)), strconv.Itoa(j.Tries), j.Added.Format(time.RFC3339), stamp(j.Due), short(j.Cause, 80)}
	})
}

type queueShowCmd struct {
	remote
	api.OneJob
	Payload bool `help:"Print only the payload: byte for byte, into a file or another program."`
}

func (c *queueShowCmd) Run(ctx context.Context, e env) error {
	if c.Payload {
		return c.ask(ctx, e, func(a *client) error {
			j, err := api.GetJob.Call(ctx, &a.Client, &c.OneJob)
			if err != nil {
				return err
			}
			return printPayload(e, j.Payload, j.PayloadBase64)
		})
	}
	return show(ctx, e, c, api.GetJob, &c.OneJob, func(_ *client, j *api.Job) error { return printJob(e, j) })
}

// printJob shows a job to people.
func printJob(e env, j *api.Job) error {
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "job\t%s\nqueue\t%s\ntenant\t%s\ntype\t%s\n", printable(j.ID), printable(j.Queue), printable(j.Tenant), printable(j.Type))
	state := j.State
	if j.Fate != "" {
		state += ": " + j.Fate
	}
	_, _ = fmt.Fprintf(w, "state\t%s\npriority\t%d\nkey\t%s\nhanded out\t%d times\nadded\t%s\n", state, j.Priority, shownPayload(j.Key, j.KeyBase64), j.Handed, j.Added.Format(time.RFC3339))
	if j.Due != nil {
		_, _ = fmt.Fprintf(w, "due\t%s\n", j.Due.Format(time.RFC3339))
	}
	if j.Ended != nil {
		_, _ = fmt.Fprintf(w, "ended\t%s\n", j.Ended.Format(time.RFC3339))
	}
	for _, f := range j.Attempts {
		_, _ = fmt.Fprintf(w, "tried\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, printable(f.Cause))
	}
	if j.Cause != "" && len(j.Attempts) == 0 {
		_, _ = fmt.Fprintf(w, "cause\t%s\n", printable(j.Cause))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printFields(e.out, j.Fields); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.out, "\n%s\n", shownPayload(j.Payload, j.PayloadBase64))
	return err
}
