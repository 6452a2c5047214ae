package admin

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/figures"
	"github.com/tidemill/tidemill/state/queue"
)

// When something wants attention.
const (
	refusedLately = 10 * time.Minute // a destination refused our credentials
	grownFor      = 10 * time.Minute // a queue grows
	grownBy       = 100              // jobs, and a tenth of what came in
	tooOld        = time.Hour        // a job
)

// wanted are what wants attention, by kind, the worst kind first.
type wanted struct {
	now time.Time
	of  [attentionKinds][]api.Attention
}

// Kinds of what wants attention, the worst first.
const (
	unbalanced = iota
	unread
	stopped
	credentials
	circuit
	failing
	unanswered
	off
	full
	growing
	old
	paused
	attentionKinds
)

var attentionNames = [attentionKinds]string{"unbalanced", "unread", "stopped", "credentials", "circuit", "errors", "unanswered", "off", "full", "growing", "old", "paused"}

// add adds one thing.
func (w *wanted) add(kind int, a api.Attention, since time.Time) {
	a.Kind, a.Since = attentionNames[kind], answer.When(since)
	w.of[kind] = append(w.of[kind], a)
}

// all are those things, the worst first.
func (w *wanted) all() []api.Attention {
	all := []api.Attention{}
	for _, of := range w.of {
		all = append(all, of...)
	}
	return all
}

// wantedByBooks is what the books of a system want.
func wantedByBooks(w *wanted, s api.SystemOverview, books []booksOf) {
	if s.Unread != "" {
		text := fmt.Sprintf("The books of %s cannot be read: %s.", s.Name, s.Unread)
		if s.AsOf != nil {
			text = fmt.Sprintf("The books of %s cannot be read: %s. What is shown is %v old.", s.Name, s.Unread, w.now.Sub(*s.AsOf).Round(time.Second))
		}
		w.add(unread, api.Attention{System: s.Name, Text: text, Advice: "See whether its store runs and can be reached; events wait until then.", Operation: "getDoctor"}, time.Time{})
	}
	if s.Balanced {
		return
	}
	for _, b := range books {
		text := ""
		switch n := b.off; {
		case n > 0:
			text = fmt.Sprintf("%d are missing in the books of %s: fewer ended or are in flight than were accepted.", n, b.pipeline)
		case n < 0:
			text = fmt.Sprintf("%d were counted twice in the books of %s: more ended or are in flight than were accepted.", -n, b.pipeline)
		case b.Lost > 0 && !b.letters:
			text = fmt.Sprintf("%d were lost at the source of %s.", b.Lost, b.pipeline)
		}
		if text != "" {
			w.add(unbalanced, api.Attention{System: s.Name, Pipeline: b.pipeline, Text: text, Advice: "Run tidemill audit: it says which part does not add up. Keep the data as they are.", Operation: "getAudit"}, time.Time{})
		}
	}
}

// wantedByPipeline is what a pipeline of this instance wants.
func (a *API) wantedByPipeline(w *wanted, system string, e *flow.Engine) {
	s, name := e.Stats(), e.Name()
	add := func(kind int, since time.Time, advice, operation, text string, args ...any) {
		w.add(kind, api.Attention{System: system, Pipeline: name, Text: fmt.Sprintf(text, args...), Advice: advice, Operation: operation, Here: true}, since)
	}
	switch s.State {
	case flow.Stopped:
		add(stopped, s.LastAt, "Look into the log for the cause, mend it, and restart this instance.", "getStatus", "Pipeline %s has stopped in this instance.", name)
	case flow.Paused:
		add(paused, time.Time{}, "Resume it when what it was paused for is done: tidemill resume "+name, "resumePipeline", "Pipeline %s is paused in this instance; what comes in waits.", name)
	}
	if last := a.standing.lastRefused(name); !last.IsZero() && w.now.Sub(last) < refusedLately {
		add(credentials, last, "Renew the credentials of the destination.", "getStatus", "The destination of %s refuses our credentials: %s.", name, s.Failure)
	} else if !s.Until.IsZero() {
		add(circuit, s.LastAt, "Mend the destination. It is tried again by itself.", "getStatus", "Nothing goes out of %s for now: %s.", name, s.Why)
	}
	if s.Errors > 0 && s.Last != nil {
		add(failing, s.LastAt, "See whether the store runs and has room.", "getDoctor", "%s has had %d errors in a row, the last: %v.", name, s.Errors, s.Last)
	}
}

// wantedBySystem is what a system of this instance says of itself.
func wantedBySystem(w *wanted, s *System) {
	if s.Unanswered == nil {
		return
	}
	if text := s.Unanswered(); text != "" {
		w.add(unanswered, api.Attention{System: s.Name, Text: text, Advice: "See whether the receiver runs, and acknowledges: tidemill doctor says what it checks.", Operation: "getDoctor", Here: true}, time.Time{})
	}
}

// wantedByQueue is what a queue wants.
func (a *API) wantedByQueue(w *wanted, q *queue.Standing) {
	st, is := &q.Stats, &q.Settings
	add := func(kind int, since time.Time, advice, operation, text string, args ...any) {
		w.add(kind, api.Attention{Queue: q.Queue, Text: fmt.Sprintf(text, args...), Advice: advice, Operation: operation}, since)
	}
	held := st.Waiting + st.Delayed + st.Leased
	if !is.Off.IsZero() {
		add(off, is.Off, "Mend the destination, then let its partner go on: tidemill partner close NAME", "getQueue", "The destination of queue %s is switched off: it failed for too long, or somebody switched it off.", q.Queue)
	}
	if is.Max > 0 && held >= int64(is.Max) {
		add(full, time.Time{}, "Let it drain, or raise its capacity.", "getQueue", "Queue %s is full: it holds %d jobs and may hold %d. Who adds jobs to it waits.", q.Queue, held, is.Max)
	}
	if is.Off.IsZero() && (is.Paused || is.Closed) {
		what := "is paused, for all instances: it hands out nothing"
		if !is.Paused {
			what = "is being drained: it takes no new jobs"
		}
		add(paused, time.Time{}, "Resume it when what it was stopped for is done: tidemill queue resume "+q.Queue, "resumeQueue", "Queue %s %s.", q.Queue, what)
	}
	if more := a.grown(queueSeries+q.Queue, w.now); more > 0 {
		add(growing, w.now.Add(-grownFor), "See what holds it back: its limits, its destination, the number of workers.", "getQueue", "Queue %s grows: %d more came in than ended in the last 10 minutes.", q.Queue, more)
	}
	if !is.Paused && (st.Waiting > 0 || st.Leased > 0 && st.Delayed == 0) && !st.Oldest.IsZero() && w.now.Sub(st.Oldest) > tooOld {
		add(old, st.Oldest, "See what holds it back: its limits, its destination, whether anybody works on it.", "getQueue", "The oldest job of queue %s came in %v ago.", q.Queue, w.now.Sub(st.Oldest).Round(time.Minute))
	}
}

// grown is by how much a queue has grown lately, where that is much; else 0.
func (a *API) grown(series string, now time.Time) (more int64) {
	points, _, _ := a.standing.history.History(series, figures.Hour)
	in, known := int64(0), 0
	for _, p := range points {
		if now.Sub(p.At) <= grownFor {
			in, more, known = in+int64(p.In), more+int64(p.In)-int64(p.Out)-int64(p.Failed), known+1
		}
	}
	if time.Duration(known)*figures.Step < grownFor/2 || more < grownBy || more < in/10 {
		return 0
	}
	return more
}
