//go:build embedded

package telemetry

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// Exporter is left out of this binary.
type Exporter struct{ tidemill.Tracer }

// Open says that it is left out.
func Open(context.Context, Options) (*Exporter, error) {
	return nil, errors.New("telemetry.endpoint: this tidemill has no OpenTelemetry, for it was built with -tags embedded: use the usual binary, or take the setting out of the configuration")
}

// Loops are none.
func (e *Exporter) Loops() []flow.Loop { return nil }

// Close does nothing.
func (e *Exporter) Close() error { return nil }
