package flow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// memorySource is a small real source: it hands out what was added, oldest first, takes
// each settlement once, brings messages back after a delay, and keeps books.
type memorySource struct {
	traits tidemill.Traits

	mu      sync.Mutex // guards all below
	ready   []*entry
	out     map[uint64]*entry // handed out, by position
	ends    []tidemill.Settlement
	settled map[string]int // ends applied, by id
	wake    chan struct{}
	added   uint64
	reads   int
	fail    []error // Receive returns these first
	tell    []error // Settle returns these first
	keeps   []time.Time
	gates   []gateCall
	shut    time.Time
	probes  int
	half    bool                       // Settle applies only the first half when it fails
	change  func(*tidemill.Settlement) // what Settle makes of an end before it applies it
	lost    []string                   // left
	lease   time.Duration              // what was left comes again after this; 0: never
}

type entry struct {
	m   tidemill.Message
	pos uint64
	at  time.Time // not before
}

type gateCall struct {
	until  time.Time
	probes int
}

func newSource(traits tidemill.Traits) *memorySource {
	return &memorySource{traits: traits, out: map[uint64]*entry{}, settled: map[string]int{}, wake: make(chan struct{})}
}

func (s *memorySource) Traits() tidemill.Traits { return s.traits }

// add adds messages; those without an id get their number.
func (s *memorySource) add(ms ...tidemill.Message) *memorySource {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range ms {
		s.added++
		if m.ID == "" {
			m.ID = fmt.Sprint(s.added)
		}
		s.ready = append(s.ready, &entry{m: m, pos: s.added})
	}
	s.ring()
	return s
}

func (s *memorySource) ring() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *memorySource) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		s.mu.Lock()
		if len(s.fail) > 0 {
			err := s.fail[0]
			s.fail = s.fail[1:]
			s.mu.Unlock()
			return 0, err
		}
		n, now, next := 0, time.Now(), time.Time{}
		if now.Before(s.shut) {
			next = s.shut
		} else {
			rest := s.ready[:0]
			for _, e := range s.ready {
				if n == len(into) || s.probes > 0 && len(s.out) >= s.probes || e.at.After(now) {
					if e.at.After(now) && (next.IsZero() || e.at.Before(next)) {
						next = e.at
					}
					rest = append(rest, e)
					continue
				}
				e.m.Handed++
				m := into[n]
				*m = e.m
				m.Payload, m.Header = append([]byte(nil), e.m.Payload...), slices.Clone(e.m.Header)
				m.Mark = tidemill.Mark{Lo: e.pos, Epoch: uint32(e.m.Handed)}
				s.out[e.pos] = e
				n++
			}
			s.ready = rest
		}
		wake := s.wake
		if n > 0 {
			s.reads++
			s.mu.Unlock()
			return n, nil
		}
		s.mu.Unlock()
		opens := make(<-chan time.Time)
		if d := time.Until(next); d > 0 {
			opens = time.After(d)
		}
		select {
		case <-wake:
		case <-opens:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (s *memorySource) Settle(_ context.Context, ends []tidemill.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if len(s.tell) > 0 {
		err, s.tell = s.tell[0], s.tell[1:]
	}
	for i := range ends {
		if err != nil && (!s.half || i >= len(ends)/2) {
			return err
		}
		s.end(&ends[i])
	}
	return err
}

func (s *memorySource) end(end *tidemill.Settlement) {
	pos := end.Mark.Lo
	if end.Mark == (tidemill.Mark{}) {
		for p, e := range s.out {
			if e.m.ID == end.ID {
				pos = p
			}
		}
	}
	e := s.out[pos]
	if e == nil || end.Mark.Epoch != 0 && end.Mark.Epoch != uint32(e.m.Handed) {
		end.Outcome = tidemill.Stale
		return
	}
	if s.change != nil {
		s.change(end)
	}
	end.Outcome = tidemill.Applied
	copied := *end
	copied.Next = slices.Clone(end.Next)
	s.ends = append(s.ends, copied)
	switch end.End {
	case tidemill.Done:
		delete(s.out, pos)
		s.settled[end.ID]++
		s.ring()
	case tidemill.Left:
		s.lost = append(s.lost, end.ID)
		if s.lease > 0 {
			delete(s.out, pos)
			s.putOff(e, s.lease)
		}
	case tidemill.Again:
		delete(s.out, pos)
		if end.CountTry {
			e.m.Tries++
		}
		s.putOff(e, end.After)
	}
}

// putOff brings a message back after a time; the lock is held.
func (s *memorySource) putOff(e *entry, d time.Duration) {
	e.at = time.Now().Add(d)
	s.ready = append(s.ready, e)
	slices.SortFunc(s.ready, func(a, b *entry) int { return cmp.Compare(a.pos, b.pos) })
	s.ring()
}

// balance fails the test unless every message added is settled exactly once.
func (s *memorySource) balance(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.settled)) {
		if n := s.settled[id]; n != 1 {
			t.Errorf("message %s: %d ends applied, want 1", id, n)
		}
	}
	if len(s.settled) != int(s.added) {
		t.Errorf("%d messages were added, %d ended; %d wait, %d are out", s.added, len(s.settled), len(s.ready), len(s.out))
	}
}

