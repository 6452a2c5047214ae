package crm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
)

// Acceptor takes events in; an *accept.Acceptor is one.
type Acceptor interface {
	Accept(ctx context.Context, raws [][]byte, may func(tenant string) bool) ([]accept.Result, error)
}

// Events knows where events are; a *crm.System does.
type Events interface {
	// Event says where an event is; kind not_found where nothing is known of it.
	Event(ctx context.Context, tenant, id string) (*crm.EventStatus, error)
}

// Options tune the door. Acceptor and Projects are required.
type Options struct {
	Acceptor Acceptor
	Projects project.Projects // whose keys are taken; a project's name is its tenant's id
	Events   Events           // nil: where events are is not told
	Limits   Limits

	// TrustProxy are the addresses whose X-Forwarded-For is believed, so that memory is shared
	// by the senders behind them. None: the address of the connection is the sender's.
	TrustProxy []netip.Prefix

	Now        func() time.Time      // nil: time.Now
	NewID      func() uuid.UUID      // of requests that are refused; nil: random UUIDv7
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are kept, but not registered
}

// Limits bound what clients may take. Zero fields have the defaults named.
type Limits struct {
	Body      int           // bytes of a body, as sent and inflated; 0 means 1 MiB
	Events    int           // of one request; 0 means 500
	Ratio     int           // how many times larger inflating may make a body, beyond its first MiB; 0 means 100
	Memory    int64         // bytes of all bodies together; 0 means 64 MiB
	Time      time.Duration // to send a body in; 0 means 30s
	Requests  int           // at once; 0 means 2,000. More are answered 503.
	PerMinute int           // events of one tenant that this instance takes in a minute; 0: any number. More are answered 429.
}

// eventMemory is about what an event takes beside its bytes, from here until it is durable.
const eventMemory = 2 << 10

// check fills defaults and refuses nonsense.
func (o Options) check() (Options, error) {
	if o.Acceptor == nil || o.Projects == nil {
		return o, errors.New("the door of CRM: an acceptor and projects are needed")
	}
	l := &o.Limits
	for _, f := range [...]struct {
		name string
		v    *int
		def  int
	}{{"Body", &l.Body, 1 << 20}, {"Events", &l.Events, 500}, {"Ratio", &l.Ratio, 100}, {"Requests", &l.Requests, 2000}, {"PerMinute", &l.PerMinute, 0}} {
		if *f.v < 0 {
			return o, fmt.Errorf("the door of CRM: Limits.%s is %d; want 0 for the default, or more", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if l.Time < 0 || l.Memory < 0 {
		return o, errors.New("the door of CRM: Limits.Time and Limits.Memory: want 0 for the default, or more")
	}
	if l.Time == 0 {
		l.Time = 30 * time.Second
	}
	least := 4*int64(l.Body) + int64(l.Events)*eventMemory // as sent, inflated, while it grows, and what is made of it
	if l.Memory == 0 {
		l.Memory = max(64<<20, least)
	}
	if l.Memory < least {
		return o, fmt.Errorf("the door of CRM: Limits.Memory is %d; the largest body allowed needs %d", l.Memory, least)
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
	return o, nil
}
