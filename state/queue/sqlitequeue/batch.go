package sqlitequeue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// batch is jobs to be written: for each queue its segments and its late jobs, and the log
// of their names.
type batch struct {
	intakes []*intake
	parts   []*part
	logs    []*nameLog
}

// part is what a batch adds to one queue.
type part struct {
	queue  *queueState
	apart  apart       // by the settings when it is laid out
	jobs   []*incoming // in order; positions are base+1 …
	base   uint64      // set by apply
	pieces []piece
	late   []int   // indexes of jobs that are not due yet, or were added before
	memory *[]byte // of the pieces' blobs, until they are written
	bytes  int
}

// blobs are memory for blobs: of *[]byte.
var blobs = sync.Pool{New: func() any { return new([]byte) }}

// piece is a segment being made: jobs in [from, to), of one group and priority.
type piece struct {
	from, to int
	blob     []byte // of the part's memory
	group    []byte
	priority uint8
	seg      *segment // its state, if its jobs were taken up in memory
}

// nameLog is the names of a batch that are logged together.
type nameLog struct {
	group idset.Group
	jobs  []*incoming
}

// newBatch lays out the New jobs.
func newBatch(intakes []*intake) *batch {
	b := &batch{intakes: intakes}
	var p *part
	for _, in := range intakes {
		l := b.log(in.claim.Group())
		for i := range in.jobs {
			j := &in.jobs[i]
			if j.state != queue.New {
				continue
			}
			if p == nil || p.queue != j.queue {
				p = b.part(j.queue)
			}
			p.jobs = append(p.jobs, j)
			l.jobs = append(l.jobs, j)
		}
	}
	for _, p := range b.parts {
		p.cut()
	}
	return b
}

func (b *batch) part(q *queueState) *part {
	for _, p := range b.parts { // few: a batch is for one queue, or a fan-out
		if p.queue == q {
			return p
		}
	}
	p := &part{queue: q}
	b.parts = append(b.parts, p)
	return p
}

func (b *batch) log(of idset.Group) *nameLog {
	for _, l := range b.logs { // one, or two while a table is being written
		if l.group == of {
			return l
		}
	}
	l := &nameLog{group: of}
	b.logs = append(b.logs, l)
	return l
}

// gatherJobs is how many jobs a batch must have to bring those of a group together, for longer
// segments: a row costs about as much as ten more jobs in it. Below it that gains
// little, and operators see jobs in the order in which they were given.
const gatherJobs = 48

// gather brings the jobs of each group together, in the order of arrival: groups that take
// turns have no order between jobs of one call. Where jobs have an order, it stays.
func (p *part) gather() {
	mixed := false
	for i := 1; i < len(p.jobs) && !mixed; i++ {
		mixed = !p.apart.together(p.jobs[i-1], p.jobs[i])
	}
	fair := p.queue.is.Load().Fair
	if !mixed || len(p.jobs) < gatherJobs || fair == queue.Unfair {
		return
	}
	slices.SortStableFunc(p.jobs, func(x, y *incoming) int {
		order := strings.Compare(x.tenant, y.tenant)
		if order != 0 || p.apart.ordered {
			return order
		}
		if order = cmp.Compare(y.priority, x.priority); order == 0 && fair == queue.ByKey {
			order = bytes.Compare(x.key, y.key)
		}
		return order
	})
}

// cut makes segments of neighbours that are due and of one group.
func (p *part) cut() {
	p.apart = p.queue.lock().waiting.apart
	p.queue.unlock()
	p.gather()
	for _, j := range p.jobs {
		p.bytes += len(j.rec)
	}
	p.memory = blobs.Get().(*[]byte)
	memory := slices.Grow((*p.memory)[:0], p.bytes+8*len(p.jobs)) // enough if each is a segment
	var records [][]byte
	size, from := 0, 0
	flush := func(to int) {
		if len(records) > 0 {
			first, at := p.jobs[from], len(memory)
			memory = appendSegment(memory, records)
			p.pieces = append(p.pieces, piece{from: from, to: to, blob: memory[at:len(memory):len(memory)], group: p.apart.groupOf(first), priority: first.priority})
		}
		records, size = records[:0], 0
	}
	for i, j := range p.jobs {
		if j.late {
			flush(i)
			j.group = p.apart.groupOf(j)
			p.late = append(p.late, i)
			continue
		}
		if len(records) == segmentJobs || size+len(j.rec) > segmentBytes || len(records) > 0 && !p.apart.together(p.jobs[i-1], j) {
			flush(i)
		}
		if len(records) == 0 {
			from = i
		}
		records, size = append(records, j.rec), size+len(j.rec)
	}
	flush(len(p.jobs))
	*p.memory = memory
}

