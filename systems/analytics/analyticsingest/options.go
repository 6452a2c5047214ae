package analyticsingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Options tune the endpoint. Intake and Projects are required.
type Options struct {
	endpoint.Options
	Intake queue.Intake // where events become durable
	Queue  string       // of the Intake; empty means "analytics"

	// Route names the queue of a project's events; nil, or empty: Queue.
	Route func(project uuid.UUID) string

	// Warn is told of every event that is refused, with its project, the reason by which
	// it is counted, its name and distinct id as far as they are known (at most 255
	// bytes each), and the reason in words. It must not block. Nil: nobody is told.
	Warn func(ctx context.Context, project uuid.UUID, typ, event, distinct, reason string)

	// Meter limits projects. Nil means one in memory with Limits.Rate and Limits.Quota.
	Meter  Meter
	Limits Limits

	// RateStatus answers a project over its rate where the client would throw the batch
	// away on 429 (native SDKs, PostHog's old paths): 503, the default, or 429.
	RateStatus int

	// CloudEventsID are the places in which the distinct id of a CloudEvent is looked for,
	// as event.CheckCloudEventsID has them, the first that has one counts. None:
	// event.CloudEventsID.
	CloudEventsID []string

	Clock event.Clock // when a client's clock is taken for wrong

	// Scripts is a node_modules folder in which posthog-js, @segment/analytics-next or both
	// are installed: their snippets can load them from here then. Empty: none are served.
	Scripts string

	Ready func() error // why this instance should get no requests now; nil: it always may
}

// Limits bound what a client may take. Zero fields have the defaults named; bytes are
// those of one body.
type Limits struct {
	Native        int   // as sent and inflated, native and CloudEvents; 0 means 5 MiB
	PostHog       int   // inflated, and as sent to /batch and /i/v1; 0 means 20 MiB
	PostHogSingle int   // as sent to the other paths of PostHog; 0 means 2 MiB
	Ratio         int   // how many times larger inflating may make a body; 0 means 100. The first MiB is free.
	Events        int   // of one body, PostHog and CloudEvents; 0 means 10,000. The others' protocols say it.
	Depth         int   // of nested objects and arrays in one event; 0 means 100
	Memory        int64 // bytes of the bodies of all requests together; 0 means 256 MiB, or what two of the largest need. More is answered 503. Requests without a key in their header have half of it, those of one address a quarter.

	Body time.Duration // to send a body in; 0 means 2m. Beside it, 10s are the limit for each 128 KiB.

	Rate  int // events a minute and project; 0: no limit
	Quota int // events a month (UTC) and project; 0: no limit
}

const (
	mib      = 1 << 20
	bodyTime = 2 * time.Minute

	addTimeout   = 10 * time.Second // for the queue: as long as posthog-node waits for an answer
	retryLimited = 10               // seconds, Retry-After of a project over its rate
)

// check fills defaults and refuses nonsense, of what only this endpoint has.
func (o *Options) check() error {
	if o.Intake == nil || o.Projects == nil {
		return errors.New("an intake and projects are needed")
	}
	switch o.RateStatus {
	case 0:
		o.RateStatus = http.StatusServiceUnavailable
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
	default:
		return fmt.Errorf("RateStatus %d: want 503 or 429", o.RateStatus)
	}
	if o.CloudEventsID != nil {
		if err := event.CheckCloudEventsID(o.CloudEventsID); err != nil {
			return err
		}
	}
	if o.Queue == "" {
		o.Queue = "analytics"
	}
	if o.Warn == nil {
		o.Warn = func(context.Context, uuid.UUID, string, string, string, string) {}
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	l := &o.Limits
	return endpoint.Fill([]endpoint.Field[int]{{Name: "Limits.Native", V: &l.Native, Default: 5 * mib}, {Name: "Limits.PostHog", V: &l.PostHog, Default: 20 * mib},
		{Name: "Limits.PostHogSingle", V: &l.PostHogSingle, Default: 2 * mib}, {Name: "Limits.Events", V: &l.Events, Default: 10_000},
		{Name: "Limits.Depth", V: &l.Depth, Default: 100}, {Name: "Limits.Rate", V: &l.Rate}, {Name: "Limits.Quota", V: &l.Quota}}...)
}
