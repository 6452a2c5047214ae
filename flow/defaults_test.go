package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// What the documentation of Pipeline says of each zero value.
func TestDefaultsOfAPipeline(t *testing.T) {
	p := Pipeline{Name: "p", Source: still{tidemill.Traits{Parks: true}}, Work: func(Env) Work { return doNothing{} }}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	same(t, "numbers", fmt.Sprint(p.Lanes, p.Batch, p.Runs, p.Ahead, p.Prepared, p.Handouts, p.Threshold, p.Fatal), "1 1 1 0 0 100 1 0")
	same(t, "times", fmt.Sprint(p.Age, p.Linger, p.Grace, p.AckGrace, p.Telling, p.PauseFor), "0s 500µs 30s 500ms 5s 1m0s")
	same(t, "backoff", fmt.Sprintf("%+v", p.Backoff), fmt.Sprintf("%+v", policy.Retry{Tries: -1, Base: 100 * time.Millisecond, Factor: 2, Max: 5 * time.Second, Jitter: policy.Equal}))
	if len(p.Rules) != len(policy.Default()) || p.Log == nil || p.Now == nil || p.Rand == nil {
		t.Errorf("%+v", p)
	}
}

// A slot keeps the memory of small messages for the next one, and lets go of large ones.
func TestWhatASlotKeeps(t *testing.T) {
	for size, kept := range map[int]bool{0: true, 1: true, keepBytes: true, keepBytes + 1: false} {
		m := tidemill.Message{ID: "a", To: "b", Key: make([]byte, size), Payload: make([]byte, size), Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}, Tries: 1, Handed: 2}
		m.Key, m.Payload = m.Key[:size:size], m.Payload[:size:size]
		header := m.Header
		clean(&m)
		if want := map[bool]int{true: size}[kept]; cap(m.Key) != want || cap(m.Payload) != want {
			t.Errorf("of %d bytes it keeps %d of the key and %d of the payload, want %d", size, cap(m.Key), cap(m.Payload), want)
		}
		if header[0].Name != nil || header[0].Value != nil || cap(m.Header) != 1 {
			t.Errorf("it keeps %+v", header)
		}
		if m.ID != "" || m.To != "" || m.Tries != 0 || m.Handed != 0 || len(m.Key)+len(m.Payload)+len(m.Header) != 0 {
			t.Errorf("left over: %+v", m)
		}
	}
}

func TestStatesAreWritten(t *testing.T) {
	for s, want := range map[State]string{Idle: "idle", Running: "running", Paused: "paused", Stopping: "stopping", Stopped: "stopped"} {
		same(t, "state", s, want)
	}
}

// Which state may follow which.
func TestStatesFollowEachOther(t *testing.T) {
	steps := map[string]func(*lifecycle){
		"start": func(l *lifecycle) { _ = l.start() }, "pause": func(l *lifecycle) { _ = l.pause() }, "resume": func(l *lifecycle) { _ = l.resume() },
		"stopping": (*lifecycle).stopping, "stopped": (*lifecycle).stopped,
	}
	legal := map[string]map[State]State{
		"start": {Idle: Running}, "pause": {Running: Paused}, "resume": {Paused: Running},
		"stopping": {Running: Stopping, Paused: Stopping}, "stopped": {Stopping: Stopped},
	}
	for name, step := range steps {
		for from := Idle; from <= Stopped; from++ {
			l := &lifecycle{state: from}
			step(l)
			want, ok := legal[name][from]
			if !ok {
				want = from
			}
			same(t, fmt.Sprint(name, " from ", from), l.now(), want)
		}
	}
}

// An id that is there twice is found however many there are.
func TestDuplicatesOfWhatIsEmitted(t *testing.T) {
	for _, n := range []int{0, 1, 2, 16, 17, 40} {
		var ms []*tidemill.Message
		for i := range n {
			ms = append(ms, &tidemill.Message{ID: fmt.Sprint(i)})
		}
		same(t, fmt.Sprint("of ", n), duplicate(ms), "")
		if n > 1 {
			ms[n-1].ID = "0"
			same(t, fmt.Sprint("of ", n, " and one twice"), duplicate(ms), "0")
		}
	}
}
