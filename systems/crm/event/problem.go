package event

import (
	"fmt"
	"strings"
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
