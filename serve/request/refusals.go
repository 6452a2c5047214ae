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
type Refusals struct{ log *seldom.Log }

// NewRefusals makes one that logs to log, which says by its attributes what was asked for.
func NewRefusals(log *slog.Logger, now func() time.Time) *Refusals {
	return &Refusals{seldom.New(log, now, "requests were refused: nobody knows their key")}
}

// Refused notes a request from an address.
func (r *Refusals) Refused(from netip.Addr) { r.log.Note("last_from", from.String()) }
