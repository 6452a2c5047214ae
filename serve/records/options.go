package records

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Windows is what the door needs of a window store; a window.Store is one.
type Windows interface {
	window.Intake
	// List is that of window.Desk.
	List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error]
}

// Options tune the door. Windows is required.
type Options struct {
	Windows  Windows
	Projects project.Projects // whose keys are taken: a batch id is one of the key's project; nil: no key is needed, where only programs of this machine can come
	Project  uuid.UUID        // whose all records are where no key is needed; zero: the project called default
	Header   string           // carries the batch id; empty: X-Batch-ID. batchId is read too.
	Expect   string           // a header that tells how many records the batch will have, all kinds together; empty: none does
	Spool    string           // a folder of the door's own for files while they are taken, which is made; empty: that of the system
	Timeout  time.Duration    // until what a call of the store has is durable; 0 means 10s. A request waits for two at the most.
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
	Body      int           // bytes of a body of records, as sent and inflated; 0 means 8 MiB
	Records   int           // of one request; 0 means 10,000. A file may have more.
	Ratio     int           // how many times larger inflating may make a body, beyond its first MiB; 0 means 100
	Memory    int64         // bytes of all bodies together, and of what is made of them; 0 means 128 MiB
	Time      time.Duration // to send a body of records in; 0 means 30s
	Requests  int           // at once; 0 means 2,000. More are answered 503.
	PerMinute int           // records of one project that this instance takes in a minute; 0: any number. More are answered 429.

	File     int           // bytes of a file as it is sent; 0 means 64 MiB
	Unpacked int           // bytes of a file, unpacked; 0 means 512 MiB
	Files    int           // taken at once; 0 means 4. More are answered 503.
	FileTime time.Duration // to send a file in; 0 means 5m
}

const (
	// recordMemory is about what a record takes beside its bytes and its name.
	recordMemory = 512
	// fileMemory is about what is in memory of a file: a part (partBytes, and one long row more)
	// and its records.
	fileMemory = 8 << 20
)

// check fills defaults and refuses nonsense.
func (o Options) check() (Options, error) {
	if o.Windows == nil {
		return o, errors.New("a window store is needed")
	}
	l := &o.Limits
	for _, f := range [...]struct {
		name string
		v    *int
		def  int
		most int
	}{
		{"Body", &l.Body, 8 << 20, window.MaxPutBytes}, {"Records", &l.Records, 10_000, window.MaxPut}, {"Ratio", &l.Ratio, 100, 0}, {"Requests", &l.Requests, 2000, 0},
		{"PerMinute", &l.PerMinute, 0, 0}, {"File", &l.File, 64 << 20, 0}, {"Unpacked", &l.Unpacked, 512 << 20, 0}, {"Files", &l.Files, 4, 0},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 0 || f.most > 0 && *f.v > f.most {
			return o, fmt.Errorf("limit %s is %d; want 0 for the default, or more%s", f.name, *f.v, atMost(f.most))
		}
	}
	for _, f := range [...]struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{{"Limits.Time", &l.Time, 30 * time.Second}, {"Limits.FileTime", &l.FileTime, 5 * time.Minute}, {"Timeout", &o.Timeout, 10 * time.Second}} {
		if *f.v < 0 {
			return o, fmt.Errorf("time %s is %v; want 0 for the default, or more", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	// As sent, inflated while it grows, what is made of it, and a file beside.
	least := 5*int64(l.Body) + int64(l.Records)*recordMemory + fileMemory
	if l.Memory == 0 {
		l.Memory = max(128<<20, least)
	}
	if l.Memory < least {
		return o, fmt.Errorf("limit Memory is %d; the largest body allowed needs %d", l.Memory, least)
	}
	if o.Project == (uuid.UUID{}) {
		o.Project = project.ID("default")
	}
	if o.Header == "" {
		o.Header = record.BatchHeader
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

func atMost(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", at most %d", n)
}
