//go:build servers

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/promise"
)

// farOptions say how the subscriber behaves in addition to acknowledging in singles and in
// batches.
type farOptions struct {
	Plain  bool // it acknowledges everything at once, in batches
	Buries bool // it always refuses a few entries: only if the broker forgets nothing
}

// farSide is the subscriber. It records all messages of the bridges, and answers: most at once,
// some twice or late, some with a few refusals before, and with unknown ids.
type farSide struct {
	w      *bridgeWorld
	o      farOptions
	rnd    *rand.Rand
	read   *mqttconn.Client
	send   *mqttconn.Client
	silent atomic.Bool // it gets everything and says nothing
	late   []lateAck

	mu    sync.Mutex                // guards what follows
	seen  map[string]*promise.Heard // by id
	odd   []string                  // messages that are not a bridge's
	count map[string]int
}

type lateAck struct {
	at time.Time
	id string
}

func newFarSide(w *bridgeWorld, o farOptions) *farSide {
	w.Helper()
	f := &farSide{w: w, o: o, rnd: rand.New(rand.NewPCG(w.rnd.Uint64(), 0)), seen: map[string]*promise.Heard{}, count: map[string]int{}}
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	open := func(role string) *mqttconn.Client {
		c, err := mqttconn.Open(ctx, []string{"tcp://" + w.mosquitto.Addr}, mqttconn.Options{ClientID: testenv.Name(role),
			MaxDelay: 200 * time.Millisecond, Patience: 200 * time.Millisecond, Inbox: 5000})
		if err != nil {
			w.Fatal(err)
		}
		return c
	}
	f.read, f.send = open("far-in"), open("far-out")
	if err := f.read.Subscribe(ctx, mqttconn.Subscription{Filter: outTopic, QoS: 1}, mqttconn.Subscription{Filter: deadTopic, QoS: 1}); err != nil {
		w.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { f.run(running) })
	w.Cleanup(func() {
		stop()
		ended.Wait()
		for _, c := range []*mqttconn.Client{f.read, f.send} {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = c.Close(ctx) // the broker may be gone
			cancel()
		}
	})
	return f
}

// run receives and answers until ctx ends.
func (f *farSide) run(ctx context.Context) {
	into := make([]mqttconn.Delivery, 1000)
	due := time.NewTicker(20 * time.Millisecond)
	defer due.Stop()
	for {
		n, err := f.read.ReceiveOr(ctx, into, nil, due.C)
		if err != nil {
			return
		}
		var acks []string
		var receipts []mqttconn.Receipt
		for i := range into[:n] {
			if id, ok := f.take(&into[i]); ok {
				acks = append(acks, id)
			}
			receipts = append(receipts, into[i].Receipt)
		}
		if n > 0 {
			f.read.Ack(receipts...) // the acknowledgement to the broker; the subscriber's answer to the bridge is another
		}
		f.answer(ctx, acks)
	}
}

// take records a message, and returns the id to be answered.
func (f *farSide) take(d *mqttconn.Delivery) (id string, ok bool) {
	text := string(d.Payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(d.Topic) == deadTopic {
		var l promise.Letter
		if err := json.Unmarshal(d.Payload, &l); err != nil || l.ID == "" {
			f.odd = append(f.odd, text)
			return "", false
		}
		h := f.of(l.ID)
		h.Letters = append(h.Letters, l)
		return "", false
	}
	id, data, ok := promise.ReadMessage(text)
	if !ok {
		f.odd = append(f.odd, text)
		return "", false
	}
	h := f.of(id)
	switch h.Times++; {
	case h.Times == 1:
		h.Data = data
	case h.Data != data:
		h.Other = data
		fallthrough
	default:
		f.count["again"]++
	}
	if f.silent.Load() {
		f.count["not answered"]++
		return "", false
	}
	return id, true
}

// of is what is known of an id; f.mu is held.
func (f *farSide) of(id string) *promise.Heard {
	if f.seen[id] == nil {
		f.seen[id] = &promise.Heard{}
	}
	return f.seen[id]
}

// dead is how many ids have a letter; f.mu is held.
func (f *farSide) dead() (n int) {
	for _, h := range f.seen {
		n += truth(len(h.Letters) > 0)
	}
	return n
}

// refuses is how often an id is refused, in any order of ids.
func (f *farSide) refuses(id string) int {
	if f.o.Plain {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	switch n := h.Sum32() % 200; {
	case n < 4:
		return 1 + int(n)%2
	case n == 4 && f.o.Buries:
		return 1 << 30
	}
	return 0
}

// answer sends the subscriber's answers for these ids, and late ones for earlier ids.
func (f *farSide) answer(ctx context.Context, ids []string) {
	var yes, no, singles []string
	f.mu.Lock()
	for _, id := range ids {
		if a := f.seen[id]; a.Refused < f.refuses(id) {
			a.Refused++
			f.count["refused"]++
			no = append(no, id)
			continue
		}
		switch roll := f.rnd.IntN(100); {
		case f.o.Plain:
			yes = append(yes, id)
		case roll < 2:
			f.count["late"]++
			d := f.rnd.Int64N(int64(1500 * time.Millisecond))
			if roll == 0 { // it is published again meanwhile
				d = int64(claim + time.Second)
			}
			f.late = append(f.late, lateAck{time.Now().Add(time.Duration(d)), id})
		case roll < 7:
			f.count["twice"]++
			yes, singles = append(yes, id), append(singles, id)
		case roll < 30:
			singles = append(singles, id)
		default:
			yes = append(yes, id)
		}
	}
	if !f.silent.Load() {
		now, kept := time.Now(), f.late[:0]
		for _, l := range f.late {
			if l.at.After(now) {
				kept = append(kept, l)
			} else {
				singles = append(singles, l.id)
			}
		}
		f.late = kept
	}
	f.mu.Unlock()

	var out []mqttconn.Message
	var about [][]string // the ids that each acks
	say := func(text string, ids ...string) {
		out = append(out, mqttconn.Message{Topic: ackTopic, Payload: []byte(text), QoS: 1})
		about = append(about, ids)
	}
	if len(yes) > 0 {
		stream := ""
		if f.rnd.IntN(3) == 0 {
			stream = fmt.Sprintf(`"stream":%q,`, bridgeStream)
		}
		say(fmt.Sprintf(`{"ids":["%s"],%s"ack":true}`, strings.Join(yes, `","`), stream), yes...)
	}
	for _, id := range singles {
		say(fmt.Sprintf(`{"id":"%s","ack":true}`, id), id)
	}
	for _, id := range no {
		say(fmt.Sprintf(`{"id":"%s","ack":false}`, id))
	}
	if len(out) == 0 {
		return
	}
	if !f.o.Plain && f.rnd.IntN(10) == 0 {
		say(promise.Noise[f.rnd.IntN(len(promise.Noise))])
		f.count["unknown or garbage"]++
	}
	saying, cancel := context.WithTimeout(ctx, 2*time.Second)
	err := f.send.Publish(saying, out)
	cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil { // some of them may be lost: unacked entries come again
		f.count["acks that may be lost"]++
	}
	for _, ids := range about {
		f.count["acks"]++
		for _, id := range ids {
			f.seen[id].Acked++ // sent, whether it was received or not
		}
	}
}

// total is how many ids came, and how often something happened.
func (f *farSide) total(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if what == "" {
		return len(f.seen)
	}
	return f.count[what]
}
