package windows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Windows are the windows: to list them, and to decide by hand.
func (s *System) Windows() window.Inspector { return s.p.Windows }

// Project is the project of records that come without one.
func (s *System) Project() uuid.UUID { return s.o.Project }

// Put stores records that come outside the intakes, as window.Intake has it.
func (s *System) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	return s.p.Windows.Put(ctx, records, kept)
}

// Processors say what each processor has done since the start; "read" is the first.
func (s *System) Processors() []process.Stats { return s.chain.Load().Stats() }

// Process has other processors in force. A window whose delivery has begun ends by those that it began
// with; one that is tried again goes by the new ones, from its first record on. Processors whose names
// stay go on counting.
func (s *System) Process(next *process.Chain) { s.chain.Store(next.Counting(s.chain.Load())) }

// Stats is the state of the system.
type Stats struct {
	window.Stats
	Closed     uint64 // windows that this instance has closed because their time was over
	Processors []process.Stats
}

// Stats reads the state of the system, without looking at each window.
func (s *System) Stats(ctx context.Context) (*Stats, error) {
	st, err := s.p.Windows.Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("count windows: %w", err)
	}
	st.Lost = s.lost(st.Lost)
	return &Stats{st, s.closed.Load(), s.Processors()}, nil
}

// ErrNoIndex is what Search returns (wrapped, kind not_found) without a search index.
var ErrNoIndex = errors.New("there is no search index here: windows.search.enabled of the configuration switches it on")

// Schemas are the families that can be searched; none without an index.
func (s *System) Schemas() []*search.Schema {
	if s.p.Index == nil {
		return nil
	}
	by := map[string]*search.Schema{}
	for _, r := range s.p.Readers {
		by[r.Schema.Name] = r.Schema
	}
	if len(by) == 0 { // others index the documents that are searched here
		return []*search.Schema{search.Events(), search.Mentions()}
	}
	var all []*search.Schema
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, by[name])
	}
	return all
}

// Search asks the index. The schema may be named by its last word: events for gdelt-events.
// Errors are of kind validation if the query is wrong, and not_found without an index.
func (s *System) Search(ctx context.Context, q search.Query) (search.Page, error) {
	if s.p.Index == nil {
		return search.Page{}, tidemill.Fail(tidemill.NotFound, "search: %w", ErrNoIndex)
	}
	name, err := s.Family(q.Schema)
	if err != nil {
		return search.Page{}, err
	}
	q.Schema = name
	page, err := s.p.Index.Search(ctx, q)
	if err == nil || s.State() != flow.Idle || tidemill.KindOf(err) == tidemill.Validation || ctx.Err() != nil {
		return page, err
	}
	if setup := s.p.Index.Setup(ctx); setup != nil { // the system does not run here, so nothing else sets it up
		return page, errors.Join(err, setup)
	}
	return s.p.Index.Search(ctx, q)
}

// Family is the schema's full name for a short one.
func (s *System) Family(name string) (string, error) {
	var all []string
	for _, f := range s.Schemas() {
		if name != "" && (f.Name == name || strings.HasSuffix(f.Name, "-"+name)) {
			return f.Name, nil
		}
		all = append(all, f.Name[strings.LastIndexByte(f.Name, '-')+1:])
	}
	return "", tidemill.Fail(tidemill.Validation, "search in %.80q: there is no such family; there are %s", name, strings.Join(all, ", "))
}

// A Wait is what a window waits for.
type Wait string

// What windows wait for.
const (
	ForRecords  Wait = "records"  // active: until its time is over, or all have come
	ForRetry    Wait = "retry"    // ready: its last try failed, and the next is later
	ForOlder    Wait = "older"    // ready: an older one of its batch id goes first
	ForStart    Wait = "start"    // ready: the delivery does not run in this instance
	ForResume   Wait = "resume"   // ready: the delivery is paused in this instance
	ForTopics   Wait = "topics"   // ready: nothing can be sent, and that is probed now and then
	ForTurn     Wait = "turn"     // ready: those before it are delivered first
	ForDelivery Wait = "delivery" // leased: it is being processed and sent
	ForLease    Wait = "lease"    // leased: its holder is gone, it is handed out anew
	ForReplay   Wait = "replay"   // parked: an operator has to decide
)

