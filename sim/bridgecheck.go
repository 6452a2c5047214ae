package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/test/promise"
)

// entry is one entry of the stream, and its fate so far.
type entry struct {
	id    string
	want  promise.Entry
	heard promise.Heard

	bare    bool // it came over HTTP
	refuses int  // how often the subscriber refuses it; below 0: always
	turns   int  // how often the broker refuses it

	outs map[*process]int // hand-outs that were not published
	end  tidemill.Fate
}

func newEntry(n int, draw *rand.Rand) *entry {
	e := &entry{want: promise.DrawEntry(n), id: fmt.Sprint("entry-", n), bare: draw.IntN(2) == 0, outs: map[*process]int{}}
	switch roll := draw.IntN(100); {
	case roll < 8:
		e.refuses = -1
	case roll < 20:
		e.refuses = 1 + draw.IntN(2)
	case roll < 26:
		e.turns = 1 + draw.IntN(promise.MostRefusals+1)
	}
	return e
}

// add is the entry on its way into the stream: with fields, as of Redis, or only bytes, as over HTTP.
func (e *entry) add() *tidemill.Message {
	m := &tidemill.Message{ID: e.id, To: bridge.Name}
	if e.bare && e.want.Fields[0] == "payload" {
		m.Payload = []byte(e.want.Fields[1])
		return m
	}
	for i := 0; i < len(e.want.Fields); i += 2 {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(e.want.Fields[i]), Value: []byte(e.want.Fields[i+1])})
	}
	return m
}

// handed notes a hand-out: only entries that have not ended are handed out, and no process
// knows of more failed tries than there were.
func (e *entry) handed(w *bridgeWorld, p *process, tries int) {
	if e.end != tidemill.None {
		w.fault("entry %s was handed out after it had ended %v", e.id, e.end)
	}
	if tries > e.heard.Refused {
		w.fault("entry %s is said to have failed %d times; it was refused %d times", e.id, tries, e.heard.Refused)
	}
	e.outs[p]++
}

// reads reports whether a message is the entry's.
func (e *entry) reads(payload []byte) bool {
	id, data, ok := promise.ReadMessage(string(payload))
	return ok && id == e.id && data == e.want.Data
}

// published notes a message: each hand-out allows one.
func (e *entry) published(w *bridgeWorld, p *process) {
	if e.outs[p]--; e.outs[p] < 0 {
		w.fault("entry %s was published again without having been handed out again (ended: %v)", e.id, e.end)
	}
}

// buried notes a dead letter.
func (e *entry) buried(w *bridgeWorld, payload []byte) {
	var l promise.Letter
	if err := json.Unmarshal(payload, &l); err != nil {
		w.fault("the letter of entry %s is %s: %v", e.id, payload, err)
	}
	l.Check(e.id, e.want.Data, w.fault)
	e.heard.Letters = append(e.heard.Letters, l)
}

// ended notes an end that the stream has applied.
func (e *entry) ended(w *bridgeWorld, fate tidemill.Fate) {
	if e.end != tidemill.None || fate == tidemill.Skipped {
		w.fault("entry %s ended %v after it had ended %v", e.id, fate, e.end)
	}
	e.heard.Ended(e.id, fate == tidemill.Dead, w.fault)
	e.end = fate
}

// check checks how everything ended, and the product's own books.
func (w *bridgeWorld) check() {
	var want tidemill.Count
	for _, e := range w.entries {
		switch e.end {
		case tidemill.Delivered:
			want.Delivered++
		case tidemill.Dead:
			want.Dead++
		default:
			w.fault("entry %s did not end: %+v", e.id, e.heard)
		}
	}
	if got := w.books(); got.Accepted != uint64(len(w.entries)) || got.Settled != want || got.Pending != 0 || got.Off() != 0 {
		w.fault("the books say %+v; %d were added, and ended %+v", got, len(w.entries), want)
	}
}
