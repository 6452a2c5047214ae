package bridgesystem

import (
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/systems/bridge"
)

// notes are what an operator should know of acks: where they do not come, entries are
// published for ever, and the books balance all the same.
func notes(b *bridge.Bridge) (notes []string) {
	s := b.Stats()
	if text := unanswered(s.Unanswered); text != "" {
		notes = append(notes, text)
	}
	if is := b.Pipeline.Stats(); is.Paced {
		notes = append(notes, fmt.Sprintf("publishing waits for acks: the receiver is slower than the stream, %d entries are out without one", is.Awaited))
	}
	for _, n := range []struct {
		count uint64
		text  string
	}{
		{s.Refused, "times since the start the receiver refused an entry (ack: false)"},
		{s.Unknown, "acks since the start were not taken: what they name is not pending (acked before, by another instance, or never ours)"},
		{s.Garbage, "payloads on the topic of acks since the start are no acks"},
	} {
		if n.count > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n.count, n.text))
		}
	}
	return notes
}

// unanswered says what was published often without an ack; empty: nothing.
func unanswered(u bridge.Unanswered) string {
	if u.Entries == 0 {
		return ""
	}
	return fmt.Sprintf("entries published %d times or more and without an ack: %d; %s was published %d times", bridge.ManyTimes, u.Entries, u.ID, u.Times)
}

// wantsAcks is the same as a sentence; empty: there are none.
func wantsAcks(u bridge.Unanswered) string {
	text := unanswered(u)
	if text == "" {
		return ""
	}
	return "The receiver of bridge does not acknowledge: " + text + "."
}

// checkAcks is what the doctor says of them.
func checkAcks(b *bridge.Bridge, topic string) preflight.Finding {
	s := b.Stats()
	unanswered := unanswered(s.Unanswered)
	counts := fmt.Sprintf("since the start %d taken, %d refusals, %d not pending, %d no acks", s.Acked, s.Refused, s.Unknown, s.Garbage)
	switch {
	case unanswered != "":
		return system.Finding("acks", preflight.Warn, unanswered+"; "+counts,
			`does the receiver run, and does it publish {"id":"…","ack":true} to `+topic+`, with the id of redis.payload.id in the message?`)
	case s.Garbage > 0:
		return system.Finding("acks", preflight.Warn, counts, `an ack is {"id":"…","ack":true} or {"ids":["…"],"ack":true}: who publishes something else to `+topic+"?")
	}
	return system.Finding("acks", preflight.OK, counts, "")
}
