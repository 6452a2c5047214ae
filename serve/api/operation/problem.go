package operation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Problem is why something was not done, or not all of it: the answer of the API, in the form of
// RFC 9457, and the error that its handlers and its clients know.
type Problem struct {
	Type     string          `json:"type"`                  // an address of the instance that explains this kind of problem. Take one that is not known by its status
	Title    string          `json:"title"`                 // the status in words
	Status   int             `json:"status"`                // of HTTP
	Detail   string          `json:"detail"`                // a sentence that says what to do
	Instance string          `json:"instance,omitempty"`    // the id of the request, as in the log
	Trace    string          `json:"trace_id,omitempty"`    // of the trace that the request is part of, as its traceparent says
	After    int             `json:"retry_after,omitempty"` // seconds after which the same request may succeed
	Done     json.RawMessage `json:"done,omitempty"`        // what was done before, of a request that was done in part
	Now      json.RawMessage `json:"now,omitempty"`         // what is there now, as reading it shows it, where a change was refused because it is another than what was read; left out where it is larger than 64 KiB
	Changed  *Changed        `json:"changed,omitempty"`     // who changed it meanwhile, beside now; left out where it is not known
	Errors   []Mistake       `json:"errors,omitempty"`      // what is wrong with the request, with the parameter or the part of the body that is wrong, where that is known
}

// Changed is a change that was made.
type Changed struct {
	By string    `json:"by"` // ada, token:ci
	At time.Time `json:"at"`
}

// Mistake is something wrong with a request.
type Mistake struct {
	Pointer   string `json:"pointer,omitempty"`   // to the part of the body, as JSON has it (RFC 6901): /queue/full; none: it is of no single one
	Parameter string `json:"parameter,omitempty"` // of the query or the form; none: it is of the body
	Detail    string `json:"detail"`              // a sentence that says what is wanted
}

// MistakeAt is a mistake in the setting of a path: queue.full; empty: it is of no single one. No setting has
// a slash or a tilde in its name.
func MistakeAt(setting, detail string) Mistake {
	if setting == "" {
		return Mistake{Detail: detail}
	}
	return Mistake{Pointer: "/" + strings.ReplaceAll(setting, ".", "/"), Detail: detail}
}

// Setting is the path of the setting that it is in; empty: it is of no single one.
func (m Mistake) Setting() string {
	return strings.ReplaceAll(strings.TrimPrefix(m.Pointer, "/"), "/", ".")
}

// Refuse is a problem with a status of HTTP.
func Refuse(status int, format string, args ...any) *Problem {
	return &Problem{Type: typeOf(status), Title: cmp.Or(http.StatusText(status), "Problem"), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Error is the sentence.
func (p *Problem) Error() string { return p.Detail }

// ProblemType is the type of an answer that is a problem.
const ProblemType = "application/problem+json"
