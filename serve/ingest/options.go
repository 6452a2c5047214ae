package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Options tune the door. Intake and Projects are required.
type Options struct {
	Intake   queue.Intake     // where events become durable
	Projects project.Projects // whose keys are taken
	Queue    string           // of the Intake; empty means "analytics"

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

	// TrustProxy are the addresses whose X-Forwarded-For is believed. None: the address
	// of the connection is the sender's.
	TrustProxy []netip.Prefix

	// CloudEventsID are the places in which the distinct id of a CloudEvent is looked for,
	// as event.CheckCloudEventsID has them, the first that has one counts. None:
	// event.CloudEventsID.
	CloudEventsID []string

	Clock event.Clock // when a client's clock is taken for wrong

	// Scripts is a node_modules folder in which posthog-js, @segment/analytics-next or both
	// are installed: their snippets can load them from here then. Empty: none are served.
	Scripts string

	Ready func() error // why this instance should get no requests now; nil: it always may

	Now        func() time.Time      // nil: time.Now
	NewID      func() uuid.UUID      // for events that nothing else can name; nil: random UUIDv7
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are kept, but not registered
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
	mib = 1 << 20

	addTimeout   = 10 * time.Second // for the queue: as long as posthog-node waits for an answer
	retryLimited = 10               // seconds, Retry-After of a project over its rate
	retryBusy    = 5                // seconds, Retry-After while events cannot be kept
)

// check fills defaults and refuses nonsense.
func (o Options) check() (Options, error) {
	if o.Intake == nil || o.Projects == nil {
		return o, errors.New("ingest: an intake and projects are needed")
	}
	switch o.RateStatus {
	case 0:
		o.RateStatus = http.StatusServiceUnavailable
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
	default:
		return o, fmt.Errorf("ingest: RateStatus %d: want 503 or 429", o.RateStatus)
	}
	if o.CloudEventsID != nil {
		if err := event.CheckCloudEventsID(o.CloudEventsID); err != nil {
			return o, fmt.Errorf("ingest: %w", err)
		}
	}
	for _, p := range o.TrustProxy {
		if !p.IsValid() {
			return o, errors.New("ingest: TrustProxy has a prefix that is none")
		}
	}
	l := &o.Limits
	for _, f := range [...]struct {
		name string
		v    *int
		def  int
	}{
		{"Native", &l.Native, 5 * mib}, {"PostHog", &l.PostHog, 20 * mib}, {"PostHogSingle", &l.PostHogSingle, 2 * mib},
		{"Ratio", &l.Ratio, 100}, {"Events", &l.Events, 10_000}, {"Depth", &l.Depth, 100},
		{"Rate", &l.Rate, 0}, {"Quota", &l.Quota, 0},
	} {
		if *f.v < 0 {
			return o, fmt.Errorf("ingest: Limits.%s is %d; want 0 for the default, or more", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if l.Body < 0 {
		return o, fmt.Errorf("ingest: Limits.Body is %v; want 0 for the default, or more", l.Body)
	}
	if l.Body == 0 {
		l.Body = 2 * time.Minute
	}
	if l.Memory < 0 {
		return o, fmt.Errorf("ingest: Limits.Memory is %d; want 0 for the default, or more", l.Memory)
	}
	// As sent, inflated, while one grows, and the queue's copy; and what is made of events. Twice,
	// because who shows no key in the header has half.
	least := 2 * (int64(4*max(l.Native, l.PostHog)) + int64(l.Events)*eventMemory)
	if l.Memory == 0 {
		l.Memory = max(256*mib, least)
	}
	if l.Memory < least {
		return o, fmt.Errorf("ingest: Limits.Memory is %d; the largest body allowed needs %d (lower Limits.PostHog and Native, or raise it)", l.Memory, least)
	}
	if o.Queue == "" {
		o.Queue = "analytics"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Warn == nil {
		o.Warn = func(context.Context, uuid.UUID, string, string, string, string) {}
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Meter == nil {
		o.Meter = newMemoryMeter(l.Rate, l.Quota, o.Now)
	}
	return o, nil
}
