package cli

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type queueCmd struct {
	List    queueListCmd    `cmd:"" help:"List the queues: what waits, what is running, how old the oldest job is."`
	Stats   queueStatsCmd   `cmd:"" help:"Show one queue: its priorities, its deepest tenants, its limits."`
	Jobs    queueJobsCmd    `cmd:"" help:"List jobs of a queue."`
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

type queueListCmd struct{ command.Remote }

// Help is shown by tidemill queue list --help.
func (c *queueListCmd) Help() string {
	return `WAITING jobs are due. DELAYED jobs come back later. RUNNING jobs are with a worker. COMPLETED and FAILED jobs have ended and are kept. OLDEST is the age of the oldest job that has not ended.`
}

func (c *queueListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "QUEUE\tSTATE\tWAITING\tDELAYED\tRUNNING\tCOMPLETED\tFAILED\tOLDEST", None: "No queues."}
	return command.List(ctx, e, c, api.ListQueues, &operation.None{}, &t, func(q *api.Queue) []string {
		return []string{q.Name, command.QueueState(q), command.Whole(q.Waiting), command.Whole(q.Delayed), command.Whole(q.Leased), command.Whole(q.Completed), command.Whole(q.Failed), command.QueueAge(q)}
	})
}

type queueStatsCmd struct {
	command.Remote
	api.OneQueue
}

func (c *queueStatsCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.GetQueue, &c.OneQueue, func(_ *command.Client, q *api.Queue) error {
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "queue\t%s, %s\nwaiting\t%d\ndelayed\t%d\nrunning\t%d\ncompleted\t%d, kept\nfailed\t%d, kept\noldest\t%s\n",
			command.Printable(q.Name), command.QueueState(q), q.Waiting, q.Delayed, q.Leased, q.Completed, q.Failed, command.QueueAge(q))
		for _, p := range q.Priorities {
			_, _ = fmt.Fprintf(w, "priority %d\t%s\n", p.Priority, command.Waits(p.Waiting, p.Oldest))
		}
		for _, t := range q.Tenants {
			_, _ = fmt.Fprintf(w, "tenant %s\t%s\n", command.Printable(t.Tenant), command.Waits(t.Waiting, t.Oldest))
		}
		printSettings(w, q.Settings)
		return w.Flush()
	})
}

type queueJobsCmd struct {
	command.Remote
	api.JobFilter
}

// Help is shown by tidemill queue jobs --help.
func (c *queueJobsCmd) Help() string {
	return `DUE is when a delayed job comes back.

  tidemill queue jobs s2s.dv360 --state delayed
  tidemill queue jobs ingest.high --tenant shop -n 20`
}

func (c *queueJobsCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "ID\tTENANT\tTYPE\tSTATE\tPRIORITY\tTRIES\tADDED\tDUE\tCAUSE", None: "No such jobs."}
	return command.List(ctx, e, c, api.ListJobs, &c.JobFilter, &t, func(j *api.Job) []string {
		return []string{j.ID, command.Short(j.Tenant, 36), command.Short(j.Type, 30), j.State, strconv.Itoa(int(j.Priority)), strconv.Itoa(j.Tries), j.Added.Format(time.RFC3339), command.Stamp(j.Due), command.Short(j.Cause, 80)}
	})
}

type queueShowCmd struct {
	command.Remote
	api.OneJob
	Payload bool `help:"Print only the payload: byte for byte, into a file or another program."`
}

func (c *queueShowCmd) Run(ctx context.Context, e command.Env) error {
	if c.Payload {
		return c.Ask(ctx, e, func(a *command.Client) error {
			j, err := api.GetJob.Call(ctx, &a.Client, &c.OneJob)
			if err != nil {
				return err
			}
			return command.PrintPayload(e, j.Payload, j.PayloadBase64)
		})
	}
	return command.Show(ctx, e, c, api.GetJob, &c.OneJob, func(_ *command.Client, j *api.Job) error { return printJob(e, j) })
}

// printJob shows a job to people.
func printJob(e command.Env, j *api.Job) error {
	w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "job\t%s\nqueue\t%s\ntenant\t%s\ntype\t%s\n", command.Printable(j.ID), command.Printable(j.Queue), command.Printable(j.Tenant), command.Printable(j.Type))
	state := j.State
	if j.Fate != "" {
		state += ": " + j.Fate
	}
	_, _ = fmt.Fprintf(w, "state\t%s\npriority\t%d\nkey\t%s\nhanded out\t%d times\nadded\t%s\n", state, j.Priority, command.ShownPayload(j.Key, j.KeyBase64), j.Handed, j.Added.Format(time.RFC3339))
	if j.Due != nil {
		_, _ = fmt.Fprintf(w, "due\t%s\n", j.Due.Format(time.RFC3339))
	}
	if j.Ended != nil {
		_, _ = fmt.Fprintf(w, "ended\t%s\n", j.Ended.Format(time.RFC3339))
	}
	for _, f := range j.Attempts {
		_, _ = fmt.Fprintf(w, "tried\t%s  %s  %s\n", f.At.Format(time.RFC3339), f.Kind, command.Printable(f.Cause))
	}
	if j.Cause != "" && len(j.Attempts) == 0 {
		_, _ = fmt.Fprintf(w, "cause\t%s\n", command.Printable(j.Cause))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := command.PrintFields(e.Out, j.Fields); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.Out, "\n%s\n", command.ShownPayload(j.Payload, j.PayloadBase64))
	return err
}
