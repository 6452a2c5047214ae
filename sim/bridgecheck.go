package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/tidemill/tidemill"
)

// entry is one entry of the stream: its expected fate, and its fate so far.
type entry struct {
	id      string
	payload string
	want    string // as a message
	data    string // as in a dead letter

	refuses  int  // how often the subscriber refuses it; below 0: always
	turns    int  // how often the broker refuses it
	hopeless bool // the subscriber always refuses it

	said    bool // the subscriber has acknowledged it
	failed  int  // refusals that a process may have received
	letters int
	outs    map[*process]int // hand-outs that were not published
	end     tidemill.Fate
}

func newEntry(n int, draw *rand.Rand) *entry {
	e := &entry{id: fmt.Sprint("entry-", n), outs: map[*process]int{}}
	e.payload = fmt.Sprintf(`{"n": %d, "big":12345678901234567890}`, n)
	e.data = e.payload
	if draw.IntN(3) == 0 {
		e.payload, e.data = fmt.Sprintf("up since 2026, %d", n), fmt.Sprintf(`"up since 2026, %d"`, n)
	}
	e.want = fmt.Sprintf(`{"message":{"payload":%s},"redis":{"payload":{"id":"%s"}}}`, e.data, e.id)
	switch roll := draw.IntN(100); {
	case roll < 8:
		e.refuses, e.hopeless = -1, true
	case roll < 20:
		e.refuses = 1 + draw.IntN(2)
	case roll < 26:
		e.turns = 1 + draw.IntN(retries+2)
	}
	return e
}

// handed notes a hand-out: only entries that have not ended are handed out, and no process
// knows of more failed tries than there were.
func (e *entry) handed(w *bridgeWorld, p *process, tries int) {
	if e.end != tidemill.None {
		w.fault("entry %s was handed out after it had ended %v", e.id, e.end)
	}
	if tries > e.failed {
		w.fault("entry %s is said to have failed %d times; it was refused %d times", e.id, tries, e.failed)
	}
	e.outs[p]++
}

// published notes a message: each hand-out allows one.
func (e *entry) published(w *bridgeWorld, p *process) {
	if e.outs[p]--; e.outs[p] < 0 {
		w.fault("entry %s was published again without having been handed out again (ended: %v)", e.id, e.end)
	}
}

// buried notes a dead letter.
func (e *entry) buried(w *bridgeWorld, payload string) {
	e.letters++
	var l struct {
		Original string `json:"original_message"`
		ID       string `json:"message_id"`
		Error    string `json:"error"`
		Attempts int    `json:"attempts"`
	}
	if err := json.Unmarshal([]byte(payload), &l); err != nil || l.Original != e.data || l.ID != e.id || l.Error == "" || l.Attempts != retries+1 {
		w.fault("the letter of entry %s is %s: %v", e.id, payload, err)
	}
}

// ended notes an end that the stream has applied.
func (e *entry) ended(w *bridgeWorld, fate tidemill.Fate) {
	switch {
	case e.end != tidemill.None:
		w.fault("entry %s ended twice, %v and %v", e.id, e.end, fate)
	case fate == tidemill.Delivered && !e.said:
		w.fault("entry %s ended delivered, and the receiver never said that it has it", e.id)
	case fate == tidemill.Dead && e.failed <= retries:
		w.fault("entry %s is dead after %d refusals, %d are allowed", e.id, e.failed, retries)
	case fate == tidemill.Dead && e.letters == 0:
		w.fault("entry %s is dead and nobody was told", e.id)
	case fate == tidemill.Skipped:
		w.fault("entry %s was skipped", e.id)
	}
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
			w.fault("entry %s did not end (said %v, refused %d times, letters %d)", e.id, e.said, e.failed, e.letters)
		}
	}
	if got := w.books(); got.Accepted != uint64(len(w.entries)) || got.Settled != want || got.Pending != 0 || got.Off() != 0 {
		w.fault("the books say %+v; %d were added, and ended %+v", got, len(w.entries), want)
	}
}
