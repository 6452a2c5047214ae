package profile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ErrNotFound says that the profile does not exist. It comes with kind not_found: an event
// may have overtaken the one that creates it.
var ErrNotFound = errors.New("profile not found")

// ErrFull says that a profile has as many identities or attributes as it may. It comes with
// kind business.
var ErrFull = errors.New("the profile is full")

// ErrNumber says that the attribute's value is not a number that can be added to. It comes
// with kind business.
var ErrNumber = errors.New("no number to add to")

// AmbiguousError says that the identities of one event belong to different profiles. It
// comes with kind business: a human decides which is right.
type AmbiguousError struct {
	Profiles []uuid.UUID // two or three, in the order of Kinds
	Kinds    []Kind      // the identity that led to each
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	sep := "the identities belong to different profiles: "
	for i, id := range e.Profiles {
		fmt.Fprintf(&b, "%sthe %v to %v", sep, e.Kinds[i], id)
		sep = ", "
	}
	b.WriteString("; correct the event, or delete one of them")
	return b.String()
}
