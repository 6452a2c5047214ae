// Package windows is the system that collects records that belong together. Records of one
// batch id, from any number of topics and instances, wait in a window for a time, are processed
// as one batch, delivered completely, and can be searched.
//
//	intakes ──► window store ──(its time is over)──► processors ──► topics ──► search index
//
// A record is settled at its source when it is in the window store. The window is settled when
// all of it has arrived in its topics; only records that arrived count as delivered. Both sides
// have books:
//
//	of an intake:      accepted = delivered (stored) + skipped (duplicates) + dead + in flight
//	of the windows:    stored   = delivered (sent) + skipped (filtered) + dead + in flight
//
// Use New to build it of its parts; connect does so from a configuration.
package windows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Names of the system and of the pipeline that delivers windows.
const (
	Name      = "windows"
	Delivered = "windows-delivery"
)

// Intake is a source of records.
type Intake struct {
	Name   string // of its pipeline, and of the dead letters of records that cannot be stored
	Source tidemill.Source
	Kind   record.Kind // of all its records; zero: a message's Type says it
}

// Reader is a source of delivered records that are put into the search index.
type Reader struct {
	Name   string // of its pipeline
	Source tidemill.Source
	Schema *search.Schema
	// Version numbers the records of Source: a later one of a key has a larger number. A request of a
	// killed instance that the index carries out late then replaces nothing newer. Nil: what is
	// indexed last stays.
	Version func(*tidemill.Message) uint64
	// Copies is where the dead letters of documents that the index refuses are also written, to
	// the topic Dead, before they are kept: for other readers. Nil: nowhere.
	Copies tidemill.Sink
	Dead   string
}

// Parts are what the system is made of.
type Parts struct {
	Intakes     []Intake // none: others put records into the window store, such as an endpoint
	Windows     window.Store
	DeadLetters deadletter.Store
	Chain       *process.Chain // nil: records are sent as they are
	Out         Out

	Readers []Reader // with Index; none: nothing is indexed here
	Index   search.Store
}

// Options tune the system; the zero value is ready to use.
type Options struct {
	Topics     Topics
	Project    uuid.UUID      // of the batches of intakes; zero: the project called default
	BySentence bool           // the index has a document for each sentence of a mention, not one for all
	Header     string         // carries the batch id; empty: X-Batch-ID
	Expect     string         // header with the number of records of a batch; empty: none
	Store      int            // records stored together; 0: 1,000
	AtOnce     int            // windows delivered at once by this instance; 0: 2
	Page       int            // records of a window in memory at a time, besides those being sent; 0: 4,000
	Sweep      time.Duration  // how often windows whose time is over are closed; 0: 5s
	Setup      time.Duration  // how often it is looked whether the index is set up; 0: 1h
	Tries      int            // of a window, before it is parked; 0: 10
	Retry      time.Duration  // before the second try, then twice as long each time, at most a minute; 0: 1s
	Record     policy.Retry   // of a single record that fails by itself on its way in, if its source can bring it back later; zero: none
	Breaker    policy.Breaker // of the topics; zero: 3 failures open it for 5s

	Log  *slog.Logger     // nil: nothing is logged
	Now  func() time.Time // nil: time.Now
	Seed uint64           // of chance; 0: from chance
	// GiveWay is that of all pipelines; nil: work gives way to nothing.
	GiveWay func(now time.Time, worked, late time.Duration) time.Duration

	Tracer  tidemill.Tracer // takes the spans of records in windows; nil: they have none
	Observe func(stage string, messages int, took time.Duration, err error)
	Settled func(pipeline string, ends []tidemill.Settlement)
}

// Topics are where records go.
type Topics struct {
	Event, Mention string // empty: processor-event and processor-mention
	Results        string // for processors' results of a batch; empty: they are logged
}

// of is the topic of a kind.
func (t *Topics) of(k record.Kind) string {
	if k == record.Mention {
		return t.Mention
	}
	return t.Event
}

