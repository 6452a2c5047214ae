package system

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// Rehearsing is what a rehearsal is made of.
type Rehearsing struct {
	Config *config.Loaded // with stand-ins for secrets: nothing is sent, and no output shows one
	Now    func() time.Time
}

// A Rehearsal says what would become of events, by the rules of a system. It contacts no server, and
// keeps what it has to remember (persons, what was seen before) in memory. The answer has the ends of
// each event, in their order. An error says that a rehearsal of these events is not possible, or that
// With of one is wrong.
type Rehearsal func(ctx context.Context, events []Incoming) ([][]End, error)

// OneByOne is a rehearsal of systems in which events do not wait for each other.
func OneByOne(event func(ctx context.Context, in *Incoming) ([]End, error)) Rehearsal {
	return func(ctx context.Context, events []Incoming) (all [][]End, err error) {
		all = make([][]End, len(events))
		for i := range events {
			if all[i], err = event(ctx, &events[i]); err != nil {
				return nil, fmt.Errorf("event %d: %w", i+1, err)
			}
		}
		return all, nil
	}
}

// Incoming is an event as it comes in.
type Incoming struct {
	Body []byte
	With map[string]string // what its request says beside, by names that each system has
}

// End is what becomes of an event at one place.
type End struct {
	At     string          // the kind of a place and its name, such as partner ads; Itself: of the event
	End    string          // delivered, or a word and a reason, as EndOf has them
	Output json.RawMessage // what would go there, secrets covered; nil: nothing
}

// Itself is the place of an end that is the event's own.
const Itself = "event"

// Refused is the end of an event that is not taken in.
func Refused(why string) End { return End{At: Itself, End: "refused: " + why} }

// EndOf says in words how something ends.
func EndOf(fate tidemill.Fate, why string) string {
	switch fate {
	case tidemill.Delivered:
		return "delivered"
	case tidemill.None:
		return "tried again: " + why
	}
	return fate.String() + ": " + why
}

// OnlyWith refuses names in With that a system does not have.
func (in *Incoming) OnlyWith(names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(in.With)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("with: there is no %q; there is %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// Says is whether With says yes to a name.
func (in *Incoming) Says(name string) (bool, error) {
	switch v := in.With[name]; v {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, fmt.Errorf("with: %s is %q: want true or false", name, v)
	}
}

// JSON is a value as an output.
func JSON(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("show an output: %w", err)
	}
	return b, nil
}

// Bytes are bytes in an output: as JSON where they are that, else as text, else in base64.
func Bytes(b []byte) any {
	switch {
	case json.Valid(b) && utf8.Valid(b):
		return json.RawMessage(b)
	case utf8.Valid(b):
		return string(b)
	}
	return map[string][]byte{"base64": b}
}

// Request is a request as an output. Its credentials are not in it; signed says that it has some.
func Request(r *httpsink.Shown) (json.RawMessage, error) {
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[name] = strings.Join(values, ", ")
	}
	return JSON(struct {
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
		Signed  bool              `json:"signed,omitempty"`
		Body    any               `json:"body"`
	}{r.Method, r.URL, headers, r.Signed, Bytes(r.Body)})
}
