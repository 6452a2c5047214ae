package windowsapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/answer/answertest"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// stage is windows that do not run: the test moves them.
type stage struct {
	*answertest.Stage
	*Finder
	store window.Store
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Stage: answertest.New(t)}
	var err error
	if s.store, err = tablewindow.Memory(window.Options{Owner: "host-1", Window: time.Minute, Lease: time.Minute, Now: s.Stage.Now}); err != nil {
		t.Fatal(err)
	}
	sys, err := windows.New(windows.Parts{Windows: s.store, DeadLetters: s.Letters, Out: windows.Each(queue.Sink(s.Queues))}, windows.Options{Now: s.Stage.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.Finder = &Finder{API: &API{Common: &answer.Common{}, Windows: sys}, Now: s.Stage.Now}
	return s
}

const (
	batch = "feed/7 𝄞"
	first = "/1772366400000" // revision
)

// puts puts records into a batch.
func (s *stage) puts(batch string, ids ...string) {
	s.Helper()
	var rs []window.Record
	for _, id := range ids {
		rs = append(rs, window.Record{Batch: record.NewBatch(project.ID("default"), batch).String(), Kind: "event", ID: id, Body: []byte(answertest.Secret)})
	}
	if err := s.store.Put(s.Context(), rs, nil); err != nil {
		s.Fatal(err)
	}
}

// sweeps closes what is over, a minute later.
func (s *stage) sweeps() {
	s.Helper()
	s.At = s.At.Add(time.Minute)
	if _, err := s.store.Sweep(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// hands hands a window out.
func (s *stage) hands() (tidemill.Source, *tidemill.Message) {
	s.Helper()
	source, into := s.store.Open(), []*tidemill.Message{{}}
	if n, err := source.Receive(s.Context(), into); n != 1 || err != nil {
		s.Fatal(n, err)
	}
	return source, into[0]
}

// ends hands a window out, and ends that.
func (s *stage) ends(end tidemill.Settlement) {
	s.Helper()
	source, m := s.hands()
	s.At = s.At.Add(time.Second)
	end.ID, end.Mark = m.ID, m.Mark
	all := []tidemill.Settlement{end}
	if err := source.Settle(s.Context(), all); err != nil || all[0].Outcome != tidemill.Applied {
		s.Fatal(all[0].Outcome, err)
	}
}

// TestEachStateOfAWindowIsExplained: the texts are what people read.
func TestEachStateOfAWindowIsExplained(t *testing.T) {
	of := func(revision, state, fate string, do func(*stage)) answertest.Told {
		return answertest.Told{State: state, Fate: fate, Of: func(t *testing.T) (answer.Finder, string, string) {
			s := newStage(t)
			s.puts(batch, "1", "2")
			do(s)
			return s, "default", batch + revision
		}}
	}
	told := func(state, fate string, do func(*stage)) answertest.Told { return of(first, state, fate, do) }
	answertest.Tells(t, "testdata/explain.golden", []answertest.Told{
		told("collecting", api.FateInFlight, func(*stage) {}),
		told("closed, and nothing delivers", api.FateInFlight, func(s *stage) { s.sweeps() }),
		told("being delivered", api.FateInFlight, func(s *stage) { s.sweeps(); s.hands() }),
		told("delivered by an instance that is gone", api.FateInFlight, func(s *stage) {
			s.sweeps()
			s.hands()
			s.At = s.At.Add(2 * time.Minute)
		}),
		told("tried again later", api.FateInFlight, func(s *stage) {
			s.sweeps()
			s.ends(tidemill.Settlement{End: tidemill.Again, After: 12 * time.Second, CountTry: true, Kind: tidemill.Transient, Cause: "no broker"})
		}),
		of("/1772366460000", "behind an older one", api.FateInFlight, func(s *stage) {
			s.sweeps()
			s.hands()
			s.puts(batch, "3")
			s.sweeps()
		}),
		told("parked", api.FateDead, func(s *stage) {
			s.sweeps()
			s.ends(tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Dead, Kind: tidemill.Internal, Cause: "a processor failed \x1b[2J"})
		}),
	})
}

func TestWhatIsFoundByItsID(t *testing.T) {
	s := newStage(t)
	s.puts(batch, "1")
	s.puts("other", "1")
	for _, c := range []struct{ id, owner, want string }{
		{batch + first, "", "windows: window " + batch + first + " of default"},
		{batch, "default", "batch ids: window " + batch + first + " of default"},
		{"other" + first, "", ""},
		{strings.Repeat("𝄞/ ", 100), "", ""},
		{"\x00\xff/1", "", ""},
	} {
		if got := strings.Join(answertest.Found(t, s, c.id, c.owner), ", "); got != c.want {
			t.Errorf("%q of %q:\n%s\nwant\n%s", c.id, c.owner, got, c.want)
		}
	}
}

func TestWhatNobodyKnowsIsNotFound(t *testing.T) {
	s := newStage(t)
	for _, id := range []string{"none", "none/1", "/", ""} {
		_, err := s.Explain(t.Context(), "", id)
		if p, ok := errors.AsType[*operation.Problem](err); !ok || p.Status != http.StatusNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}
