package sqlitequeue

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// change is the changes of one queue's jobs in one transaction: prepared, applied by the
// writer, and then made in memory. A caller that changes segments or late jobs has the turn
// "ending".
type change struct {
	queue   *queueState
	books   tidemill.Count
	left    int        // jobs that leave the queue
	mark    uint64     // 0: unchanged
	epochs  uint32     // with mark
	touched []*segment // segments that jobs leave: their bits are in going
	moved   []lateRow  // from segments to queue_late
	changed []lateRow  // late jobs that are delayed again
	edited  []lateRow  // late jobs with another payload
	dropped []uint64   // late jobs that ended
	again   []uint64   // late jobs handed out once more
	damaged []damage
	ends    *ends // changes of kept jobs; nil: none

	full, partly, unsaved, drops, moves, agains []any // arguments
}

// lateRow is a row of queue_late.
type lateRow struct {
	n             uint64
	seg           *segment // the segment that it comes from
	at            int64    // 0: due
	due           int64    // in an ordered group: when it joined
	group         []byte   // nil: no ordered group
	tries, handed int
	cause         []byte // nil: unchanged
	failures      []byte // nil: unchanged
	rec           []byte
}

// lateRow is the row of a job.
func (it *item) lateRow() lateRow {
	r := lateRow{n: it.n, seg: it.seg, at: it.at, tries: int(it.tries), handed: int(it.handed), rec: it.rec}
	if it.group.ordered {
		r.due, r.group = it.due, []byte(it.group.id)
	}
	return r
}

// damage is a job whose bytes differ from what was written.
type damage struct {
	item  item
	found int64
	err   error
}

// leaves removes a job from its segment.
func (k *change) leaves(seg *segment, n uint64) {
	if seg.going == 0 {
		k.touched = append(k.touched, seg)
	}
	seg.going |= seg.bit(n)
}

// idle says that nothing is to be written.
func (k *change) idle() bool {
	return k.mark == 0 && k.books == (tidemill.Count{}) && k.ends.none() &&
		len(k.touched)+len(k.changed)+len(k.edited)+len(k.dropped)+len(k.again)+len(k.damaged) == 0
}

// prepare makes the arguments, so that the writer need not.
func (k *change) prepare() {
	q := k.queue
	for _, s := range k.touched {
		switch ended := s.ended | s.going; {
		case s.empty(ended):
			k.full = append(k.full, q.filePos(s.first))
			if s.saved {
				k.unsaved = append(k.unsaved, q.filePos(s.first))
			}
		default:
			k.partly = append(k.partly, q.filePos(s.first), bits.OnesCount64(ended), int64(ended))
		}
	}
	for _, r := range k.moved {
		k.moves = append(k.moves, q.filePos(r.n), q.no, zeroNull(r.at), r.tries, r.handed, r.cause, r.rec, r.due, r.group, r.failures)
	}
	for _, n := range k.dropped {
		k.drops = append(k.drops, q.filePos(n))
	}
	for _, n := range k.again {
		k.agains = append(k.agains, q.filePos(n))
	}
}

func zeroNull(at int64) any {
	if at == 0 {
		return nil
	}
	return at
}

// errMissing says that the file and this process disagree about the jobs in it.
var errMissing = errors.New("the file does not hold what it should: was it changed by another program?")

// apply writes the changes. The writer runs it.
func (k *change) apply(tx *sqlitedb.Tx) error {
	q := k.queue
	if k.mark > 0 {
		if _, err := tx.Exec("UPDATE queue SET handed=max(handed,?), epoch=? WHERE no=?", k.mark, k.epochs, q.no); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		head, row, tail string
		args            []any
		exact           bool
	}{
		{"DELETE FROM queue_segment WHERE pos IN (", "?", ")", k.full, true},
		{"DELETE FROM queue_ended WHERE pos IN (", "?", ")", k.unsaved, true},
		{"INSERT INTO queue_ended(pos,gone,bits) VALUES ", "(?,?,?)", " ON CONFLICT(pos) DO UPDATE SET gone=excluded.gone, bits=excluded.bits", k.partly, false},
		{"INSERT INTO queue_late(pos,queue,at,tries,handed,cause,job,due,strand,failures) VALUES ", "(?,?,?,?,?,?,?,?,?,?)", "", k.moves, false},
		{"DELETE FROM queue_late WHERE pos IN (", "?", ")", k.drops, true},
		{"UPDATE queue_late SET handed=handed+1 WHERE pos IN (", "?", ")", k.agains, true},
	} {
		n, err := tx.Bulk(s.head, s.row, s.tail, s.args)
		if err != nil {
			return err
		}
		if s.exact && n != int64(len(s.args)) {
			return fmt.Errorf("%s…: %d rows of %d: %w", s.head, n, len(s.args), errMissing)
		}
	}
	for _, r := range k.changed {
		if _, err := tx.Exec("UPDATE queue_late SET at=?, due=?, tries=?, cause=coalesce(?,cause), failures=coalesce(?,failures) WHERE pos=?",
			zeroNull(r.at), r.due, r.tries, r.cause, r.failures, q.filePos(r.n)); err != nil {
			return err
		}
	}
	for _, r := range k.edited {
		if _, err := tx.Exec("UPDATE queue_late SET job=? WHERE pos=?", r.rec, q.filePos(r.n)); err != nil {
			return err
		}
	}
	if err := k.ends.apply(tx, q); err != nil {
		return err
	}
	for _, d := range k.damaged {
		if _, err := tx.Exec("INSERT INTO queue_damaged(pos,found,cause,bytes) VALUES(?,?,?,?)",
			q.filePos(d.item.n), d.found, d.err.Error(), d.item.rec); err != nil {
			return err
		}
	}
	if k.books != (tidemill.Count{}) {
		if _, err := tx.Exec("UPDATE queue SET delivered=delivered+?, skipped=skipped+?, dead=dead+? WHERE no=?",
			k.books.Delivered, k.books.Skipped, k.books.Dead, q.no); err != nil {
			return err
		}
	}
	return nil
}

// failed undoes changes that were not written.
func (k *change) failed() {
	for _, s := range k.touched {
		s.going = 0
	}
}
