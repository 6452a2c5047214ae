// Package answertest moves jobs for tests of what is answered about them: nothing runs, and the test
// says what happens to each.
package answertest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/golden"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// Stage has queues and dead letters in memory, at a time that the test sets.
type Stage struct {
	*testing.T
	At      time.Time
	Queues  *memoryqueue.Store
	Letters deadletter.Store

	sources map[string]tidemill.Source
}

// New is an empty stage on 1 March 2026, noon.
func New(t *testing.T) *Stage {
	t.Helper()
	s := &Stage{T: t, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), sources: map[string]tidemill.Source{}}
	s.Queues = memoryqueue.New(memoryqueue.Options{Now: s.Now})
	var err error
	if s.Letters, err = tabledeadletter.Memory(deadletter.Options{Now: s.Now}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Now is the stage's time.
func (s *Stage) Now() time.Time { return s.At }

// Keeps has a queue keep jobs that have ended.
func (s *Stage) Keeps(queues ...string) {
	s.Helper()
	for _, q := range queues {
		s.Sets(q, func(q *queue.Settings) { q.Completed, q.Failed = queue.Keep{Count: 100}, queue.Keep{Count: 100} })
	}
}

// Sets changes the settings of a queue.
func (s *Stage) Sets(q string, change func(*queue.Settings)) {
	s.Helper()
	if _, err := s.Queues.Set(s.Context(), q, change); err != nil {
		s.Fatal(err)
	}
}

// Adds adds a job.
func (s *Stage) Adds(m *tidemill.Message) {
	s.Helper()
	if err := s.Queues.Add(s.Context(), []*tidemill.Message{m}, nil); err != nil {
		s.Fatal(err)
	}
}

// Takes hands out the next job of a queue.
func (s *Stage) Takes(q string) *tidemill.Message {
	s.Helper()
	if s.sources[q] == nil {
		s.sources[q] = s.Queues.Open(q, queue.Options{})
	}
	into := []*tidemill.Message{{}}
	if n, err := s.sources[q].Receive(s.Context(), into); n != 1 || err != nil {
		s.Fatalf("receive from %s: %d, %v", q, n, err)
	}
	return into[0]
}

// Ends settles a job that was handed out, a second later.
func (s *Stage) Ends(q string, m *tidemill.Message, end tidemill.Settlement) {
	s.Helper()
	s.At = s.At.Add(time.Second)
	end.ID, end.Mark = m.ID, m.Mark
	if err := s.sources[q].Settle(s.Context(), []tidemill.Settlement{end}); err != nil {
		s.Fatal(err)
	}
}

// Dies makes a dead letter of a job that was handed out.
func (s *Stage) Dies(pipeline string, m *tidemill.Message, kind tidemill.Kind, cause string) {
	s.Helper()
	s.At = s.At.Add(time.Second)
	if err := s.Letters.Put(s.Context(), []tidemill.DeadLetter{{Message: m, Pipeline: pipeline, Kind: kind, Cause: cause, Tries: 3, At: s.At}}); err != nil {
		s.Fatal(err)
	}
	s.Ends(pipeline, m, tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Dead, Kind: kind, Cause: cause})
}

// Told is an event in some state, as it is explained.
type Told struct {
	State string
	Fate  string
	Of    func(*testing.T) (answer.Finder, string, string) // puts it there, and returns its owner and id
}

// Secret is in the payloads of tests, and in no text.
const Secret = "secret"

// Tells explains an event in each of these states, and compares the texts with a file.
func Tells(t *testing.T, file string, all []Told) {
	t.Helper()
	var b bytes.Buffer
	for _, c := range all {
		f, owner, id := c.Of(t)
		x, err := f.Explain(t.Context(), owner, id)
		if err != nil {
			t.Errorf("%s: %v", c.State, err)
			continue
		}
		text := x.Text()
		if x.Fate != c.Fate || len(x.Failed) > 0 {
			t.Errorf("%s: its fate is %s, want %s; %+v could not be asked", c.State, x.Fate, c.Fate, x.Failed)
		}
		if strings.Contains(text, Secret) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: it shows what is in the payload, or steers a terminal: %s", c.State, text)
		}
		fmt.Fprintf(&b, "==== %s\n%s\n", c.State, text)
	}
	golden.Same(t, file, b.Bytes())
}

// Found does all look-ups of an id, and returns what they found, a line each.
func Found(t *testing.T, f answer.Finder, id, owner string) (found []string) {
	t.Helper()
	for _, l := range f.Lookups(id, owner) {
		var hits []api.Thing
		var err error
		if l.Do != nil {
			hits, err = l.Do(t.Context())
		}
		if err != nil && tidemill.KindOf(err) != tidemill.NotFound {
			t.Errorf("%q: %s: %v", id, l.Where, err)
		}
		for _, h := range hits {
			found = append(found, fmt.Sprintf("%s: %s %s of %s", l.Where, h.Kind, h.ID, h.Owner))
		}
	}
	return found
}
