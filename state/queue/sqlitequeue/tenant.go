package sqlitequeue

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// mergedGroups is how many groups of a tenant are read side by side. The jobs of a tenant with more
// keys than that are looked for among all.
const mergedGroups = 256

// errManyGroups says that a tenant has more groups than that.
var errManyGroups = errors.New("the tenant has many keys")

// tenantPage is jobs of a tenant, in order of position, behind one position and up to another.
type tenantPage struct {
	*queueState
	f         *queue.Filter
	groups    [][]byte
	after, to uint64 // what is read; it gets smaller where much is there
	items     []item
	rest      error // of looking at others
}

// pagesOf yields the jobs of a tenant that have not ended, from the filter's position on, some at a
// time. Those of segments are found by the names of their groups, those of late rows by looking.
func (q *queueState) pagesOf(ctx context.Context, s *Store, f queue.Filter, looks *rules.Looks) iter.Seq2[[]item, error] {
	after, end := span(f)
	end = min(end, q.last())
	return func(yield func([]item, error) bool) {
		for want := wanted(f); after < end; {
			p := &tenantPage{queueState: q, f: &f, after: after, to: end}
			err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error { return p.read(tx, s, want, looks) })
			if errors.Is(err, errManyGroups) {
				for items, err := range q.pagesIn(ctx, s, f, after, end) {
					if !yield(items, err) || err != nil {
						return
					}
				}
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("read queue %q: %w", q.name, err))
				return
			}
			if !yield(p.items, p.rest) || p.rest != nil {
				return
			}
			if after = p.to; f.Back {
				after, end = 0, p.after
			}
			if want -= len(p.items); want <= 0 {
				want = listPage
			}
		}
	}
}

// read reads about want jobs.
func (p *tenantPage) read(tx *sqlitedb.Tx, s *Store, want int, looks *rules.Looks) error {
	if err := p.find(tx); err != nil {
		return err
	}
	each := (want + len(p.groups) - 1) / max(len(p.groups), 1)
	for _, id := range p.groups {
		if err := p.segments(tx, id, each); err != nil {
			return err
		}
	}
	if err := p.lates(tx, s, looks); err != nil {
		return err
	}
	p.items = slices.DeleteFunc(p.items, func(it item) bool { return it.n <= p.after || it.n > p.to })
	slices.SortFunc(p.items, func(a, b item) int {
		if p.f.Back {
			a, b = b, a
		}
		return cmp.Compare(a.n, b.n)
	})
	return nil
}

// find finds the groups of the tenant: it seeks them in each kind and priority that there is.
func (p *tenantPage) find(tx *sqlitedb.Tx) error {
	of := func(head []byte) []byte {
		b := binary.AppendUvarint(slices.Clone(head), uint64(len(p.f.Tenant)))
		return append(b, p.f.Tenant...)
	}
	to, head := groupsFrom(p.no+1), append(groupsFrom(p.no), 0, 0)
	for from := of(head); ; {
		var id []byte
		err := tx.QueryRow("SELECT strand FROM queue_segment WHERE strand>=? AND strand<? ORDER BY strand LIMIT 1", from, to).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(id) < len(head) {
			from = append(id, 0)
			continue
		}
		switch head = id[:len(head)]; {
		case bytes.HasPrefix(id, of(head)):
			if len(p.groups) == mergedGroups {
				return errManyGroups
			}
			p.groups, from = append(p.groups, id), append(slices.Clone(id), 0)
		case bytes.Compare(id, of(head)) < 0:
			from = of(head)
		default: // the next kind or priority
			next := binary.BigEndian.AppendUint16(groupsFrom(p.no), binary.BigEndian.Uint16(head[4:])+1)
			if bytes.Compare(next, head) < 0 {
				return nil
			}
			from = of(next)
		}
	}
}

const (
	groupOnSQL = `SELECT s.pos, s.n, s.jobs, e.bits FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
		WHERE s.strand=? AND s.pos>=? AND s.pos<=? ORDER BY s.pos`
	groupBackSQL = groupOnSQL + " DESC"
	groupAtSQL   = "SELECT max(pos) FROM queue_segment WHERE strand=? AND pos<=?"
)

// segments reads jobs of a group, about want of them from where the page begins.
func (p *tenantPage) segments(tx *sqlitedb.Tx, id []byte, want int) error {
	from, query := p.filePos(p.after+1), groupOnSQL
	var in sql.NullInt64 // the segment that the position after may lie in
	if err := tx.QueryRow(groupAtSQL, id, from).Scan(&in); err != nil {
		return err
	}
	if in.Valid {
		from = in.Int64
	}
	if p.f.Back {
		query = groupBackSQL
	}
	rows, err := tx.Query(query, id, from, p.filePos(p.to))
	if err != nil {
		return err
	}
	defer rows.Close()
	of, found, size := readGroup(id), 0, 0
	for rows.Next() {
		seg, blob, err := scanSegment(rows)
		if err != nil {
			return err
		}
		for it := range jobsOf(seg, blob, seg.ended) {
			if it.n > p.after && it.n <= p.to {
				it.group, found = of, found+1
				p.items = append(p.items, it)
			}
		}
		if size += len(blob); found >= want || size > pageBytes {
			if p.f.Back {
				p.after = max(p.after, seg.first-1)
			} else {
				p.to = min(p.to, seg.last())
			}
			return nil
		}
	}
	return rows.Err()
}

// lateLooks is how many late rows are looked at in one transaction.
const lateLooks = 4096

const (
	lateOnSQL = `SELECT ` + lateColumns + ` FROM queue_late
		WHERE pos>? AND pos<=? ORDER BY pos`
	lateBackSQL = lateOnSQL + " DESC"
	someDueSQL  = `SELECT EXISTS(SELECT 1 FROM queue_late WHERE queue=? AND at IS NULL) OR EXISTS(SELECT 1 FROM queue_late WHERE queue=? AND at<=?)`
)

// lates looks for late jobs of the tenant where the page is, until it has looked at as many others as
// it may: there the page ends.
func (p *tenantPage) lates(tx *sqlitedb.Tx, s *Store, looks *rules.Looks) error {
	if p.f.State == queue.Waiting {
		_, ms := s.now()
		var some bool
		if err := tx.QueryRow(someDueSQL, p.no, p.no, ms).Scan(&some); err != nil || !some {
			return err
		}
	}
	query := lateOnSQL
	if p.f.Back {
		query = lateBackSQL
	}
	rows, err := tx.Query(query, p.filePos(p.after), p.filePos(p.to))
	if err != nil {
		return err
	}
	defer rows.Close()
	for looked := 1; rows.Next(); looked++ {
		it, err := scanLate(rows)
		if err != nil {
			return err
		}
		if may(p.f, it.rec) {
			p.items = append(p.items, it)
		} else {
			p.rest = looks.Pass(p.markOf(it.n))
		}
		if p.rest != nil || looked == lateLooks {
			if p.f.Back {
				p.after = it.n - 1
			} else {
				p.to = it.n
			}
			return nil
		}
	}
	return rows.Err()
}
