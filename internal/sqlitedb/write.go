package sqlitedb

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/tidemill/tidemill/internal/aside"
	"github.com/tidemill/tidemill/internal/giveway"
)

// Group commit: the most that is committed together. A group ends when no caller waits, so a
// lone writer never waits for company; the limits bound how long the first of a crowd waits for
// the last.
const (
	groupCalls = 256
	groupTime  = 10 * time.Millisecond
	// shortTime bounds a group with other changes while urgent ones come, which wait for its commit.
	shortTime = 2 * time.Millisecond
)

type request struct {
	do     func(*Tx) error
	urgent bool
	err    error
	done   chan struct{}
}

// Write runs do on the writer, inside a transaction that it shares with others' changes, and
// returns when they are on disk. An error of do undoes do's changes alone and is returned. do
// runs at most once, never concurrently with another. Its changes outside the database must
// wait until Write has returned nil. Changes with a context of giveway.First go before others, which
// get their share of the writer's time meanwhile. If ctx ends before the change is in line, do does not
// run; after that Write waits for the outcome, so it is never unknown.
func (d *DB) Write(ctx context.Context, do func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{do: do, done: make(chan struct{}), urgent: giveway.IsFirst(ctx)}
	line := d.requests
	if r.urgent {
		defer d.gate.Enter(ctx)()
		line = d.urgent
	}
	select {
	case <-d.closing:
		return ErrClosed
	default:
	}
	select {
	case line <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closing:
		return ErrClosed
	}
	select {
	case <-r.done:
		return r.err
	case <-d.closing:
	}
	d.done.Wait() // the writer has ended: it served r before, or never will
	select {
	case <-r.done:
		return r.err
	default:
		return ErrClosed
	}
}

// Contended says whether changes with a context of giveway.First come: others are better short.
func (d *DB) Contended() bool { return d.gate.Contended(time.Now()) }

// Read runs do on a snapshot that does not change. It delays no writer.
func (d *DB) Read(ctx context.Context, do func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-d.closing:
		return ErrClosed
	default:
	}
	if aside.Is(ctx) {
		defer d.waitAside(ctx)()
	}
	var c *conn
	select {
	case c = <-d.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closing:
		return ErrClosed
	}
	defer func() { d.readers <- c }()
	if _, err := c.exec("BEGIN DEFERRED"); err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	err := safely(do, &Tx{c, d.o.Fault})
	if _, e := c.exec("ROLLBACK"); e != nil && err == nil {
		err = fmt.Errorf("end reading: %w", e)
	}
	return err
}

// lookPatience is how long reading for somebody who only looks waits for other such reading.
const lookPatience = 100 * time.Millisecond

// lookers is how many readers may read for those who only look: so many that half of the processors,
// and half of the readers, are left for the product's own work.
func lookers(readers int) int { return max(1, min(readers, runtime.GOMAXPROCS(0))/2) }

// waitAside waits until few others read for those who look, and returns what says that it has ended.
// It does not wait long: a page comes in time, if late.
func (d *DB) waitAside(ctx context.Context) (end func()) {
	select {
	case d.looking <- struct{}{}:
		return func() { <-d.looking }
	default:
	}
	wait := time.NewTimer(d.patient)
	defer wait.Stop()
	select {
	case d.looking <- struct{}{}:
		return func() { <-d.looking }
	case <-wait.C:
	case <-ctx.Done():
	}
	return func() {}
}

// write is the writer: it takes the waiting requests, runs them in one transaction, commits,
// and answers them all.
func (d *DB) write(c *conn) {
	defer func() { _ = c.close() }()
	var group []*request
	for {
		r, closing := d.next(c)
		if r != nil {
			group = d.group(c, append(group[:0], r))
			d.signalFold()
		} else if closing { // and none waits that was begun before Close
			_, _ = c.exec("PRAGMA wal_checkpoint(TRUNCATE)")
			return
		}
		select { // between groups, even if no request waits
		case <-d.folded:
			d.restart(c)
		default:
		}
	}
}

// next waits for a request to begin a group with; nil: there was something else to do, or the database
// is closed. While urgent requests come, others have their turn after a rest.
func (d *DB) next(c *conn) (r *request, closing bool) {
	others, rested := d.requests, (<-chan time.Time)(nil)
	if rest := d.gate.Rest(time.Now()); rest > 0 {
		t := time.NewTimer(rest)
		defer t.Stop()
		others, rested = nil, t.C
	}
	select { // their turn has come
	case r = <-others:
		return r, false
	default:
	}
	select {
	case r = <-d.urgent:
	case r = <-others:
	case <-rested:
	case <-d.folded:
		d.restart(c)
	case <-d.closing:
		if r = d.more(nil, 0, false); r == nil {
			return nil, true
		}
	}
	return r, false
}

