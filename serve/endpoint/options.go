package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/state/project"
)

// Options are what every endpoint has; it is embedded in those of each.
type Options struct {
	Projects project.Projects // whose keys are taken; nil: no key is needed

	// TrustProxy are the addresses whose X-Forwarded-For and X-Forwarded-Proto are believed.
	// None: what the connection says counts.
	TrustProxy []netip.Prefix

	Now        func() time.Time      // nil: time.Now
	NewID      func() uuid.UUID      // of requests that are refused, and of what nothing else can name; nil: random UUIDv7
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are kept, but not registered
	Watch      Watcher               // is shown what comes in; nil: nobody is
	Way        *giveway.Way          // has work give way to requests; nil: it does not
	Tracer     tidemill.Tracer       // takes a span of each request; nil: nothing is followed
}

func (o *Options) check() error {
	for _, p := range o.TrustProxy {
		if !p.IsValid() {
			return errors.New("TrustProxy has a prefix that is none")
		}
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
	return nil
}

// Limits bound what clients may take. Zero fields have the defaults of the endpoint.
type Limits struct {
	Body     int           // bytes of a body, as sent and inflated
	Items    int           // events or records of one request
	Ratio    int           // how many times larger inflating may make a body, beyond its first MiB; 0 means 100
	Memory   int64         // bytes of all bodies together, and of what is made of them
	Time     time.Duration // to send a body in; 0 means 30s. Beside it, 10s are the limit for each 128 KiB.
	Requests int           // at once; 0 means 2,000. More are answered 503.

	// PerMinute is how many of one sender are taken in a minute; more are answered 429. Where
	// there is a default, below zero means any number.
	PerMinute int
}

func (l *Limits) check(d *Limits, least func(*Limits) int64) error {
	fields := []Field[int]{{"Limits.Body", &l.Body, d.Body, 0}, {"Limits.Items", &l.Items, d.Items, 0}, {"Limits.Ratio", &l.Ratio, 100, 0}, {"Limits.Requests", &l.Requests, 2000, 0}}
	if d.PerMinute == 0 || l.PerMinute == 0 {
		fields = append(fields, Field[int]{"Limits.PerMinute", &l.PerMinute, d.PerMinute, 0})
	}
	if err := Fill(fields...); err != nil {
		return err
	}
	if err := Fill(Field[time.Duration]{"Limits.Time", &l.Time, cmp.Or(d.Time, 30*time.Second), 0}); err != nil {
		return err
	}
	needs := least(l)
	if err := Fill(Field[int64]{"Limits.Memory", &l.Memory, max(d.Memory, needs), 0}); err != nil {
		return err
	}
	if l.Memory < needs {
		return fmt.Errorf("Limits.Memory is %d; the largest body allowed needs %d: raise it, or lower what a body may have", l.Memory, needs)
	}
	return nil
}

// Field is a limit that may be left out.
type Field[T int | int64 | time.Duration] struct {
	Name    string
	V       *T
	Default T
	Most    T // 0: any
}

// Fill fills in the defaults of limits that are zero, and refuses those that make no sense.
func Fill[T int | int64 | time.Duration](fields ...Field[T]) error {
	for _, f := range fields {
		switch {
		case *f.V == 0:
			*f.V = f.Default
		case *f.V < 0:
			return fmt.Errorf("%s is %v; want 0 for the default, or more", f.Name, *f.V)
		case f.Most > 0 && *f.V > f.Most:
			return fmt.Errorf("%s is %v; want 0 for the default, or more, at most %v", f.Name, *f.V, f.Most)
		}
	}
	return nil
}
