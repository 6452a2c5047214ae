package analyticstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// bench is the harness of one case, with what cases share.
type bench struct {
	*testing.T
	Harness
	fresh    func() Harness // makes another harness
	fake     bool           // inside a bubble
	patience time.Duration  // how long something is awaited
	entries  int            // put so far, for their ids
	log      log            // of all systems
}

func newBench(t *testing.T, fresh Fresh, fake bool) *bench {
	patience := 3 * time.Minute
	if fake {
		patience = 4 * time.Hour
	}
	return &bench{T: t, Harness: fresh(t), fresh: func() Harness { return fresh(t) }, fake: fake, patience: patience}
}

func (b *bench) prepare() {
	b.must(b.Projects.Ensure(b.Context(), Project, project.HashOf(tidemill.NewSecret(Key))))
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// system is a running system.
type system struct {
	*analytics.System
	b      *bench
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // once ended
}

// years are more than the time between a bubble, where it is the year 2000, and the clock of
// servers.
const years = 50 * 365 * 24 * time.Hour

// options are those of most cases: small batches that do not wait, no automatic replay.
func options() analytics.Options {
	return analytics.Options{Batch: 100, Age: 5 * time.Millisecond, Replay: -1, Seed: 1,
		Clock: event.Clock{EventsBehind: years, EventsAhead: years}}
}

func (b *bench) parts() analytics.Parts {
	return analytics.Parts{Source: b.Source(), Persons: b.Persons, Warehouse: b.Warehouse, Definitions: b.Definitions,
		DeadLetters: b.Letters, Locks: b.Locks, Projects: b.Projects}
}

// start runs a system on the harness, whose parts change may replace.
func (b *bench) start(o analytics.Options, change func(*analytics.Parts)) *system {
	b.Helper()
	p := b.parts()
	if change != nil {
		change(&p)
	}
	if o.Log == nil {
		o.Log = slog.New(&b.log)
	}
	sys, err := analytics.New(p, o)
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &system{System: sys, b: b, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = sys.Run(ctx)
	}()
	b.Cleanup(func() { cancel(); <-s.ended })
	return s
}

// stop stops the system, which must end without error.
func (s *system) stop() {
	s.b.Helper()
	s.halt()
	if s.err != nil {
		s.b.Errorf("the system ended with %v", s.err)
	}
}

// halt stops the system and ignores its error.
func (s *system) halt() {
	s.cancel()
	<-s.ended
}

// ends waits until the system has ended by itself.
func (s *system) ends() {
	s.b.Helper()
	s.b.until("the system ends by itself", func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
}

// process runs a system until everything has ended, and stops it.
func (b *bench) process() { b.Helper(); b.processWith(options(), nil) }

func (b *bench) processWith(o analytics.Options, change func(*analytics.Parts)) {
	b.Helper()
	s := b.start(o, change)
	b.drained()
	s.stop()
	b.balanced()
}

// shorter is how much shorter minutes and hours are in real time, and longest the most that
// they last.
const (
	shorter = 100
	longest = 15 * time.Second
)

// of is the length of minutes or hours in this run.
func (b *bench) of(d time.Duration) time.Duration {
	if b.fake || d < time.Minute {
		return d
	}
	return min(d/shorter, longest)
}

// until waits for something to become true.
func (b *bench) until(what string, done func() bool) {
	b.Helper()
	step, most := time.Millisecond, 100*time.Millisecond
	if b.fake {
		most = 5 * time.Second
	}
	timer := time.NewTimer(step)
	defer timer.Stop()
	for begun := time.Now(); !done(); {
		if time.Since(begun) > b.patience {
			b.Fatalf("waited in vain for: %s\n%s", what, b.log.String())
		}
		<-timer.C
		step = min(2*step, most)
		timer.Reset(step)
	}
}

// pass lets that much time pass, which is shorter in real time.
func (b *bench) pass(d time.Duration) {
	timer := time.NewTimer(b.of(d))
	defer timer.Stop()
	<-timer.C
}

func (b *bench) books() tidemill.Books {
	b.Helper()
	books, err := b.Source().(tidemill.Bookkeeper).Books(b.Context())
	b.must(err)
	return books
}

func (b *bench) drained() {
	b.Helper()
	b.until("everything accepted has ended", func() bool { return b.books().Pending == 0 })
}

// balanced checks the system's own proof.
func (b *bench) balanced() analytics.Audit {
	b.Helper()
	sys, err := analytics.New(b.parts(), analytics.Options{})
	b.must(err)
	a, err := sys.Audit(b.Context())
	b.must(err)
	if !a.Balanced {
		b.Errorf("the books do not balance: %+v", a)
	}
	return a
}

// wantBooks checks how many ended in which way.
func (b *bench) wantBooks(delivered, skipped, dead uint64) {
	b.Helper()
	if a := b.balanced(); a.Delivered != delivered || a.Skipped != skipped || a.Dead != dead || a.InFlight != 0 {
		b.Errorf("the books say %d delivered, %d skipped, %d dead, %d in flight; want %d, %d, %d, 0", a.Delivered, a.Skipped, a.Dead, a.InFlight, delivered, skipped, dead)
	}
}

// put adds entries to the stream.
func (b *bench) put(ms ...*tidemill.Message) {
	b.Helper()
	for _, m := range ms {
		m.To = analytics.Name
		if m.ID == "" {
			b.entries++
			m.ID = fmt.Sprintf("entry-%d", b.entries)
		}
	}
	added := make([]queue.Added, len(ms))
	b.must(b.Intake.Add(b.Context(), ms, added))
	for i, a := range added {
		if a != queue.New {
			b.Fatalf("entry %s was not taken: %d", ms[i].ID, a)
		}
	}
}

// noon is when events of these cases happen by default.
var noon = time.Date(1999, 12, 31, 12, 0, 0, 0, time.UTC)

// entry is a flat entry of the stream: an event of that name and distinct id with more fields,
// each a name and a value. Given fields replace the defaults; an empty value removes one.
func entry(name, distinct string, more ...string) *tidemill.Message {
	fields := []string{"schema_version", "1", "project_id", Project.ID.String(), "event_name", name, "distinct_id", distinct, "timestamp", noon.Format(time.RFC3339)}
	for i := 0; i+1 < len(more); i += 2 {
		at := -1
		for k := 0; k < len(fields); k += 2 {
			if fields[k] == more[i] {
				at = k
			}
		}
		if at >= 0 {
			fields[at+1] = more[i+1]
			continue
		}
		fields = append(fields, more[i], more[i+1])
	}
	m := new(tidemill.Message)
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			m.Header = append(m.Header, tidemill.Field{Name: []byte(fields[i]), Value: []byte(fields[i+1])})
		}
	}
	return m
}

