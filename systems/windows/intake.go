package windows

import (
	"context"
	"strconv"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// intake is a pipeline that stores records in their windows. Its messages are settled when they
// are stored. While the store is down nothing is skipped, and no try is counted. Each lane
// begins with the given work.
func (s *System) intake(name string, source tidemill.Source, work storing) flow.Pipeline {
	p := s.pipeline(name, source)
	p.Dead, p.Batch, p.Lanes, p.Lane = s.p.DeadLetters, s.o.Store, 2, flow.ByKey // an older version of a record never replaces a newer one
	if t := source.Traits(); t.Delays && t.Ordered {
		p.Retry = s.o.Record
	}
	p.Rules = policy.Table{
		tidemill.Transient: {Do: policy.Retrying, Blames: true},
		tidemill.Timeout:   {Do: policy.Retrying, Blames: true},
		tidemill.Partner:   {Do: policy.Retrying, Blames: true},
		tidemill.Unknown:   {Do: policy.Retrying, Blames: true}, // a record that is put again replaces itself
	}
	p.Breaker = policy.Breaker{Fails: 3, Open: s.o.Breaker.Open}
	p.Handouts = handouts
	p.Work = func(env flow.Env) flow.Work {
		l := work
		return flow.Steps[stored]{Decode: l.decode, Stages: []flow.Stage[stored]{{Name: "store", Repeat: true, Do: l.store}}}.Lane(env)
	}
	return p
}

// handouts is how often a message may be handed out without a failed try. Probing a store or
// topics that are down for days counts none. A message that kills its worker is still found, a
// little later.
const handouts = 1_000_000

// Rereader is a source of files that can read a refused file again.
type Rereader interface {
	// Again returns nil when the file will be read, or was meanwhile; kind validation: it
	// cannot be. It is safe for concurrent use.
	Again(ctx context.Context, name string) error
}

// stored is a record to be stored in its window; or a whole file, by its name.
type stored struct {
	window.Record
	file string
}

// storing is the work of one lane.
type storing struct {
	s       *System
	kind    record.Kind // zero: the message says it
	owned   bool        // the message's Tenant is its project
	files   Rereader    // for dead letters about whole files; nil: none
	read    record.Record
	records []window.Record
	kept    []window.Kept
}

// wholeFile is the type of dead letters about a file that was refused as a whole.
const wholeFile = "file"

func (l *storing) decode(m *tidemill.Message, r *stored) error {
	if l.kind == 0 && m.Type == wholeFile {
		if r.file = m.ID; l.files != nil {
			return nil
		}
		return tidemill.Fail(tidemill.Validation, "the letter is about a whole file and has no records: put a good file in its place, which is read by itself, and delete the letter")
	}
	batch, err := l.batch(m)
	if err != nil {
		return err
	}
	kind := l.kind
	if kind == 0 {
		if kind, err = record.ParseKind(m.Type); err != nil {
			return tidemill.Fail(tidemill.Validation, "%w", err)
		}
	}
	if r.Record, err = record.ToWindow(batch, kind, m.Payload, &l.read); err != nil {
		return err
	}
	if m.Trace != nil && (m.Trace.Sampled || m.Get(tidemill.Traceparent) != nil) {
		r.Trace = m.Trace.String()
	}
	if l.s.o.Expect != "" {
		r.Expect = expected(m.Get(l.s.o.Expect))
	}
	return nil
}

// batch is the batch of a message: of its own project if it has one, else of Options.Project.
func (l *storing) batch(m *tidemill.Message) (record.Batch, error) {
	id, err := record.BatchID(m.Header, l.s.o.Header)
	if err != nil {
		return record.Batch{}, err
	}
	project := l.s.o.Project
	if l.owned && m.Tenant != "" {
		if project, err = uuid.Parse(m.Tenant); err != nil {
			return record.Batch{}, tidemill.Fail(tidemill.Validation, "the project of the record is %.80q: want a UUID", m.Tenant)
		}
	}
	return record.NewBatch(project, id), nil
}

// expected is how many records a header announces. A value that is not a number announces
// nothing.
func expected(value []byte) int {
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// store puts records into their windows.
func (l *storing) store(ctx context.Context, batch []*flow.Item[stored]) error {
	if l.files != nil {
		var err error
		if batch, err = l.again(ctx, batch); err != nil || len(batch) == 0 {
			return err
		}
	}
	l.records = l.records[:0]
	for _, it := range batch {
		l.records = append(l.records, it.Value.Record)
	}
	l.kept = append(l.kept[:0], make([]window.Kept, len(batch))...)
	if err := l.s.p.Windows.Put(ctx, l.records, l.kept); err != nil {
		return err
	}
	for i, it := range batch {
		if l.kept[i] == window.Overwrote {
			it.Skip("duplicate")
		}
	}
	return nil
}

// again has refused files read again, and returns what remains to be stored.
func (l *storing) again(ctx context.Context, batch []*flow.Item[stored]) (rest []*flow.Item[stored], err error) {
	for _, it := range batch {
		if it.Value.file == "" {
			rest = append(rest, it)
		} else if err := l.files.Again(ctx, it.Value.file); tidemill.KindOf(err) == tidemill.Validation {
			it.Fail(err)
		} else if err != nil {
			return nil, err
		} else {
			it.Skip("read again")
		}
	}
	return rest, nil
}
