// Package stream shows figures live to many viewers. A topic is a view of figures; it is read once
// a tick for all viewers together, and not at all while nobody looks. A viewer is sent the newest
// state of a topic: one that is slow misses the states between, and nothing is kept for it.
//
//	h := stream.New(stream.Options{})
//	defer h.Close()
//	v, err := h.Join(map[string]stream.Read{"overview": read}, "")
//	defer v.Leave()
//	for { events := v.Next(); … <-v.Changed() }
package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of a hub.
const (
	Most      = 200             // viewers at once
	MaxTopics = 20              // of a viewer
	MaxState  = 64 << 10        // bytes of a topic's state; a larger one is an error
	dear      = 20              // a tick takes at most one part of so many of the time: 50 ms of a second
	restMost  = 5 * time.Second // between two ticks, whatever they take
	within    = 2 * time.Second // a reading
)

// ErrFull is what Join returns where as many look as may.
var ErrFull = fmt.Errorf("%d streams are open, and there are no more: ask for what they show every 10 seconds instead", Most)

// Read reads a topic's state, which is written as JSON. An error is shown as what Failed makes of it.
type Read func(context.Context) (any, error)

// Options tune a hub; the zero value is ready to use.
type Options struct {
	Tick   time.Duration                     // 0: a second
	Failed func(topic string, err error) any // what is shown of a topic that cannot be read; nil: {"error": …}
	Now    func() time.Time                  // nil: time.Now
	Epoch  string                            // of this process: what ids of events begin with; empty: the time of New
}

// Hub has the topics that somebody looks at.
type Hub struct {
	o     Options
	life  context.Context
	end   context.CancelFunc
	loops sync.WaitGroup

	mu      sync.Mutex // guards what follows
	topics  map[string]*topic
	viewers map[*Viewer]bool
	number  uint64 // of the newest event
	runs    bool   // run does
	wake    chan struct{}
}

// topic is what is known of one.
type topic struct {
	read   Read
	state  []byte // the newest; nil: it was not read yet
	number uint64 // of the event that has it
	seen   int    // viewers
}

// Event is the state of a topic.
type Event struct {
	ID    string
	Topic string
	Data  []byte // JSON in one line, not to be changed
}

// New makes a hub. Close ends it.
func New(o Options) *Hub {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Tick, o.Epoch = cmp.Or(o.Tick, time.Second), cmp.Or(o.Epoch, strconv.FormatInt(o.Now().UnixNano(), 36))
	if o.Failed == nil {
		o.Failed = func(_ string, err error) any { return map[string]string{"error": err.Error()} }
	}
	h := &Hub{o: o, topics: map[string]*topic{}, viewers: map[*Viewer]bool{}, wake: make(chan struct{}, 1)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Close ends the readings, and what viewers wait for.
func (h *Hub) Close() {
	h.end()
	h.loops.Wait()
}

// Viewer is somebody who looks at topics. It is used by one goroutine.
type Viewer struct {
	hub     *Hub
	changed chan struct{}
	sent    map[string]uint64 // by topic: the number of the event that was sent last
}

// Join looks at topics until Leave. last is the id of the event that the viewer saw last: states that
// it has seen are not sent again; empty, or of another process: all are.
func (h *Hub) Join(topics map[string]Read, last string) (*Viewer, error) {
	if len(topics) == 0 || len(topics) > MaxTopics {
		return nil, fmt.Errorf("%d topics: want 1 to %d", len(topics), MaxTopics)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= Most {
		return nil, ErrFull
	}
	v := &Viewer{hub: h, changed: make(chan struct{}, 1), sent: map[string]uint64{}}
	saw := h.numberOf(last)
	for name, read := range topics {
		t := h.topics[name]
		if t == nil {
			t = &topic{read: read}
			h.topics[name] = t
		}
		t.seen++
		v.sent[name] = saw
	}
	if h.viewers[v] = true; !h.runs && h.life.Err() == nil {
		h.runs = true
		h.loops.Go(h.run)
	}
	ring(h.wake) // a topic that is new is read at once
	ring(v.changed)
	return v, nil
}

// numberOf is the number in an id; 0: it is none of this process.
func (h *Hub) numberOf(id string) uint64 {
	text, ok := strings.CutPrefix(id, h.o.Epoch+"-")
	n, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil || n > h.number {
		return 0
	}
	return n
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Leave ends the viewing.
func (v *Viewer) Leave() {
	h := v.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.viewers[v] {
		return
	}
	delete(h.viewers, v)
	for name := range v.sent {
		if h.topics[name].seen--; h.topics[name].seen == 0 {
			delete(h.topics, name)
		}
	}
	ring(h.wake) // nobody may be left
}

// Changed says that Next may have something.
func (v *Viewer) Changed() <-chan struct{} { return v.changed }

// Next are the newest states that the viewer has not been sent, in order of their topics.
func (v *Viewer) Next() (events []Event) {
	h := v.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, sent := range v.sent {
		if t := h.topics[name]; t != nil && t.state != nil && t.number > sent {
			v.sent[name] = t.number
			events = append(events, Event{ID: h.o.Epoch + "-" + strconv.FormatUint(t.number, 10), Topic: name, Data: t.state})
		}
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Topic, b.Topic) })
	return events
}

// run reads the topics each tick, while anybody looks. The next viewer begins it anew.
func (h *Hub) run() {
	for h.goesOn() {
		began := h.o.Now()
		h.read(func(*topic) bool { return true })
		cost := h.o.Now().Sub(began)
		h.rest(min(max(h.o.Tick-cost, (dear-1)*cost), restMost))
	}
}

// goesOn says whether anybody looks. If not, run ends.
func (h *Hub) goesOn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = len(h.viewers) > 0 && h.life.Err() == nil
	return h.runs
}

// rest waits for the next tick, or until nobody looks, and reads what is new meanwhile.
func (h *Hub) rest(d time.Duration) {
	next := time.NewTimer(d)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			return
		case <-h.life.Done():
			return
		case <-h.wake:
			h.mu.Lock()
			over := len(h.viewers) == 0
			h.mu.Unlock()
			if over {
				return
			}
			h.read(func(t *topic) bool { return t.state == nil })
		}
	}
}

// read reads some topics, at the same time: a store that is away holds up its own alone.
func (h *Hub) read(which func(*topic) bool) {
	ctx, cancel := context.WithTimeout(h.life, within)
	defer cancel()
	var reading sync.WaitGroup
	h.mu.Lock()
	for name, t := range h.topics {
		if which(t) {
			reading.Go(func() { h.set(name, t, h.stateOf(ctx, name, t.read)) })
		}
	}
	h.mu.Unlock()
	reading.Wait()
}

// stateOf reads a topic's state in JSON.
func (h *Hub) stateOf(ctx context.Context, name string, read Read) []byte {
	v, err := read(ctx)
	if err == nil {
		b, err2 := json.Marshal(v)
		if err = err2; err == nil && len(b) <= MaxState {
			return b
		}
		err = cmp.Or(err, errLarge)
	}
	b, _ := json.Marshal(h.o.Failed(name, err))
	return b[:min(len(b), MaxState)]
}

var errLarge = errors.New("there is too much to be shown live: ask for it instead")

// set makes a state the newest, where it is another one, and tells those who look at it.
func (h *Hub) set(name string, t *topic, state []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics[name] != t || string(t.state) == string(state) {
		return
	}
	h.number++
	t.state, t.number = state, h.number
	for v := range h.viewers {
		if _, ok := v.sent[name]; ok {
			ring(v.changed)
		}
	}
}
