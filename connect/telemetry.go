package connect

import (
	"context"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/telemetry"
)

// traces has traces and metrics sent to a collector, where one is configured.
func (i *Instance) traces(ctx context.Context) error {
	c := i.Config.Telemetry
	if c.Endpoint == "" {
		return nil
	}
	headers, err := c.Sent()
	if err != nil {
		return err
	}
	e, err := telemetry.Open(ctx, telemetry.Options{Endpoint: string(c.Endpoint), Headers: headers, Sample: c.Sample, Metrics: c.Metrics,
		Version: i.Version, Instance: uuid.NewString(), Registry: i.Metrics, Log: i.Log, Now: i.Now})
	if err != nil {
		return err
	}
	i.OnClose(e.Close)
	i.Tracer = e
	i.Loops = append(i.Loops, e.Loops()...)
	i.Uses = append(i.Uses, "telemetry: traces and metrics to "+c.Endpoint.String())
	return nil
}