func (o Options) withDefaults() (Options, error) {
	if o.Store < 0 || o.AtOnce < 0 || o.Page < 0 || o.Sweep < 0 || o.Setup < 0 || o.Tries < 0 || o.Retry < 0 {
		return o, errors.New("numbers and times must not be negative")
	}
	or(&o.Topics.Event, "processor-event")
	or(&o.Topics.Mention, "processor-mention")
	or(&o.Project, project.ID("default"))
	or(&o.Store, 1000)
	or(&o.AtOnce, 2)
	or(&o.Page, 4000)
	or(&o.Sweep, 5*time.Second)
	or(&o.Setup, time.Hour)
	or(&o.Tries, 10)
	or(&o.Retry, time.Second)
	if o.Breaker == (policy.Breaker{}) {
		o.Breaker = policy.Breaker{Fails: 3, Open: 5 * time.Second}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

func or[T comparable](v *T, usual T) {
	var zero T
	if *v == zero {
		*v = usual
	}
}

// System is the running system with what its operators may ask of it.
type System struct {
	*flow.System
	p       Parts
	o       Options
	sources map[string]tidemill.Source // by pipeline
	closed  atomic.Uint64              // windows that sweep has closed
	memory  memory                     // of the store's books
	chain   atomic.Pointer[process.Chain]
}

// New puts the system together. It refuses a configuration that cannot work.
func New(p Parts, o Options) (*System, error) {
	s, err := newSystem(p, o)
	if err != nil {
		return nil, fmt.Errorf("windows: %w", err)
	}
	return s, nil
}

func newSystem(p Parts, o Options) (*System, error) {
	switch {
	case p.Windows == nil || p.DeadLetters == nil || p.Out == nil:
		return nil, errors.New("a window store, dead letters and a place where records go are needed")
	case len(p.Readers) > 0 && p.Index == nil:
		return nil, errors.New("there are readers for an index, and no index")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if p.Chain == nil {
		if p.Chain, err = process.New(nil, process.Options{Log: o.Log, Now: o.Now}); err != nil {
			return nil, err
		}
	}
	s := &System{p: p, o: o, sources: map[string]tidemill.Source{}}
	s.chain.Store(p.Chain)
	pipelines, err := s.pipelines()
	if err != nil {
		return nil, err
	}
	s.System = flow.NewSystem(flow.SystemParts{Name: Name, Pipelines: pipelines, Loops: s.loops(), Log: o.Log, Now: o.Now})
	return s, nil
}

// pipelines are those of intakes and readers, each with the replay of its dead letters, and the
// delivery of windows.
func (s *System) pipelines() ([]*flow.Engine, error) {
	all := []flow.Pipeline{s.deliveries(), s.intake(replay(Delivered), s.p.DeadLetters.Open(Delivered), storing{s: s, owned: true})} // a record that died on the way comes late, into a window of its own
	for _, in := range s.p.Intakes {
		if in.Name == "" || in.Source == nil || s.sources[in.Name] != nil {
			return nil, fmt.Errorf("intake %q: want a name of its own and a source", in.Name)
		}
		files, _ := in.Source.(Rereader)
		all = append(all, s.intake(in.Name, in.Source, storing{s: s, kind: in.Kind}), s.intake(replay(in.Name), s.p.DeadLetters.Open(in.Name), storing{s: s, kind: in.Kind, files: files}))
	}
	for _, r := range s.p.Readers {
		if r.Name == "" || r.Source == nil || r.Schema == nil || s.sources[r.Name] != nil {
			return nil, fmt.Errorf("reader %q: want a name of its own, a source and a schema", r.Name)
		}
		all = append(all, s.reader(r.Name, r.Source, &r, r.Version), s.reader(replay(r.Name), s.p.DeadLetters.Open(r.Name), &r, nil))
	}
	engines := make([]*flow.Engine, len(all))
	for i, p := range all {
		var err error
		if engines[i], err = flow.New(p); err != nil {
			return nil, err
		}
	}
	return engines, nil
}

// replay names the pipeline that replays the dead letters of another.
func replay(name string) string { return name + ".replay" }

// pipeline is what all pipelines have in common.
func (s *System) pipeline(name string, source tidemill.Source) flow.Pipeline {
	s.sources[name] = source
	p := flow.Pipeline{Name: name, Source: source, Log: s.o.Log, Now: s.o.Now, Observe: s.o.Observe, GiveWay: s.o.GiveWay}
	if s.o.Seed != 0 {
		p.Rand = rand.New(rand.NewPCG(s.o.Seed, uint64(len(s.sources))))
	}
	if s.o.Settled != nil {
		p.Settled = func(ends []tidemill.Settlement) { s.o.Settled(name, ends) }
	}
	return p
}

// loops close windows and set up the index. Old days go from it by the retention of the process.
func (s *System) loops() []flow.Loop {
	loops := []flow.Loop{{Name: "close windows", Every: s.o.Sweep, AtStart: true, Do: s.sweep}, {Name: "watch the books of windows", Every: s.o.Sweep, AtStart: true, Do: s.watch}}
	if s.p.Index != nil {
		loops = append(loops, flow.Loop{Name: "set up the index", Every: s.o.Setup, AtStart: true, Do: s.p.Index.Setup})
	}
	return loops
}

// sweep closes all windows whose time is over.
func (s *System) sweep(ctx context.Context) error {
	for {
		swept, err := s.p.Windows.Sweep(ctx)
		s.closed.Add(uint64(swept.Closed)) // also with an error: part of the store may not answer
		if swept.Lost > 0 {
			// Logged when the store no longer has records of a window that closes: they were removed
			// or ran out there.
			// To do: send the records of that time again; see what else writes to that store, and
			// whether it evicts.
			s.o.Log.ErrorContext(ctx, "records of windows are gone, and nobody has settled them: they are booked as dead", "count", swept.Lost)
		}
		if err != nil {
			return fmt.Errorf("close windows: %w", err)
		}
		if swept.Next != 0 {
			return nil
		}
	}
}
