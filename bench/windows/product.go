package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// openFor is how long windows are open: each is closed by hand.
const openFor = time.Hour

// opened are the parts of one contender.
type opened struct {
	windows.Parts
	queues *sqlitequeue.Store // embedded
	close  []func() error
}

func open(ctx context.Context, p *part) (o *opened, err error) {
	o = &opened{}
	db, err := sqlitedb.Open(ctx, filepath.Join(p.Folder, "windows.db"), sqlitedb.Options{})
	if err != nil {
		return nil, err
	}
	o.close = append(o.close, db.Close)
	letters, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return o, err
	}
	if o.DeadLetters, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{}); err != nil {
		return o, err
	}
	return o, o.embedded(ctx, p, db)
}

func (o *opened) embedded(ctx context.Context, p *part, db *sqlitedb.DB) (err error) {
	if o.queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{}); err != nil {
		return err
	}
	o.Intakes = []windows.Intake{
		{Name: "events", Source: o.queues.Open(p.In+event, queue.Options{}), Kind: record.Event},
		{Name: "mentions", Source: o.queues.Open(p.In+mention, queue.Options{}), Kind: record.Mention},
	}
	o.Out = windows.Each(queue.Sink(o.queues))
	rows, err := sqlitetable.New(ctx, db, tablewindow.Spec())
	if err != nil {
		return err
	}
	blobs, err := sqlitetable.New(ctx, db, tablewindow.BlobSpec())
	if err != nil {
		return err
	}
	o.Windows, err = tablewindow.New(ctx, rows, blobs, tablewindow.Options{Options: window.Options{Window: openFor}})
	return err
}

func (o *opened) closeAll() (err error) {
	for _, f := range slices.Backward(o.close) {
		err = errors.Join(err, f())
	}
	return err
}

// watched is a window store whose first write begins the measurement: a new member of a group
// waits for its partitions.
type watched struct {
	window.Store
	once  sync.Once
	begin func() error
	err   error
}

func (w *watched) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	w.once.Do(func() { w.err = w.begin() })
	if w.err != nil {
		return w.err
	}
	return w.Store.Put(ctx, records, kept)
}

// counter closes a channel when so many records have ended.
type counter struct {
	n    atomic.Int64
	want int64
	all  chan struct{}
}

func newCounter(want int) *counter { return &counter{want: int64(want), all: make(chan struct{})} }

func (c *counter) add(ends []tidemill.Settlement) {
	var n int64
	for i := range ends {
		if ends[i].Outcome == tidemill.Applied {
			n += int64(ends[i].Row().Total())
		}
	}
	if now := c.n.Add(n); now >= c.want && now-n < c.want {
		close(c.all)
	}
}

// playProduct plays a part with the product.
func playProduct(ctx context.Context, p *part) (err error) {
	debug.SetGCPercent(400) // as tidemill run does
	debug.SetMemoryLimit(int64(cmp.Or(p.Memory, 400)) << 20)
	o, err := open(ctx, p)
	if o != nil {
		defer func() { err = errors.Join(err, o.closeAll()) }()
	}
	if err != nil {
		return err
	}
	if err := o.fill(ctx, p); err != nil {
		return err
	}
	store := o.Windows
	if p.What != "deliver" {
		o.Windows = &watched{Store: store, begin: p.Begin}
	}
	stored, sent := newCounter(p.Records), newCounter(p.Records)
	sys, err := windows.New(o.Parts, windows.Options{Page: p.Page, Store: p.Together, Topics: windows.Topics{Event: p.Out + event, Mention: p.Out + mention}, Settled: func(pipeline string, ends []tidemill.Settlement) {
		switch pipeline {
		case "events", "mentions":
			stored.add(ends)
		case windows.Delivered:
			sent.add(ends)
		}
	}})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(running) }()
	r, err := p.watch(ctx, store, stored, sent, ended)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	if err := check(ctx, sys, p); err != nil {
		r.Failed = err.Error()
	}
	return p.Report(r)
}

// watch waits until the measurement is done.
func (p *part) watch(ctx context.Context, store window.Store, stored, sent *counter, ended <-chan error) (r report, err error) {
	if p.What == "deliver" {
		if err := p.Begin(); err != nil {
			return r, err
		}
	} else {
		if err := process.Within(ctx, stored.all, ended, "store"); err != nil {
			return r, err
		}
		if p.What == "both" {
			p.Say("stored")
		}
	}
	if p.What != "store" {
		if ok, err := store.CloseNow(ctx, batchName); !ok || err != nil {
			return r, fmt.Errorf("there is no window to be closed: %w", err)
		}
		if err := process.Within(ctx, sent.all, ended, "deliver"); err != nil {
			return r, err
		}
	}
	p.End()
	stats, err := store.Stats(ctx)
	r.Stored = int(stats.Active.Records + stats.Ready.Records + stats.Leased.Records + stats.Parked.Records)
	r.Delivered = int(sent.n.Load())
	return r, err
}

// check checks the books.
func check(ctx context.Context, sys *windows.System, p *part) error {
	a, err := sys.Audit(ctx)
	if err != nil {
		return err
	}
	if !a.Balanced {
		return fmt.Errorf("the books do not balance: %q", a.Faults)
	}
	for _, b := range a.Pipelines {
		if b.Skipped != 0 || b.Dead != 0 || b.Pipeline == windows.Delivered && b.Accepted != uint64(p.Records) {
			return fmt.Errorf("the books of %s say %+v", b.Pipeline, b.Audit)
		}
	}
	return nil
}

// fill fills embedded topics, which no other process can reach.
func (o *opened) fill(ctx context.Context, p *part) error {
	if p.What == "deliver" {
		return put(ctx, o.Windows, p.Records)
	}
	rs := newRecords()
	header := []tidemill.Field{{Name: []byte(record.BatchHeader), Value: []byte(batchID)}}
	jobs := make([]*tidemill.Message, 0, 1000)
	for rs.n < p.Records {
		d := rs.next()
		to := p.In + event
		if d.kind == record.Mention {
			to = p.In + mention
		}
		jobs = append(jobs, &tidemill.Message{ID: fmt.Sprint(rs.n), To: to, Key: []byte(d.id), Payload: d.body, Header: header})
		if len(jobs) == cap(jobs) || rs.n == p.Records {
			if err := queue.Sink(o.queues).Write(ctx, jobs); err != nil {
				return err
			}
			jobs = jobs[:0]
		}
	}
	return nil
}

// put puts records into a window.
func put(ctx context.Context, store window.Intake, n int) error {
	rs := newRecords()
	all := make([]window.Record, 0, 2000)
	for rs.n < n {
		d := rs.next()
		var r record.Record
		if err := record.Decode(d.kind, d.body, &r); err != nil {
			return err
		}
		all = append(all, window.Record{Batch: batchName, Kind: d.kind.String(), ID: string(r.AppendKey(nil)), Qualifier: string(r.AppendQualifier(nil)), Body: d.body})
		if len(all) == cap(all) || rs.n == n {
			if err := store.Put(ctx, all, nil); err != nil {
				return err
			}
			all = all[:0]
		}
	}
	return nil
}
