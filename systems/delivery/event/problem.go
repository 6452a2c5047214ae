package event

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxProblems is how many problems of one event are named.
const MaxProblems = 20

// Problem is one thing that is wrong with an event. It never quotes a value: a value may be
// personal data.
type Problem struct {
	Path    string // such as items[3].price; empty: the whole event
	Wrong   string // what is wrong, in words
	Allowed string // what is allowed instead, in words
}

// Invalid is why an event is refused. It comes inside a tidemill.Error of kind validation.
type Invalid struct {
	// Malformed says that the bytes are not JSON (or not UTF-8): nothing in them can be
	// trusted, not even where they end.
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
		b.WriteString(p.Wrong)
		if p.Allowed != "" {
			b.WriteString(" (allowed: " + p.Allowed + ")")
		}
	}
	return b.String()
}

// AppendJSON appends the problems as an array of {"path","message","allowed"}.
func (i *Invalid) AppendJSON(b []byte) []byte {
	b = append(b, '[')
	for n, p := range i.Problems {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"path":`...)
		b = Quote(b, p.Path)
		b = append(b, `,"message":`...)
		b = Quote(b, p.Wrong)
		if p.Allowed != "" {
			b = append(b, `,"allowed":`...)
			b = Quote(b, p.Allowed)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// Quote appends a text as JSON.
func Quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error is about bytes that are not UTF-8; U+FFFD replaces them
	return b
}

// maxName is how much of a name goes into a path, in bytes.
const maxName = 64

// step is one step of the way to a value: a member's name in quotes, or an element's index.
type step struct {
	name  []byte // in quotes, as received
	index int
}

// path writes the way to a value.
func path(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		if s.name == nil {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		}
		name, _ := jsontext.AppendUnquote(nil, s.name)
		if len(name) > maxName {
			name = append([]byte(strings.ToValidUTF8(string(name[:maxName]), "")), "…"...)
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.Write(name)
	}
	return b.String()
}

// grouped writes a number as people read it: 1,000,000.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
