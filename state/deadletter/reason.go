package deadletter

import (
	"fmt"

	"github.com/tidemill/tidemill"
)

// Reason is why a message died, in the five words that other programs know; its kind is
// more exact.
type Reason string

// The reasons.
const (
	Validation   Reason = "validation"    // the message is wrong, for us or for its destination
	Timeout      Reason = "timeout"       // no answer came in time
	RateLimit    Reason = "rate_limit"    // the destination asked for less
	PartnerError Reason = "partner_error" // anything else
	Unknown      Reason = "unknown"       // the answer was lost: it may have been delivered
)

// Reasons lists all reasons.
func Reasons() []Reason { return []Reason{Validation, Timeout, RateLimit, PartnerError, Unknown} }

// ReasonOf is the reason of a failure of kind k.
func ReasonOf(k tidemill.Kind) Reason {
	switch k {
	case tidemill.Validation, tidemill.Business, tidemill.NotFound:
		return Validation
	case tidemill.Timeout:
		return Timeout
	case tidemill.RateLimit:
		return RateLimit
	case tidemill.Unknown:
		return Unknown
	}
	return PartnerError
}

// Kinds are the kinds of failures that have this reason.
func (r Reason) Kinds() (ks []tidemill.Kind) {
	for k := tidemill.NoKind; k <= tidemill.Unknown; k++ {
		if ReasonOf(k) == r {
			ks = append(ks, k)
		}
	}
	return ks
}

// ParseReason reads one of Reasons.
func ParseReason(s string) (Reason, error) {
	for _, r := range Reasons() {
		if string(r) == s {
			return r, nil
		}
	}
	return "", fmt.Errorf("reason %q: want one of %q", s, Reasons())
}
