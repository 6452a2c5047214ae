package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// A Story puts an explanation together, of parts that may each be away.
type Story struct {
	api.Explanation
	Now   time.Time
	known bool // something is known of the event
}

// NewStory begins the story of a thing of a system.
func NewStory(system, kind, owner, id string, now time.Time) *Story {
	return &Story{Now: now, Explanation: api.Explanation{System: system, Kind: kind, Owner: owner, ID: id, Fate: api.FateUnknown,
		Steps: []api.Step{}, Next: []string{}, Unknown: []string{}, Failed: []api.Looked{}, AsOf: now.UTC()}}
}

// Step adds something that happened; without a time it is the case now.
func (s *Story) Step(at time.Time, what, where, text string, related ...api.Thing) {
	s.known = true
	if text != "" {
		s.Steps = append(s.Steps, api.Step{At: When(at), What: what, Where: where, Text: text, Related: related})
	}
}

// Asked says whether a part could be asked; else it is noted. What is not found is no failure.
func (s *Story) Asked(where string, err error) bool {
	switch {
	case err == nil:
		return true
	case tidemill.KindOf(err) == tidemill.NotFound:
	default:
		s.Failed = append(s.Failed, api.Looked{System: s.System, Where: where, Why: Away(err)})
	}
	return false
}

// Away says why a part could not be asked.
func Away(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it did not answer in time"
	}
	return err.Error()
}

// Ends sets what became of it, in a sentence.
func (s *Story) Ends(fate, format string, args ...any) {
	s.Fate, s.Summary = fate, fmt.Sprintf(format, args...)
}

// Then says what comes next, and when; zero: at no known time.
func (s *Story) Then(at time.Time, format string, args ...any) {
	s.Next = append(s.Next, fmt.Sprintf(format, args...)+s.in(at))
	if !at.IsZero() && (s.NextAt == nil || at.Before(*s.NextAt)) {
		s.NextAt = When(at)
	}
}

// in is how far off a time is.
func (s *Story) in(at time.Time) string {
	d := at.Sub(s.Now).Round(time.Second)
	switch {
	case at.IsZero():
		return ""
	case d <= 0:
		return ", which is now"
	}
	return fmt.Sprintf(" at %s, in %v", at.UTC().Format(time.RFC3339), d)
}

// Forgot says what is not known, or no longer, and why.
func (s *Story) Forgot(format string, args ...any) {
	s.Unknown = append(s.Unknown, fmt.Sprintf(format, args...))
}

