package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/operate"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// many are the dead letters, or the jobs, that somebody wants to change: one or all that a filter
// chooses. Each change of them goes this way, that of a request and that of an operation.
type many interface {
	operate.Things
	// parts are where they may be, in their order.
	parts() []string
	// count is how many of a part can be changed, at most most of them; 0: all.
	count(ctx context.Context, part string, most int) (int, error)
	// until leaves out what came or changed at a time or later.
	until(instant time.Time)
}

// dryWithin is how long a dry run counts.
const dryWithin = 2 * time.Second

// move changes the things that a request chooses; a dry run only counts them, for a while. It says how
// many also beside an error.
func (a *API) move(ctx context.Context, what string, q api.OperationThings, dry bool) (out api.Counted, err error) {
	of, err := a.manyOf(ctx, what, &q)
	if err == nil && !dry {
		err = a.freshFor(ctx, what, of, q.Max)
	}
	if err != nil {
		return out, err
	}
	within, end := ctx, func() {}
	if dry {
		within, end = context.WithTimeout(ctx, dryWithin)
	}
	defer end()
	n, err := moveMany(within, of, q.Max, dry)
	if dry && err != nil && ctx.Err() == nil && within.Err() != nil {
		out.AtLeast, err = true, nil
	}
	out.Count = n
	things := "jobs"
	if verbs[what].dead {
		things = "dead letters"
	}
	_, verb, _ := strings.Cut(what, ".")
	if verbs[what].dead {
		// Logged when somebody replayed or deleted dead letters at once, without an operation.
		a.Log.InfoContext(ctx, "dead letters moved by hand", "pipeline", q.Pipeline, "what", verb, "count", n, "dry_run", dry)
	} else {
		// Logged when somebody retried, promoted, removed or forgot jobs at once, without an operation.
		a.Log.InfoContext(ctx, "jobs moved by hand", "queue", q.Queue, "what", verb, "count", n, "dry_run", dry)
	}
	if err = answer.Answerable(err); err != nil && n > 0 {
		err = operation.Refuse(http.StatusConflict, "after %d %s: %v", n, things, err)
	}
	return out, err
}

// moveMany changes things, at most most of them (0: all); a dry run only counts them.
func moveMany(ctx context.Context, of many, most int, dry bool) (n int, err error) {
	for _, part := range of.parts() {
		left := 0
		if most > 0 {
			if left = most - n; left <= 0 {
				break
			}
		}
		var some int
		if dry {
			some, err = of.count(ctx, part, left)
		} else {
			some, err = of.Move(ctx, "", operate.Key{Part: part}, left)
		}
		if n += some; err != nil {
			return n, err
		}
	}
	return n, nil
}

// following are the parts from that of a key on, each with the key that its things follow.
func following(of many, after operate.Key) iter.Seq2[string, operate.Key] {
	return func(yield func(string, operate.Key) bool) {
		reached := after == operate.Key{}
		for _, part := range of.parts() {
			from := operate.Key{Part: part}
			if part == after.Part {
				reached, from = true, after
			}
			if reached && !yield(part, from) {
				return
			}
		}
	}
}

// firstOf lists the first things that follow a key, of one part, by a listing of parts.
func firstOf(of many, after operate.Key, list func(part string, from operate.Key) iter.Seq2[operate.Thing, error]) iter.Seq2[operate.Thing, error] {
	return func(yield func(operate.Thing, error) bool) {
		for part, from := range following(of, after) {
			any := false
			for t, err := range list(part, from) {
				if any = true; !yield(t, err) || err != nil {
					return
				}
			}
			if any {
				return
			}
		}
	}
}

// someDead are dead letters.
type someDead struct {
	a      *API
	f      deadletter.Filter
	stores []deadletter.Store
	replay bool // else they are deleted
}

func (d *someDead) parts() (names []string) {
	for _, s := range d.stores {
		names = append(names, d.a.nameOf(s))
	}
	return names
}

// in is the store that is a part.
func (d *someDead) in(part string) deadletter.Store {
	for _, s := range d.stores {
		if d.a.nameOf(s) == part {
			return s
		}
	}
	return d.stores[0]
}

func (d *someDead) until(instant time.Time) { bound(&d.f.Before, instant) }

// bound makes a filter's end as early as a time.
func bound(end *time.Time, instant time.Time) {
	if end.IsZero() || instant.Before(*end) {
		*end = instant
	}
}

