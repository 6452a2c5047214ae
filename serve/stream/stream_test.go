package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a topic that shows how often it was read.
type counter struct{ n atomic.Int64 }

func (c *counter) read(context.Context) (any, error) { return c.n.Add(1), nil }

// in runs a test in a bubble, with a hub.
func in(t *testing.T, do func(t *testing.T, h *Hub)) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Epoch: "e"})
		defer h.Close()
		do(t, h)
	})
}

func join(t *testing.T, h *Hub, last string, topics map[string]Read) *Viewer {
	t.Helper()
	v, err := h.Join(topics, last)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// next are the events that a viewer is sent now, as text.
func next(v *Viewer) (all []string) {
	synctest.Wait()
	for _, e := range v.Next() {
		all = append(all, fmt.Sprintf("%s %s=%s", e.ID, e.Topic, e.Data))
	}
	return all
}

func TestATopicIsReadOnceATickForAll(t *testing.T) {
	in(t, func(t *testing.T, h *Hub) {
		c := &counter{}
		time.Sleep(10 * time.Second)
		if c.n.Load() != 0 {
			t.Error("it was read while nobody looked")
		}
		var all []*Viewer
		for range 50 {
			all = append(all, join(t, h, "", map[string]Read{"a": c.read}))
		}
		for i := range 5 {
			for _, v := range all {
				if got := next(v); len(got) != 1 || got[0] != fmt.Sprintf("e-%d a=%d", i+1, i+1) {
					t.Fatalf("tick %d: %v", i, got)
				}
				if got := next(v); got != nil {
					t.Fatalf("sent again: %v", got)
				}
			}
			time.Sleep(time.Second)
		}
		for _, v := range all {
			v.Leave()
			v.Leave()
		}
		synctest.Wait()
		n := c.n.Load()
		if time.Sleep(time.Minute); c.n.Load() != n {
			t.Error("it is read though all have left")
		}
		v := join(t, h, "", map[string]Read{"a": c.read})
		if got := next(v); len(got) != 1 {
			t.Errorf("who comes later is sent %v", got)
		}
		v.Leave()
	})
}

func TestASlowViewerGetsTheNewestStateAlone(t *testing.T) {
	in(t, func(t *testing.T, h *Hub) {
		c := &counter{}
		v := join(t, h, "", map[string]Read{"a": c.read})
		defer v.Leave()
		next(v)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := next(v); len(got) != 1 || got[0] != fmt.Sprintf("e-%d a=%[1]d", c.n.Load()) {
			t.Errorf("a minute later it is sent %v", got)
		}
	})
}

func TestAViewerThatComesBackIsSentWhatItHasNotSeen(t *testing.T) {
	in(t, func(t *testing.T, h *Hub) {
		still := func(context.Context) (any, error) { return "same", nil }
		c := &counter{}
		stays := join(t, h, "", map[string]Read{"a": still, "b": c.read})
		defer stays.Leave()
		first := next(stays)
		if len(first) != 2 {
			t.Fatal(first)
		}
		last := "e-2"
		time.Sleep(1500 * time.Millisecond)
		back := join(t, h, last, map[string]Read{"a": still, "b": c.read})
		defer back.Leave()
		if got := next(back); len(got) != 1 || !strings.Contains(got[0], "b=2") {
			t.Errorf("who comes back is sent %v", got)
		}
		for _, other := range []string{"f-2", "e-99", "e-x", "nonsense"} {
			v := join(t, h, other, map[string]Read{"a": still})
			if got := next(v); len(got) != 1 {
				t.Errorf("who saw %q last is sent %v", other, got)
			}
			v.Leave()
		}
	})
}

func TestATopicThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	in(t, func(t *testing.T, h *Hub) {
		away := func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, errors.New("it is away")
		}
		large := func(context.Context) (any, error) { return strings.Repeat("x", MaxState), nil }
		c := &counter{}
		v := join(t, h, "", map[string]Read{"away": away, "c": c.read, "large": large})
		defer v.Leave()
		if got := next(v); len(got) != 2 || !strings.Contains(got[0], "c=1") || !strings.Contains(got[1], "too much") {
			t.Errorf("it is sent %v", got)
		}
		time.Sleep(within)
		if got := next(v); len(got) != 1 || !strings.Contains(got[0], "it is away") {
			t.Errorf("then it is sent %v", got)
		}
		if time.Sleep(within + restMost); c.n.Load() < 2 {
			t.Errorf("the other was read %d times", c.n.Load())
		}
	})
}

func TestATickTakesALittleOfTheTime(t *testing.T) {
	in(t, func(t *testing.T, h *Hub) {
		var reads atomic.Int64
		v := join(t, h, "", map[string]Read{"a": func(context.Context) (any, error) {
			time.Sleep(200 * time.Millisecond)
			return reads.Add(1), nil
		}})
		defer v.Leave()
		if time.Sleep(39 * time.Second); reads.Load() < 9 || reads.Load() > 11 {
			t.Errorf("in 39 s it was read %d times, each took 200 ms", reads.Load())
		}
	})
}

func TestViewersAreBounded(t *testing.T) {
	in(t, func(t *testing.T, h *Hub) {
		c := &counter{}
		var all []*Viewer
		for range Most {
			all = append(all, join(t, h, "", map[string]Read{"a": c.read}))
		}
		if _, err := h.Join(map[string]Read{"a": c.read}, ""); !errors.Is(err, ErrFull) {
			t.Errorf("one more: %v", err)
		}
		all[0].Leave()
		join(t, h, "", map[string]Read{"a": c.read})
		many := map[string]Read{}
		for i := range MaxTopics + 1 {
			many[fmt.Sprint(i)] = c.read
		}
		all[1].Leave()
		for _, topics := range []map[string]Read{nil, many} {
			if _, err := h.Join(topics, ""); err == nil || errors.Is(err, ErrFull) {
				t.Errorf("%d topics: %v", len(topics), err)
			}
		}
	})
}

// Many come and go at once, in real time.
func TestViewersComeAndGo(t *testing.T) {
	h := New(Options{Tick: time.Millisecond})
	c := &counter{}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 20 {
				v, err := h.Join(map[string]Read{fmt.Sprint(i % 3): c.read}, "")
				if err != nil {
					t.Error(err)
					return
				}
				for len(v.Next()) == 0 {
					<-v.Changed()
				}
				v.Leave()
			}
		})
	}
	all.Wait()
	h.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.topics)+len(h.viewers) != 0 {
		t.Errorf("%d topics and %d viewers are left", len(h.topics), len(h.viewers))
	}
}