// Many is a number of things.
func Many[N int | int64](n N, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// Long is a time of hours or days, as people say it.
func Long(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d > day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return d.String()
}

// Tell is the explanation, its steps in order, beginning with what was said first where that is
// that it came in: places whose clocks differ may have later steps before it. A problem where nothing is known of the thing, and all
// could be asked.
func (s *Story) Tell() (api.Explanation, error) {
	e := s.Explanation
	if !s.known && len(s.Failed) == 0 {
		return e, operation.Refuse(http.StatusNotFound, "nothing is known of %s %q%s: it never came, or all that was kept of it is forgotten", s.Kind, s.ID, of(s.Owner))
	}
	if e.Summary == "" {
		e.Summary = "what became of it is not known"
	}
	if len(e.Steps) > 0 && e.Steps[0].What == "accepted" {
		for _, later := range e.Steps[1:] {
			if e.Steps[0].At != nil && later.At != nil && later.At.Before(*e.Steps[0].At) {
				e.Steps[0].At = later.At
			}
		}
	}
	slices.SortStableFunc(e.Steps, func(a, b api.Step) int {
		switch {
		case a.At == nil || b.At == nil:
			return cmp.Compare(untimed(a), untimed(b))
		}
		return a.At.Compare(*b.At)
	})
	for i := 1; i < len(e.Steps); i++ {
		if a, b := e.Steps[i-1].At, e.Steps[i].At; a != nil && b != nil {
			after := b.Sub(*a).Seconds()
			e.Steps[i].After = &after
		}
	}
	return e, nil
}

func untimed(s api.Step) int {
	if s.At == nil {
		return 1
	}
	return 0
}

func of(owner string) string {
	if owner == "" {
		return ""
	}
	return fmt.Sprintf(" of %q", owner)
}

// Tried adds failed tries.
func (s *Story) Tried(where string, failures []queue.Failure) {
	for _, f := range failures {
		s.Step(f.At, "tried", where, fmt.Sprintf("a try failed, %v: %s", f.Kind, f.Cause))
	}
}

// Letter adds a dead letter: each time that the message died, its edit, and its replay.
func (s *Story) Letter(l *deadletter.Letter) {
	where, hit := "dead letters of "+l.Pipeline, s.LetterHit(l)
	s.Tried(l.Pipeline, queue.FailuresOf(&l.Message))
	for i, f := range l.History {
		times := ""
		if f.Tries > 1 {
			times = fmt.Sprintf(" after %d tries", f.Tries)
		}
		what := "it became a dead letter"
		if i > 0 {
			what = "a replay failed, and it is a dead letter again"
		}
		s.Step(f.At, "dead", where, fmt.Sprintf("%s%s, %v: %s", what, times, f.Kind, f.Cause), hit)
	}
	if len(l.History) == deadletter.MaxHistory {
		s.Forgot("its first failures, if there were more: a dead letter keeps the last %d", deadletter.MaxHistory)
	}
	if !l.Edited.IsZero() {
		s.Step(l.Edited, "edited", where, "its payload was replaced by hand; the original is kept beside it", hit)
	}
	if l.Damaged != "" {
		s.Step(time.Time{}, "dead", where, "its stored bytes are damaged: "+l.Damaged, hit)
	}
	if l.State == deadletter.Replaying {
		s.Step(time.Time{}, "replaying", where, "it is being replayed", hit)
	}
}

// GivenUp ends the story with a dead letter, and says what comes next of it, unless it is being
// replayed.
func (s *Story) GivenUp(l *deadletter.Letter, next string) {
	if l.State == deadletter.Replaying {
		s.Ends(api.FateInFlight, "its dead letter is being replayed")
		s.Then(time.Time{}, "the replay ends it, or it is a dead letter again")
		return
	}
	s.Ends(api.FateDead, "it was given up, and is a dead letter: %v", l.Kind)
	s.Then(time.Time{}, "%s", next)
}

// LetterHit is a dead letter.
func (s *Story) LetterHit(l *deadletter.Letter) api.Thing { return LetterHit(s.System, l) }

// LetterHit is a dead letter of a system.
func LetterHit(system string, l *deadletter.Letter) api.Thing {
	text := fmt.Sprintf("dead letter %d of %s, %s since %s: %v", l.Seq, l.Pipeline, l.State, l.Last.UTC().Format(time.RFC3339), l.Kind)
	h := api.Thing{Kind: "dead_letter", System: system, Owner: l.Tenant, ID: strconv.FormatInt(l.Seq, 10), Text: text, Operation: api.GetDead.ID,
		Parameters: map[string]string{"letter": strconv.FormatInt(l.Seq, 10), "pipeline": l.Pipeline}}
	if system != "" {
		h.Parameters["system"] = system
	}
	return h
}

// Waiting says what a job that has not ended waits for, and what comes next of it.
func (s *Story) Waiting(ctx context.Context, queues queue.Store, j *queue.Job) {
	is, err := queues.Settings(ctx, j.To)
	if !s.Asked("settings of queue "+j.To, err) {
		return
	}
	_, gate, err := queues.Turn(ctx, j.To, j.Tenant, 0)
	if !s.Asked("limits of queue "+j.To, err) {
		return
	}
	hit := JobHit(s.System, j.To, j.Tenant, j.ID, "its job in "+j.To)
	now := func(what, text string) { s.Step(time.Time{}, what, j.To, text, hit) }
	switch limit := is.LimitOf(j.Tenant); {
	case j.State == queue.Leased:
		now("running", fmt.Sprintf("a worker has it, hand-out %d; queues do not note which instance", j.Handed))
		s.Then(time.Time{}, "it ends, or is handed out again when its lease is over")
	case is.Paused:
		now("waiting", fmt.Sprintf("it waits, priority %d: queue %s is paused", j.Priority, j.To))
		s.Then(is.PausedUntil, "it goes on when the queue is resumed")
	case gate.After(s.Now):
		now("waiting", fmt.Sprintf("it waits, priority %d: what its queue delivers to is left alone for a while, since it failed", j.Priority))
		s.Then(gate, "it is tried again")
	case j.State == queue.Delayed && j.Cause != "":
		now("waiting", fmt.Sprintf("it waits for its next try, after: %s", j.Cause))
		s.Then(j.At, "it is tried again")
	case j.State == queue.Delayed:
		now("waiting", "it is not due yet")
		s.Then(j.At, "it is due")
	default:
		now("waiting", fmt.Sprintf("it waits for its turn, priority %d%s%s", j.Priority, ordered(&is, j), limited(is.Limit, limit)))
		s.Then(time.Time{}, "it is handed out when its turn comes")
	}
}

// ordered says that jobs of a key wait for each other.
func ordered(is *queue.Settings, j *queue.Job) string {
	if is.Ordered && len(j.Key) > 0 {
		return "; jobs of its key go one after the other"
	}
	return ""
}

// limited names the limits that a job may wait for.
func limited(of, tenant queue.Limit) (text string) {
	for _, l := range []struct {
		whose string
		queue.Limit
	}{{"the queue's", of}, {"its owner's", tenant}} {
		if l.PerSecond > 0 {
			text += fmt.Sprintf("; %s limit is %g a second", l.whose, l.PerSecond)
		}
		if l.AtOnce > 0 {
			text += fmt.Sprintf("; %s limit is %d at once", l.whose, l.AtOnce)
		}
	}
	return text
}
