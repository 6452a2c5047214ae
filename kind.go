package tidemill

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind of a failure. One table (policy.Table) says what follows each kind: skip, retry,
// dead letter or pause; whether it counts a try, and whether it blames the destination. The
// end of a context is not a kind.
type Kind uint8

const (
	NoKind      Kind = iota
	Validation       // the message is wrong and always will be
	NotFound         // something that the message refers to does not exist (yet)
	Business         // the destination's rules refuse it
	Timeout          // no answer in time, and repeating is known to be harmless
	RateLimit        // the destination asks for less
	Partner          // the destination is at fault: 5xx, garbage, a broken connection
	Credentials      // the destination refuses us, not the message
	Transient        // expected to pass; every failure that is not on this list
	Internal         // our own fault: a panic, a broken assertion
	Unknown          // the answer was lost: it may have happened
	kinds
)

var kindNames = [kinds]string{"none", "validation", "not_found", "business", "timeout", "rate_limit",
	"partner_error", "credentials", "transient", "internal", "unknown"}

// String returns the kind as it is written in dead letters, metrics and answers.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Kinds are all kinds but NoKind.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds-1)
	for k := NoKind + 1; k < kinds; k++ {
		all = append(all, k)
	}
	return all
}

// ParseKind is the inverse of Kind.String.
func ParseKind(s string) (Kind, error) {
	for k, n := range kindNames {
		if n == s {
			return Kind(k), nil
		}
	}
	return NoKind, fmt.Errorf("kind of failure %q: want one of %q", s, kindNames[1:])
}

// Error carries a kind from the code that understands a failure to the engine, which
// decides.
type Error struct {
	Kind  Kind
	After time.Duration // the wait that the destination asks for before the next try; 0: none
	Err   error
	// Unasked says that the destination had no part in the failure, so it is not blamed.
	Unasked bool
}

// Fail makes an Error of kind k with a formatted message (%w wraps).
func Fail(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// KindOf finds the kind of an error: the kind that the error carries, Timeout for a missed
// deadline, else Transient. Only an explicit list is permanent.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	return Transient
}

// Partial is the error of a batch in which only some messages failed; the others are
// durable.
type Partial struct{ Failed []Failed }

// Failed names one message of a batch by its index.
type Failed struct {
	Index int
	Err   error
}

func (p *Partial) Error() string {
	if len(p.Failed) == 0 {
		return "no message of the batch failed"
	}
	return fmt.Sprintf("%d messages of the batch failed, the first: %v", len(p.Failed), p.Failed[0].Err)
}
