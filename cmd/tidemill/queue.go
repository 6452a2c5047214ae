package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/state/queue"
)

type queueCmd struct {
	List    queueListCmd    `cmd:"" help:"List the queues: what waits, what is out, how old the oldest is."`
	Stats   queueStatsCmd   `cmd:"" help:"Show one queue: its priorities, its deepest tenants, its limits."`
	Jobs    queueJobsCmd    `cmd:"" help:"List jobs of a queue, the oldest first."`
	Show    queueShowCmd    `cmd:"" help:"Show one job: payload, every failed try."`
	Edit    queueEditCmd    `cmd:"" help:"Replace the payload of a job that nobody works on."`
	Retry   queueRetryCmd   `cmd:"" help:"Let failed jobs wait again, as if they were added now."`
	Promote queuePromoteCmd `cmd:"" help:"Make jobs due that were put off."`
	Remove  queueRemoveCmd  `cmd:"" help:"Take out jobs that wait or were put off. They are counted as skipped."`
	Clean   queueCleanCmd   `cmd:"" help:"Forget jobs that have ended and are kept; take out those of other states too."`
	Pause   queuePauseCmd   `cmd:"" help:"Hand out nothing: jobs still come in, and wait."`
	Resume  queueResumeCmd  `cmd:"" help:"End a pause or a draining."`
	Drain   queueDrainCmd   `cmd:"" help:"Take no more jobs; work on what is there until none is left."`
	Limits  queueLimitsCmd  `cmd:"" help:"Show or change limits, weights and fairness of a queue."`
}

// queueLine is a queue as the API writes it.
type queueLine struct {
	Name                                        string
	Waiting, Delayed, Leased, Completed, Failed int64
	Age                                         float64 `json:"oldest_age_seconds"`
	Paused, Closed                              bool
	Priorities                                  []struct {
		Priority uint8
		Waiting  int64
		Oldest   time.Time `json:"oldest_added_at"`
	}
	Tenants []struct {
		Tenant  string
		Waiting int64
		Oldest  time.Time `json:"oldest_added_at"`
	}
	Settings queue.Settings
}

// held is how many jobs have not ended.
func (q *queueLine) held() int64 { return q.Waiting + q.Delayed + q.Leased }

// state says in a word what an operator has done to it.
func (q *queueLine) state() string {
	switch {
	case q.Paused && q.Closed:
		return "paused, draining"
	case q.Paused:
		return "paused"
	case q.Closed && q.held() == 0:
		return "drained"
	case q.Closed:
		return "draining"
	}
	return "open"
}

// age writes how old the oldest job is.
func (q *queueLine) age() string {
	if q.held() == 0 {
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
	return `WAITING jobs are due, DELAYED ones come back later, of which somebody works on those that are OUT; COMPLETED and FAILED ones are kept after their end. OLDEST is the age of the oldest that has not ended.`
}

func (c *queueListCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, "queues", nil, lineTo(e.out))
		}
		t := table{out: e.out, head: "QUEUE\tSTATE\tWAITING\tDELAYED\tOUT\tCOMPLETED\tFAILED\tOLDEST", none: "No queues."}
		err := a.lines(ctx, "queues", nil, func(line []byte) error {
			var q queueLine
			if err := json.Unmarshal(line, &q); err != nil {
				return err
			}
			return t.row(q.Name, q.state(), whole(q.Waiting), whole(q.Delayed), whole(q.Leased), whole(q.Completed), whole(q.Failed), q.age())
		})
		return t.end(err)
	})
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

// oneQueue is the argument of commands about one.
type oneQueue struct {
	remote
	Queue string `arg:"" help:"Its name, as tidemill queue list shows it."`
}

// path of the queue in the API.
func (c *oneQueue) path(more string) string { return "queues/" + url.PathEscape(c.Queue) + more }

type queueStatsCmd struct{ oneQueue }

func (c *queueStatsCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var raw json.RawMessage
		if err := a.get(ctx, c.path(""), nil, &raw); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, raw)
		}
		var q queueLine
		if err := json.Unmarshal(raw, &q); err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "queue\t%s, %s\nwaiting\t%d\ndelayed\t%d\nout\t%d\ncompleted\t%d, kept\nfailed\t%d, kept\noldest\t%s\n",
			printable(q.Name), q.state(), q.Waiting, q.Delayed, q.Leased, q.Completed, q.Failed, q.age())
		for _, p := range q.Priorities {
			_, _ = fmt.Fprintf(w, "priority %d\t%s\n", p.Priority, waits(p.Waiting, p.Oldest))
		}
		for _, t := range q.Tenants {
			_, _ = fmt.Fprintf(w, "tenant %s\t%s\n", printable(t.Tenant), waits(t.Waiting, t.Oldest))
		}
		printSettings(w, &q.Settings)
		return w.Flush()
	})
}