// more is a waiting request that joins a group which began some time ago; nil: there is none, or it
// would make the urgent ones wait for too long. Where it is the turn of others, between urgent ones,
// these wait for the next group: their time is not that of the turn.
func (d *DB) more(group []*request, ago time.Duration, turn bool) *request {
	if !turn {
		select {
		case r := <-d.urgent:
			return r
		default:
		}
	}
	if len(group) > 0 && group[len(group)-1].urgent || ago > shortTime && d.gate.Contended(time.Now()) {
		return nil
	}
	select {
	case r := <-d.requests:
		return r
	default:
	}
	return nil
}

// group runs first and the waiting requests in one transaction.
func (d *DB) group(c *conn, group []*request) []*request {
	start := time.Now()
	turn := !group[0].urgent && d.gate.Contended(start)
	_, err := c.exec("BEGIN IMMEDIATE")
	if err != nil {
		err = fmt.Errorf("begin to write: %w", err)
	}
	for i := 0; ; i++ {
		if i == len(group) {
			ago := time.Since(start)
			if len(group) == groupCalls || ago > groupTime {
				break
			}
			r := d.more(group, ago, turn)
			if r == nil {
				break
			}
			group = append(group, r)
		}
		switch {
		case err != nil:
		case i == 0:
			err = d.first(c, group[0])
		default:
			err = d.one(c, group[i])
		}
	}
	worked := time.Now()
	if err == nil {
		if _, e := c.exec("COMMIT"); e != nil {
			err = fmt.Errorf("commit: %w", e)
		}
	}
	d.stats.group(len(group), worked.Sub(start), time.Since(worked))
	if !group[0].urgent {
		d.gate.Worked(start, time.Now())
	}
	if err != nil { // nothing of the group is durable
		_, _ = c.exec("ROLLBACK")
	}
	for _, r := range group {
		if r.err == nil {
			r.err = err
		}
		close(r.done)
	}
	clear(group)
	return group
}

// first runs the request that begins a transaction. It needs no savepoint, which would copy
// every page that it changes: if it fails, a new transaction is begun.
func (d *DB) first(c *conn, r *request) error {
	if r.err = safely(r.do, &Tx{c, d.o.Fault}); r.err == nil {
		return nil
	}
	_, _ = c.exec("ROLLBACK") // a full disk has ended it by itself
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin again after an error: %w", err)
	}
	return nil
}

// one runs one request in its savepoint. The request gets its own failure; a returned error
// means that the whole transaction is lost.
func (d *DB) one(c *conn, r *request) error {
	if _, err := c.exec("SAVEPOINT one"); err != nil {
		return fmt.Errorf("begin a savepoint: %w", err)
	}
	if r.err = safely(r.do, &Tx{c, d.o.Fault}); r.err != nil {
		if _, err := c.exec("ROLLBACK TO one"); err != nil { // a full disk ends the transaction by itself
			return fmt.Errorf("undo a change: %w", err)
		}
	}
	if _, err := c.exec("RELEASE one"); err != nil {
		return fmt.Errorf("end a savepoint: %w", err)
	}
	return nil
}

// safely turns a panic of do into its error: it must not take the writer down.
func safely(do func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	return do(tx)
}

func (d *DB) signalFold() {
	select {
	case d.fold <- struct{}{}:
	default:
	}
}

// checkpoint copies the log back into the file while the writer runs. Pages written meanwhile
// stay in the log, so under steady load it would never shrink. Once it is over its size and
// nearly done, the writer is asked to do the small rest and restart the log.
func (d *DB) checkpoint(c *conn) {
	defer func() { _ = c.close() }()
	for {
		select {
		case <-d.fold:
		case <-d.closing:
			return
		}
		if d.copying.Load() > 0 { // their snapshots hold the log: the writer would wait for them in vain
			continue
		}
		if d.unfolded(c, "NOOP") < d.o.WALMiB<<20/2 {
			continue
		}
		// Pages written during a pass are left for the next, which is shorter; the writer does
		// the last rest.
		for range foldPasses {
			if d.unfolded(c, "PASSIVE") <= foldRest {
				break
			}
		}
		select {
		case d.folded <- struct{}{}:
		default:
		}
	}
}

// unfolded does a checkpoint of the given mode and returns how many bytes of the log are not in
// the file yet. The size of the log's file does not tell: it is overwritten, never shortened.
func (d *DB) unfolded(c *conn, mode string) int64 {
	var busy, frames, done int64
	if err := (&Tx{c: c}).QueryRow("PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &frames, &done); err != nil {
		return 0 // the next commit asks again
	}
	return (frames - done) * pageSize
}

// How often the log is checkpointed while the writer runs before the writer is asked to do the
// rest, and how many bytes that may be: about as much as a commit writes.
const (
	foldPasses = 4
	foldRest   = 2 << 20
)

// restart does the rest of a checkpoint so that the next commit restarts the log. Readers of an
// old snapshot can prevent that; then it is tried again later.
func (d *DB) restart(c *conn) {
	began := time.Now()
	defer func() { d.gate.Worked(began, time.Now()) }()
	_, _ = c.exec("PRAGMA busy_timeout=20")
	_, _ = c.exec("PRAGMA wal_checkpoint(RESTART)")
	d.stats.restarts.Add(1)
	_, _ = c.exec("PRAGMA busy_timeout=10000")
}