// fates lists how each message ended: "1 delivered", in the order of settlement.
func (s *memorySource) fates() (l []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ends {
		switch e.End {
		case tidemill.Done:
			l = append(l, e.ID+" "+e.Fate.String())
		case tidemill.Again:
			l = append(l, fmt.Sprintf("%s again %v burn=%v", e.ID, e.After, e.CountTry))
		default:
			l = append(l, e.ID+" left")
		}
	}
	return l
}

// leasing adds what a source with leases has.
type leasing struct{ *memorySource }

func (s leasing) Keep(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeps = append(s.keeps, time.Now())
	return nil
}

// gated adds what a source with a gate has.
type gated struct{ *memorySource }

func (s gated) Gate(_ context.Context, until time.Time, probes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = append(s.gates, gateCall{until, probes})
	s.shut, s.probes = until, probes
	s.ring()
	return nil
}

func (s gated) told() []gateCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.gates)
}

// letters is a small real store of dead letters.
type letters struct {
	mu   sync.Mutex // guards all below
	put  map[string]tidemill.DeadLetter
	mark map[string]tidemill.Mark
	fail []error
	has  []error
	puts int
}

func (l *letters) Put(_ context.Context, ls []tidemill.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.puts++; len(l.fail) > 0 {
		err := l.fail[0]
		l.fail = l.fail[1:]
		return err
	}
	if l.put == nil {
		l.put, l.mark = map[string]tidemill.DeadLetter{}, map[string]tidemill.Mark{}
	}
	for _, x := range ls {
		m := *x.Message // it is the engine's, and so is its memory
		m.Payload = slices.Clone(m.Payload)
		x.Message, x.Row = &m, slices.Clone(x.Row)
		l.put[m.ID], l.mark[m.ID] = x, m.Mark
	}
	return nil
}

func (l *letters) Has(_ context.Context, _ string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.has) > 0 {
		err := l.has[0]
		l.has = l.has[1:]
		return nil, err
	}
	has := make([]bool, len(ids))
	for i, id := range ids {
		m, ok := l.mark[id]
		has[i] = ok && m.At(marks[i])
	}
	return has, nil
}

// start runs an engine in the background of a bubble; the returned stop ends it, waits, and
// looks whether anything is left.
func start(t *testing.T, p flow.Pipeline) (*flow.Engine, func() error) {
	t.Helper()
	e, err := flow.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- e.Run(ctx) }()
	return e, func() error {
		cancel()
		err := <-result
		atRest(t, e, err)
		return err
	}
}

// atRest fails the test where an engine that has stopped still counts something as held, or
// somebody as waiting.
func atRest(t *testing.T, e *flow.Engine, err error) {
	t.Helper()
	time.Sleep(time.Nanosecond)
	st := e.Stats()
	if time.Since(st.Turned) <= 0 {
		t.Error("after the stop somebody waits on purpose")
	}
	if err == nil && st.InFlight != 0 {
		t.Errorf("%d are held after the stop", st.InFlight)
	}
	for i, l := range st.Lanes {
		if l.Held != 0 && err == nil || l.Buffered != 0 {
			t.Errorf("lane %d holds %d after the stop, %d of them in its ring", i, l.Held, l.Buffered)
		}
	}
}

// rest lets time pass in a bubble, until no goroutine has anything to do.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// each is work on one message at a time.
type each func(context.Context, *flow.Task) error

func (f each) work(flow.Env) flow.Work { return f }
func (f each) Do(ctx context.Context, batch []*flow.Task) error {
	for _, t := range batch {
		if err := f(ctx, t); err != nil {
			t.Fail(err)
		}
	}
	return nil
}

// batches is work on a batch.
type batches func(context.Context, []*flow.Task) error

func (f batches) work(flow.Env) flow.Work                          { return f }
func (f batches) Do(ctx context.Context, batch []*flow.Task) error { return f(ctx, batch) }

func ids(batch []*flow.Task) (l []string) {
	for _, t := range batch {
		l = append(l, t.ID)
	}
	return l
}

func messages(n int) []tidemill.Message { return make([]tidemill.Message, n) }

var errDown = errors.New("down")

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
