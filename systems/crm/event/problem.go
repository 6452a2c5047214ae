package event

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/jsonarray"
)

// MaxProblems is how many problems of one event are named.
const MaxProblems = 20

// Problem is one thing that is wrong with an event. It never quotes a value: a value may be
// personal data.
type Problem struct {
	Path    string `json:"path"`    // such as identity.email; empty: the whole event
	Wrong   string `json:"message"` // what is wrong, in words
	Allowed string `json:"allowed"` // what is allowed instead, in words
}

// Invalid is why an event is refused. It comes inside a tidemill.Error of kind validation.
type Invalid struct {
	// Malformed says that the bytes are not JSON (or not UTF-8): nothing in them can be
	// trusted.
	Malformed bool
	Problems  []Problem // at most MaxProblems, in the event's order, missing members last
	More      bool      // there are more
}

func (i *Invalid) Error() string {
	var b strings.Builder
	b.WriteString("the event is not valid")
	for n, p := range i.Problems {
		if n == 3 {
			fmt.Fprintf(&b, " (and %d more)", len(i.Problems)-n)
			break
		}
		b.WriteString(map[bool]string{true: ": ", false: "; "}[n == 0])
		if p.Path != "" {
			b.WriteString(p.Path + " ")
		}
		fmt.Fprintf(&b, "%s (allowed: %s)", p.Wrong, p.Allowed)
	}
	return b.String()
}

// TooMany is why a body is not split: it has more events than this number.
type TooMany int

func (n TooMany) Error() string {
	return fmt.Sprintf("the body has more than %d events: send them in several requests", int(n))
}

// Split finds the events in a body: one object, or an array of 1 to most values, each with its
// bytes as received. array says which. An error is of kind validation: nothing of the body can
// be trusted.
func Split(body []byte, most int) (events [][]byte, array bool, err error) {
	bad := func(err error) ([][]byte, bool, error) {
		return nil, array, tidemill.Fail(tidemill.Validation, "the body is neither an event nor an array of them: %s", reason(err))
	}
	if array = jsontext.NewDecoder(bytes.NewBuffer(body)).PeekKind() == '['; !array {
		return [][]byte{body}, false, nil // Decode says what is wrong with it
	}
	for e, err := range jsonarray.Elements(body) {
		if err != nil {
			return bad(err)
		}
		if len(events) == most {
			return nil, true, tidemill.Fail(tidemill.Validation, "%w", TooMany(most))
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return bad(errors.New("the array is empty"))
	}
	return events, true, nil
}
