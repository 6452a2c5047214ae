package request

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/tidemill/tidemill/internal/seldom"
)

// RefusalsEvery is how often refused keys are logged at most.
const RefusalsEvery = seldom.Every

// Refusals logs requests that are refused because nobody knows their key: the first at once,
// then one record in RefusalsEvery, with how many there were since the one before. A flood of
// them fills no disk. The key is not logged.
type Refusals struct {
	log *slog.Logger
	few *seldom.Counter
}

// NewRefusals makes one that logs to log, which says by its attributes what was asked for.
func NewRefusals(log *slog.Logger, now func() time.Time) *Refusals {
	return &Refusals{log, seldom.New(now)}
}

// Refused notes a request from an address.
func (r *Refusals) Refused(from netip.Addr) {
	if n, due := r.few.Note(); due {
		// Logged when requests came with a key or token that is not known: the first at once, then at most
		// once a minute with the number since.
		// To do: give the sender a key that is known; it was revoked, or is of another instance.
		r.log.Warn("requests were refused: nobody knows their key", "count", n, "sender", from.String())
	}
}