// jobLine is a job as the API writes it.
type jobLine struct {
	Queue, ID, Tenant, Type, State string
	Priority                       int
	Tries, Handed                  int
	Key                            string
	KeyBase64                      string     `json:"key_base64"`
	Added                          time.Time  `json:"added_at"`
	Due                            *time.Time `json:"due_at"`
	Ended                          *time.Time `json:"ended_at"`
	Fate, Cause                    string
	Payload                        string
	PayloadBase64                  string `json:"payload_base64"`
	Fields                         []fieldLine
	Attempts                       []attemptLine
}

// those choose jobs of a queue.
type those struct {
	Tenant string `help:"Only jobs of this tenant: a site, or a project's id." placeholder:"NAME"`
	Type   string `help:"Only jobs of this type: the event's." placeholder:"TYPE"`
	Until  string `help:"Only jobs that were added (or, of ended ones, ended) before this time: 2026-01-31T12:00:00Z, 2026-01-31, 24h (ago), 7d." placeholder:"TIME"`
	Max    int    `help:"At most so many, the oldest first." short:"n"`
}

func (t *those) query(ids []string) url.Values {
	q := query("tenant", t.Tenant, "type", t.Type, "until", moment(t.Until, when.End), "max", positive(t.Max))
	if len(ids) > 0 {
		q["id"] = ids
	}
	return q
}

type queueJobsCmd struct {
	oneQueue
	those
	State string `help:"Only jobs of this state: waiting, delayed, leased, completed or failed. Default: all that have not ended." enum:",waiting,delayed,leased,completed,failed" default:"" placeholder:"STATE"`
}

// Help is shown by tidemill queue jobs --help.
func (c *queueJobsCmd) Help() string {
	return `DUE is when a job comes back that was put off.

  tidemill queue jobs s2s.dv360 --state delayed
  tidemill queue jobs ingest.high --tenant shop -n 20`
}

func (c *queueJobsCmd) Run(ctx context.Context, e env) error {
	q := c.query(nil)
	if c.State != "" {
		q.Set("state", c.State)
	}
	return c.ask(ctx, e, func(a *client) error {
		if c.JSON {
			return a.lines(ctx, c.path("/jobs"), q, lineTo(e.out))
		}
		t := table{out: e.out, head: "ID\tTENANT\tTYPE\tSTATE\tPRIORITY\tTRIES\tADDED\tDUE\tCAUSE", none: "No such jobs."}
		err := a.lines(ctx, c.path("/jobs"), q, func(line []byte) error {
			var j jobLine
			if err := json.Unmarshal(line, &j); err != nil {
				return err
			}
			due := "-"
			if j.Due != nil {
				due = j.Due.Format(time.RFC3339)
			}
			return t.row(j.ID, short(j.Tenant, 36), short(j.Type, 30), j.State, strconv.Itoa(j.Priority), strconv.Itoa(j.Tries), j.Added.Format(time.RFC3339), due, short(j.Cause, 80))
		})
		return t.end(err)
	})
}

// oneJob is the arguments of commands about one.
type oneJob struct {
	oneQueue
	Job    string  `arg:"" name:"id" help:"The job's id, as tidemill queue jobs shows it."`
	Tenant *string `help:"Whose job it is; needed only where several tenants have one of that id. With it the job is found at once." placeholder:"NAME"`
}

func (c *oneJob) query() url.Values {
	q := url.Values{"id": {c.Job}}
	if c.Tenant != nil {
		q.Set("tenant", *c.Tenant)
	}
	return q
}

type queueShowCmd struct {
	oneJob
	Payload bool `help:"Print the payload alone: byte for byte, into a file or another program."`
}

func (c *queueShowCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var raw json.RawMessage
		if err := a.get(ctx, c.path("/job"), c.query(), &raw); err != nil {
			return err
		}
		var j jobLine
		if err := json.Unmarshal(raw, &j); err != nil {
			return err
		}
		switch {
		case c.Payload:
			return printPayload(e, j.Payload, j.PayloadBase64)
		case c.JSON:
			return printJSON(e.out, raw)
		}
		return j.print(e)
	})
}

// print shows a job to people.
func (j *jobLine) print(e env) error {
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