// Standing is where a window stands, and why.
type Standing struct {
	*window.Info
	Now     time.Time        // by the store's clock
	Waits   Wait             // what for
	Until   time.Time        // when that ends by itself; zero: unknown
	Behind  string           // of ForOlder: the window that goes first
	Because string           // of ForTopics: what failed, or is full
	Kinds   map[string]int64 // counted records, by kind
	Damaged int64            // counted records whose stored bytes are not those that were put
	Counted int64            // records that were looked at: not all of a large window
}

// How many records of a window are counted, and how long that may take.
const (
	countPage = 2000
	countMost = 100_000
	countFor  = 2 * time.Second
)

// Look says where a window stands, and why, and counts its records by kind; kind not_found: it is
// gone, or never was.
func (s *System) Look(ctx context.Context, id string) (*Standing, error) {
	w, err := s.Stand(ctx, id)
	if err != nil {
		return nil, err
	}
	return w, s.count(ctx, w)
}

// Stand is Look without the count.
func (s *System) Stand(ctx context.Context, id string) (*Standing, error) {
	info, err := s.p.Windows.Look(ctx, id)
	if err != nil {
		return nil, err
	}
	st, err := s.p.Windows.Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the windows' clock: %w", err)
	}
	w := &Standing{Info: info, Now: st.Now, Kinds: map[string]int64{}}
	if err := s.wait(ctx, w); err != nil {
		return nil, err
	}
	return w, nil
}

// wait finds out what a window waits for.
func (s *System) wait(ctx context.Context, w *Standing) (err error) {
	switch w.State {
	case window.Active:
		w.Waits, w.Until = ForRecords, w.Due
		return nil
	case window.Parked:
		w.Waits = ForReplay
		return nil
	case window.Leased:
		w.Waits = ForDelivery
		if !w.Now.Before(w.Due) {
			w.Waits = ForLease
		}
		return nil
	}
	delivery := s.Pipeline(Delivered).Stats()
	if w.Due.After(w.Now) {
		w.Waits, w.Until = ForRetry, w.Due
		if delivery.State == flow.Running && delivery.Why != "" {
			w.Waits, w.Because = ForTopics, delivery.Why
		}
		return nil
	}
	if w.Behind, err = s.older(ctx, w.Info); err != nil || w.Behind != "" {
		w.Waits = ForOlder
		return err
	}
	w.Waits = ForTurn
	switch {
	case delivery.State == flow.Paused:
		w.Waits = ForResume
	case delivery.State != flow.Running:
		w.Waits = ForStart
	case delivery.Why != "":
		w.Waits, w.Until, w.Because = ForTopics, delivery.Until, delivery.Why
	}
	return nil
}

// older is the window of the same batch id that has to be delivered before this one, or empty.
// A replayed window has gone to the end of the line.
func (s *System) older(ctx context.Context, w *window.Info) (string, error) {
	for _, state := range []window.State{window.Leased, window.Ready} {
		for o, err := range s.p.Windows.List(ctx, window.Filter{Batch: w.Batch, State: state}) {
			if err != nil {
				return "", fmt.Errorf("look for older windows of batch %q: %w", w.Batch, err)
			}
			if o.ID != w.ID && (state == window.Leased || o.Replays == 0 && (w.Replays > 0 || o.Revision < w.Revision)) {
				return o.ID, nil
			}
		}
	}
	return "", nil
}

// count counts a window's records by kind, as far as that is quick.
func (s *System) count(ctx context.Context, w *Standing) error {
	start, records := s.o.Now(), make([]window.Record, countPage)
	for from := ""; w.Counted < countMost && s.o.Now().Sub(start) < countFor; {
		page, err := s.p.Windows.Peek(ctx, w.ID, from, records)
		if errors.Is(err, window.ErrNotFound) { // it was delivered meanwhile
			return nil
		}
		if err != nil {
			return fmt.Errorf("count the records of window %q: %w", w.ID, err)
		}
		for i := range records[:page.N] {
			w.Kinds[records[i].Kind]++
			if records[i].Damaged != "" {
				w.Damaged++
			}
		}
		w.Counted += int64(page.N)
		if from = page.Next; from == "" {
			return nil
		}
	}
	return nil
}