// object is an entry that is one JSON object.
func object(json string) *tidemill.Message { return &tidemill.Message{Payload: []byte(json)} }

// at is a time some seconds after noon, in the form of a field.
func at(seconds int) string {
	return noon.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)
}

// uid is the n-th UUID of a case.
func uid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// events are all rows of the warehouse, resolved.
func (b *bench) events() []event.Event {
	b.Helper()
	var out []event.Event
	for e, err := range b.Warehouse.Events(b.Context(), warehouse.Filter{Project: Project.ID}) {
		b.must(err)
		c := *e
		c.Properties, c.UserProperties = bytes.Clone(e.Properties), bytes.Clone(e.UserProperties)
		out = append(out, c)
	}
	return out
}

// one is the only event of that name.
func (b *bench) one(name string) event.Event {
	b.Helper()
	var found []event.Event
	for _, e := range b.events() {
		if e.Name == name {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		b.Fatalf("the warehouse has %d events %q, want 1\n%s", len(found), name, b.log.String())
	}
	return found[0]
}

// letters are all dead letters, oldest first.
func (b *bench) letters() []*deadletter.Letter {
	b.Helper()
	var out []*deadletter.Letter
	for l, err := range b.Letters.List(b.Context(), deadletter.Filter{}) {
		b.must(err)
		out = append(out, l.Clone())
	}
	return out
}

// letter is the only dead letter.
func (b *bench) letter() *deadletter.Letter {
	b.Helper()
	ls := b.letters()
	if len(ls) != 1 {
		b.Fatalf("%d dead letters, want 1\n%s", len(ls), b.log.String())
	}
	return ls[0]
}

// warnings are those of a type, newest first.
func (b *bench) warnings(typ string) []warehouse.Warning {
	b.Helper()
	all, err := b.Warehouse.Warnings(b.Context(), warehouse.WarningFilter{Project: Project.ID, Max: 10_000})
	b.must(err)
	return slices.DeleteFunc(all, func(w warehouse.Warning) bool { return w.Type != typ })
}

// show is the person of a distinct id, or nil.
func (b *bench) show(distinct string) *person.Person {
	b.Helper()
	p, err := b.Persons.Show(b.Context(), person.Ref{Project: Project.ID, Distinct: distinct})
	if errors.Is(err, person.ErrUnknown) {
		return nil
	}
	b.must(err)
	return p
}

// somebody is the person of a distinct id, which must be stored.
func (b *bench) somebody(distinct string) *person.Person {
	b.Helper()
	p := b.show(distinct)
	if p == nil {
		b.Fatalf("nobody is stored for %q\n%s", distinct, b.log.String())
	}
	return p
}

// derived is the default id of a distinct id's person.
func derived(distinct string) uuid.UUID {
	return person.ID(person.Ref{Project: Project.ID, Distinct: distinct})
}

// has checks all properties of a person: names and JSON values.
func (b *bench) has(distinct string, want map[string]string) {
	b.Helper()
	got := map[string]string{}
	for k, v := range b.somebody(distinct).Properties {
		got[k] = string(v)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("the person of %q has %v, want %v", distinct, got, want)
	}
}

// log keeps what systems log.
type log struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *log) Enabled(context.Context, slog.Level) bool { return true }
func (l *log) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *log) WithGroup(string) slog.Handler            { return l }

func (l *log) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < 1000 {
		l.lines = append(l.lines, line)
	}
	return nil
}

// alarmed reports whether something of that level and with that text was logged.
func (l *log) alarmed(level slog.Level, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(s string) bool {
		return strings.HasPrefix(s, level.String()) && strings.Contains(s, text)
	})
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-30):], "\n")
}