// List implements operate.Things.
func (d *someDead) List(ctx context.Context, after operate.Key, most int) iter.Seq2[operate.Thing, error] {
	return firstOf(d, after, func(part string, from operate.Key) iter.Seq2[operate.Thing, error] {
		f := d.f
		f.AfterSeq, f.Max = int64(from.Lo), most
		return func(yield func(operate.Thing, error) bool) {
			for l, err := range lettersOf(ctx, d.in(part), f) {
				var t operate.Thing
				if err == nil {
					t = operate.Thing{Key: operate.Key{Part: part, Lo: uint64(l.Seq)}, ID: l.ID, Owner: l.Tenant, Sort: l.Kind.String(), Group: l.Pipeline, Cause: l.Cause, At: l.Last}
					if d.replay && l.Damaged != "" {
						t.Refused = "damaged"
					}
				}
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
	})
}

// Move implements operate.Things.
func (d *someDead) Move(ctx context.Context, group string, after operate.Key, most int) (int, error) {
	f := d.f
	if f.AfterSeq, f.Max = int64(after.Lo), most; group != "" {
		f.Pipeline = group
	}
	if d.replay {
		return d.in(after.Part).Replay(ctx, f)
	}
	return d.in(after.Part).Delete(ctx, f)
}

func (d *someDead) count(ctx context.Context, part string, most int) (int, error) {
	f := d.f
	f.Max = most
	return d.in(part).Count(ctx, f)
}

// replayedAtOnce is how many dead letters of a pipeline an operation lets be replayed at a time: the
// others can still be stopped.
const replayedAtOnce = 2000

// Waits implements operate.Things: a replay heeds the queue whose limits it uses up.
func (d *someDead) Waits(ctx context.Context, pipeline string) (string, error) {
	if !d.replay {
		return "", nil
	}
	if why, err := d.a.queueWaits(ctx, pipeline); why != "" || err != nil {
		return why, err
	}
	for _, s := range d.stores {
		n, err := s.Count(ctx, deadletter.Filter{Pipeline: pipeline, State: deadletter.Replaying, Max: replayedAtOnce})
		if err != nil {
			return "", err
		}
		if n >= replayedAtOnce {
			return fmt.Sprintf("%d dead letters of pipeline %s are being replayed: the others follow", n, pipeline), nil
		}
	}
	return "", nil
}

// queueWaits says why a queue hands out nothing now; empty: it does, or there is none.
func (a *API) queueWaits(ctx context.Context, name string) (string, error) {
	if a.Queues == nil {
		return "", nil
	}
	settings, err := a.Queues.Settings(ctx, name)
	if err != nil {
		return "", err
	}
	if settings.Paused {
		return fmt.Sprintf("queue %s is paused", name), nil
	}
	_, at, err := a.Queues.Turn(ctx, name, "", 0)
	if err == nil && at.After(a.Now()) {
		return fmt.Sprintf("the circuit of queue %s is open until %s", name, at.UTC().Format(time.RFC3339)), nil
	}
	return "", err
}

// someJobs are jobs of a queue, of some states.
type someJobs struct {
	a      *API
	f      queue.Filter
	states []queue.State
	do     func(context.Context, queue.Filter) (int, error)
	waits  bool // for a pause of the queue, and an open circuit
}

func (j *someJobs) parts() (names []string) {
	for _, s := range j.states {
		names = append(names, string(s))
	}
	return names
}

func (j *someJobs) until(instant time.Time) { bound(&j.f.Before, instant) }

// of is the filter of a part.
func (j *someJobs) of(after operate.Key, most int) queue.Filter {
	f := j.f
	f.State, f.After, f.Max = queue.State(after.Part), tidemill.Mark{Hi: after.Hi, Lo: after.Lo}, most
	return f
}

// List implements operate.Things.
func (j *someJobs) List(ctx context.Context, after operate.Key, most int) iter.Seq2[operate.Thing, error] {
	return firstOf(j, after, func(part string, from operate.Key) iter.Seq2[operate.Thing, error] {
		return answer.ShownAs(j.a.Queues.List(ctx, j.of(from, most)), func(of *queue.Job) operate.Thing {
			t := operate.Thing{Key: operate.Key{Part: part, Hi: of.Mark.Hi, Lo: of.Mark.Lo}, ID: of.ID, Owner: of.Tenant, Sort: of.Type, Group: j.f.Queue, Cause: of.Cause, At: of.Added}
			if !of.Ended.IsZero() {
				t.At = of.Ended
			}
			return t
		})
	})
}

// Move implements operate.Things.
func (j *someJobs) Move(ctx context.Context, _ string, after operate.Key, most int) (int, error) {
	return j.do(ctx, j.of(after, most))
}

func (j *someJobs) count(ctx context.Context, part string, most int) (int, error) {
	return j.a.countJobs(ctx, j.of(operate.Key{Part: part}, most))
}

// Waits implements operate.Things.
func (j *someJobs) Waits(ctx context.Context, queue string) (string, error) {
	if !j.waits {
		return "", nil
	}
	return j.a.queueWaits(ctx, queue)
}
