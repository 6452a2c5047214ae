package promise

import (
	"fmt"
	"strings"
	"time"
)

// Entry is an entry of a bridge's stream, as a producer writes it.
type Entry struct {
	Fields []string // names and values
	Data   string   // as it must be in the message and in a dead letter
}

// DrawEntry makes the n-th entry. Its expected form is stored with it, not derived.
func DrawEntry(n int) Entry {
	payload := func(in, out string) Entry { return Entry{[]string{"payload", in}, out} }
	same := func(s string) Entry { return payload(s, s) }
	switch n % 10 {
	case 0: // validity decides, not the first character
		return payload(fmt.Sprintf(`2026-11-21 10:00 link "up" %d`, n), fmt.Sprintf(`"2026-11-21 10:00 link \"up\" %d"`, n))
	case 1:
		return same(fmt.Sprintf(`98765432109876543210%d`, n))
	case 2:
		return Entry{[]string{"host", "a", "seq", fmt.Sprint(n), "host", "b"}, fmt.Sprintf(`{"host":"a","seq":"%d","host":"b"}`, n)}
	case 3:
		return payload(fmt.Sprintf(`{"k":1.0,"struct_data":"{\"n\":%d,\"big\":12345678901234567890}","z":[]}`, n), fmt.Sprintf(`{"k":1.0,"struct_data":{"n":%d,"big":12345678901234567890},"z":[]}`, n))
	case 4:
		return same(fmt.Sprintf("[ %d,\ttrue ]", n))
	case 5:
		return payload(fmt.Sprintf("{\"n\":%d", n), fmt.Sprintf(`"{\"n\":%d"`, n))
	case 6:
		return payload(fmt.Sprintf("\xff %d", n), fmt.Sprintf("\"\uFFFD %d\"", n))
	}
	return same(fmt.Sprintf(`{"z":1,"a":12345678901234567890123,"n":%d,"e":"\u00e9\/","z":2}`, n))
}

const (
	messageBegin = `{"message":{"payload":`
	messageID    = `},"redis":{"payload":{"id":"`
	messageEnd   = `"}}}`
)

// ReadMessage takes a bridge's message apart, byte for byte.
func ReadMessage(text string) (id, data string, ok bool) {
	at := strings.LastIndex(text, messageID)
	if at < 0 || !strings.HasPrefix(text, messageBegin) || !strings.HasSuffix(text, messageEnd) {
		return "", "", false
	}
	return text[at+len(messageID) : len(text)-len(messageEnd)], text[len(messageBegin):at], true
}

// Noise is what a topic of acks has beside acks: of nobody, and garbage.
var Noise = []string{`{"id":"1-1","ack":true}`, `{"id":"nobody","ack":true}`, `{"id":"nobody","ack":false}`, `{"ids":[],"ack":true}`, "{", "not JSON",
	`{"id":"","ack":true}`, `{"id":7,"ack":true}`, `{"ack":true}`, `{"ids":["1-2","x"],"ack":true,"stream":"another"}`}

// MostRefusals is how often an entry may be refused until it is dead: the first try and three more.
const MostRefusals = 4

// Heard is what the receiver of a bridge knows of an entry.
type Heard struct {
	Times   int    // how often it came
	Data    string // of its first message
	Other   string // of another one that differs
	Acked   int    // acks that the broker has
	Refused int    // refusals that the bridge may have
	Letters []Letter
}

// Letter is a message on the topic of the dead.
type Letter struct {
	Original string `json:"original_message"`
	Error    string `json:"error"`
	Time     string `json:"timestamp"`
	ID       string `json:"message_id"`
	Attempts int    `json:"attempts"`
}

// Check checks a letter of an entry.
func (l *Letter) Check(id, data string, fault Fault) {
	if l.ID != id || l.Original != data || l.Attempts != MostRefusals || l.Error == "" {
		fault("the letter of entry %s is %+v, want %.80q after %d tries", id, *l, data, MostRefusals)
	}
	if _, err := time.Parse(time.RFC3339, l.Time); err != nil {
		fault("the letter of entry %s: %v", id, err)
	}
}

// Ended checks an entry that has left the stream, dead or delivered.
func (h *Heard) Ended(id string, dead bool, fault Fault) {
	switch {
	case dead && len(h.Letters) == 0:
		fault("entry %s is dead and nobody was told", id)
	case dead && h.Refused < MostRefusals:
		fault("entry %s is dead after %d refusals, %d are needed (acked %d times)", id, h.Refused, MostRefusals, h.Acked)
	case !dead && h.Acked == 0:
		fault("entry %s left the stream without an ack of the receiver: it came %d times, %d times refused", id, h.Times, h.Refused)
	}
}
