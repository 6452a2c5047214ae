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

	mu    sync.Mutex // guards what follows
	seen  map[string]*heardOf
	dead  map[string][]bridgeLetter
	odd   []string // messages that are not a bridge's
	count map[string]int
}

// heardOf is the history of one id.
type heardOf struct {
	data    string // of the first message
	other   string // of another one that differs
	times   int
	acked   int // acks that the broker has
	refused int // refusals that it may have
}

type lateAck struct {
	at time.Time
	id string
}

// bridgeLetter is a message on the topic of the dead.
type bridgeLetter struct {
	Original string `json:"original_message"`
	Error    string `json:"error"`
	Time     string `json:"timestamp"`
	ID       string `json:"message_id"`
	Attempts int    `json:"attempts"`
}

func newFarSide(w *bridgeWorld, o farOptions) *farSide {
	w.Helper()
	f := &farSide{w: w, o: o, rnd: rand.New(rand.NewPCG(w.rnd.Uint64(), 0)), seen: map[string]*heardOf{}, dead: map[string][]bridgeLetter{}, count: map[string]int{}}
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

const (
	frameBegin = `{"message":{"payload":`
	frameID    = `},"redis":{"payload":{"id":"`
	frameEnd   = `"}}}`
)

// take records a message, and returns the id to be answered.
func (f *farSide) take(d *mqttconn.Delivery) (id string, ok bool) {
	text := string(d.Payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(d.Topic) == deadTopic {
		var l bridgeLetter
		if err := json.Unmarshal(d.Payload, &l); err != nil || l.ID == "" {
			f.odd = append(f.odd, text)
			return "", false
		}
		f.dead[l.ID] = append(f.dead[l.ID], l)
		return "", false
	}
	at := strings.LastIndex(text, frameID)
	if at < 0 || !strings.HasPrefix(text, frameBegin) || !strings.HasSuffix(text, frameEnd) {
		f.odd = append(f.odd, text)
		return "", false
	}
	id, data := text[at+len(frameID):len(text)-len(frameEnd)], text[len(frameBegin):at]
	a := f.seen[id]
	if a == nil {
		a = &heardOf{data: data}
		f.seen[id] = a
	} else {
		f.count["again"]++
	}
	if a.times++; a.data != data {
		a.other = data
	}
	if f.silent.Load() {
		f.count["not answered"]++
		return "", false
	}
	return id, true
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
		if a := f.seen[id]; a.refused < f.refuses(id) {
			a.refused++
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
		say([]string{`{"id":"1-1","ack":true}`, `{"id":"nobody","ack":false}`, `{"ids":[],"ack":true}`, `not JSON`, `{"id":"","ack":true}`, `{"ids":["1-2","x"],"ack":true,"stream":"another"}`}[f.rnd.IntN(6)])
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
			f.seen[id].acked++ // sent, whether it was received or not
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