// release gives the memory of blobs back, which were written, or never will be.
func (p *part) release() {
	for i := range p.pieces {
		p.pieces[i].blob = nil
	}
	blobs.Put(p.memory)
	p.memory = nil
}

// groupOf names the group of a job.
func (a apart) groupOf(j *incoming) []byte {
	return a.of(make([]byte, 0, 8+len(j.tenant)+len(j.key)), j.priority, j.tenant, string(j.key))
}

// together says whether two jobs of a queue may share a segment.
func (a apart) together(x, y *incoming) bool {
	return x.priority == y.priority && x.tenant == y.tenant &&
		(!a.ordered && !a.keyed || bytes.Equal(x.key, y.key))
}

// due is when a job joins its ordered group; 0: it has none.
func (j *incoming) due() int64 {
	if len(j.group) < 5 || j.group[4] != ofOrdered {
		return 0
	}
	return max(j.added, j.at)
}

// errOtherOrder says that the queue's order was changed after a batch was laid out.
var errOtherOrder = errors.New("the queue's order was changed meanwhile")

// apply writes the batch. The writer runs it.
func (b *batch) apply(tx *sqlitedb.Tx) error {
	for _, p := range b.parts {
		if err := p.apply(tx); err != nil {
			return fmt.Errorf("write %d jobs to queue %q: %w", len(p.jobs), p.queue.name, err)
		}
	}
	for _, l := range b.logs {
		names := make([]idset.Entry, len(l.jobs))
		for i, j := range l.jobs {
			names[i] = idset.Entry{ID: j.name, Pos: j.queue.filePos(j.n)}
		}
		if err := l.group.Log(tx, names); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) apply(tx *sqlitedb.Tx) error {
	var next int64
	var ordered bool
	if err := tx.QueryRow("UPDATE queue SET next=next+? WHERE no=? RETURNING next, ordered", len(p.jobs), p.queue.no).Scan(&next, &ordered); err != nil {
		return fmt.Errorf("move its end: %w", err)
	}
	if ordered != p.apart.ordered {
		return errOtherOrder
	}
	p.base = uint64(next) - uint64(len(p.jobs))
	for i, j := range p.jobs {
		j.n = p.base + 1 + uint64(i)
	}
	args := make([]any, 0, max(5*len(p.pieces), 8*len(p.late)))
	for i := range p.pieces {
		s := &p.pieces[i]
		args = append(args, p.queue.filePos(p.jobs[s.from].n), s.to-s.from, s.blob, s.group, s.priority)
	}
	if _, err := tx.Bulk("INSERT INTO queue_segment(pos,n,jobs,strand,priority) VALUES ", "(?,?,?,?,?)", "", args); err != nil {
		return err
	}
	args = args[:0]
	for _, i := range p.late {
		j := p.jobs[i]
		args = append(args, p.queue.filePos(j.n), p.queue.no, zeroNull(j.at), j.rec, j.due(), orderedOnly(j.group), j.failures)
	}
	_, err := tx.Bulk("INSERT INTO queue_late(pos,queue,at,tries,handed,job,due,strand,failures) VALUES ", "(?,?,?,0,0,?,?,?,?)", "", args)
	return err
}

// orderedOnly is the name of a group in queue_late: only ordered groups are looked up there.
func orderedOnly(group []byte) []byte {
	if len(group) < 5 || group[4] != ofOrdered {
		return nil
	}
	return group
}

// write writes the batch, and lays it out anew where a queue's order was changed.
func (b *batch) write(ctx context.Context, s *Store, also func(*sqlitedb.Tx) error) error {
	for {
		err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			if err := b.apply(tx); err != nil || also == nil {
				return err
			}
			return also(tx)
		})
		for _, p := range b.parts {
			p.release()
		}
		if !errors.Is(err, errOtherOrder) {
			return err
		}
		again := newBatch(b.intakes)
		b.parts, b.logs = again.parts, again.logs
	}
}

// finish tells the queues and the callers.
func (b *batch) finish(s *Store, err error) {
	if err == nil {
		for _, p := range b.parts {
			p.queue.added(p)
		}
	}
	for _, in := range b.intakes {
		in.finish(s, err)
	}
}
