package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/embedded/jobs"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// shop is a file of queues, and what its workers did.
type shop struct {
	*testing.T
	path string
	*jobs.Queues

	mu   sync.Mutex
	done []string
}

func newShop(t *testing.T) *shop {
	s := &shop{T: t, path: filepath.Join(t.TempDir(), "shop.db")}
	s.open()
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *shop) open() {
	s.Helper()
	q, err := jobs.Open(s.Context(), s.path, jobs.Options{})
	if err != nil {
		s.Fatal(err)
	}
	s.Queues = q
}

func (s *shop) add(ids ...string) {
	s.Helper()
	for _, id := range ids {
		if err := s.Add(s.Context(), &tidemill.Message{To: "mail", ID: id, Key: []byte("k"), Payload: []byte(id)}); err != nil {
			s.Fatal(err)
		}
	}
}

// work lets workers do jobs until n of them were done, and returns what Work did.
func (s *shop) work(n int, w jobs.Workers, do func(*tidemill.Message) error) error {
	ctx, stop := context.WithTimeout(s.Context(), time.Minute)
	defer stop()
	s.done = nil
	err := s.Work(ctx, "mail", func(_ context.Context, m *tidemill.Message) error {
		if err := do(m); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.done = append(s.done, m.ID); len(s.done) == n {
			stop()
		}
		return nil
	}, w)
	if len(s.done) != n {
		s.Errorf("%d jobs were done, want %d: %v", len(s.done), n, s.done)
	}
	return err
}

func (s *shop) letters() (all []string) {
	s.Helper()
	for l, err := range s.DeadLetters().List(s.Context(), deadletter.Filter{Pipeline: "mail"}) {
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %v %s", l.ID, l.Kind, l.Cause))
	}
	return all
}

// A job is done once, however often it is added, and what was not done is there after a restart.
func TestJobsOutliveTheProcess(t *testing.T) {
	s := newShop(t)
	s.add("a", "b", "a", "c")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.add("b")
	if err := s.work(3, jobs.Workers{}, func(*tidemill.Message) error { return nil }); err != nil {
		t.Error(err)
	}
	if slices.Sort(s.done); !slices.Equal(s.done, []string{"a", "b", "c"}) {
		t.Errorf("done were %v", s.done)
	}
	st, err := s.Store().Stats(t.Context(), "mail")
	if err != nil || st.Waiting+st.Delayed+st.Leased != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A failed attempt is repeated as often as Attempts says, then the job is a dead letter, and so
// is at once what no retry can mend. A dead letter that is replayed goes to the same workers.
func TestFailures(t *testing.T) {
	s := newShop(t)
	s.add("lucky", "unlucky", "invalid", "panics")
	tries := map[string]int{}
	var mu sync.Mutex
	mended := false
	do := func(m *tidemill.Message) error {
		mu.Lock()
		tries[m.ID]++
		n := tries[m.ID]
		mu.Unlock()
		switch {
		case mended || m.ID == "last":
		case m.ID == "lucky" && n < 3:
			return errors.New("not yet")
		case m.ID == "unlucky":
			return errors.New("never")
		case m.ID == "invalid":
			return tidemill.Fail(tidemill.Validation, "no address")
		case m.ID == "panics":
			panic("a bug")
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- s.Work(ctx, "mail", func(_ context.Context, m *tidemill.Message) error { return do(m) }, jobs.Workers{Backoff: time.Millisecond})
	}()
	for a := (tidemill.Books{}); a.Settled.Delivered < 1 || a.Settled.Dead < 3; {
		time.Sleep(time.Millisecond) // asks again, for as long as it takes
		var err error
		if a, err = s.Books(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := s.letters()
	slices.Sort(got)
	want := []string{"invalid validation work: no address", "panics internal work: panic: a bug", "unlucky transient work: never"}
	if !slices.Equal(got, want) || tries["lucky"] != 3 || tries["unlucky"] != 3 || tries["invalid"] != 1 {
		t.Errorf("dead letters %q, want %q; attempts %v", got, want, tries)
	}

	mended = true
	if n, err := s.DeadLetters().Replay(t.Context(), deadletter.Filter{Pipeline: "mail"}); n != 3 || err != nil {
		t.Errorf("Replay = %d, %v", n, err)
	}
	if err := s.work(3, jobs.Workers{}, do); err != nil {
		t.Error(err)
	}
	if got := s.letters(); got != nil {
		t.Errorf("after the replay there are %v", got)
	}
}

// Ordered jobs of one key go one after the other, also past a failed attempt.
func TestOrderedJobs(t *testing.T) {
	s := newShop(t)
	if _, err := s.Store().Set(t.Context(), "mail", func(set *queue.Settings) { set.Ordered = true }); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	s.add(want...)
	failed := false
	err := s.work(20, jobs.Workers{Backoff: time.Millisecond}, func(m *tidemill.Message) error {
		if m.ID == "03" && !failed {
			failed = true
			return errors.New("once")
		}
		return nil
	})
	if err != nil || !slices.Equal(s.done, want) {
		t.Errorf("%v: %v", err, s.done)
	}
}

func TestNonsense(t *testing.T) {
	s := newShop(t)
	do := func(context.Context, *tidemill.Message) error { return nil }
	if err := s.Work(t.Context(), "mail", do, jobs.Workers{Count: -1}); err == nil {
		t.Error("fewer than no workers work")
	}
	if err := s.Work(t.Context(), "", do, jobs.Workers{}); err == nil {
		t.Error("a queue without a name is worked on")
	}
	if q, err := jobs.Open(t.Context(), s.path, jobs.Options{}); err == nil {
		q.Close()
		t.Error("a file is opened twice")
	}
}
