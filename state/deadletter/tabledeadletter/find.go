package tabledeadletter

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
)

const (
	listPage = 64 // dead letters read at once with their messages, each page of one moment
	namedMax = 64 // dead letters that are looked for one by one; more are found by reading all
)

// search is a filter with what the table does not decide.
type search struct {
	deadletter.Filter
	ids  map[string]bool
	seqs map[int64]bool
}

// set has each of what is listed.
func set[T comparable](list []T) map[T]bool {
	all := make(map[T]bool, len(list))
	for _, one := range list {
		all[one] = true
	}
	return all
}

// match says whether a dead letter that the table found is one of the filter.
func (q *search) match(r *Record) bool {
	return (len(q.ids) == 0 || q.ids[r.ID]) && (len(q.seqs) == 0 || q.seqs[r.Seq]) &&
		(q.Cause == "" || r.diedOf(q.Cause)) && (len(q.Kinds) <= 1 || slices.Contains(q.Kinds, r.Kind)) && !slices.Contains(q.NotKinds, r.Kind)
}

// decided says whether the table decides all of a filter.
func decided(f *deadletter.Filter) bool {
	return f.Only == nil && f.Cause == "" && len(f.IDs)+len(f.Seqs)+len(f.NotKinds) == 0 && len(f.Kinds) <= 1 && len(states(f)) > 0
}

// states are those that a filter chooses.
func states(f *deadletter.Filter) []uint8 {
	switch f.State {
	case deadletter.Held:
		return []uint8{held}
	case deadletter.Replaying:
		return []uint8{replaying}
	case "":
		return []uint8{held, replaying}
	}
	return nil
}

// where are the parts of a filter that the table decides, beside pipeline and state.
func where(f *deadletter.Filter) (where []table.Cond) {
	and := func(does bool, field, op string, value any) {
		if does {
			where = append(where, table.Cond{Field: field, Op: op, Value: value})
		}
	}
	after, before := f.Between()
	and(after > 0, "seq", ">", uint64(after))
	and(before < math.MaxInt64, "seq", "<", uint64(before))
	and(f.Tenant != "", "tenant", "=", f.Tenant)
	and(!f.After.IsZero(), "last", ">=", up(f.After))
	and(!f.Before.IsZero(), "last", "<", up(f.Before))
	and(f.Replays > 0, "replays", "<", f.Replays)
	if len(f.Kinds) == 1 {
		and(true, "kind", "=", uint8(f.Kinds[0]))
	}
	return where
}

// each calls do with the dead letters that the filter chooses, and for which more holds: the first Max
// of all, and some more.
func (q *search) each(tx table.Reader[Record], do func(*Record), more ...table.Cond) error {
	named := len(q.ids)+len(q.seqs) > 0
	if q.Max > 0 && q.Pipeline == "" && q.Only == nil && q.State == "" && q.Cause == "" && !named {
		return q.numbered(tx, do, more...)
	}
	var pipelines []string
	if q.Pipeline == "" {
		var err error
		if pipelines, err = pipelinesIn(tx, q.Only); err != nil {
			return err
		}
	} else if q.Has(q.Pipeline) {
		pipelines = []string{q.Pipeline}
	}
	only, all := []string{"seq", "deaths"}, append(where(&q.Filter), more...)
	if !decided(&q.Filter) {
		only = append(only, "id", "kind", "grouped")
	}
	var lines []*line
	if q.Cause != "" && !named {
		var err error
		if lines, err = q.died(tx, pipelines); err != nil {
			return err
		}
	} else {
		for _, pipeline := range pipelines {
			for _, state := range states(&q.Filter) {
				for _, query := range q.queries(pipeline, state) {
					lines = append(lines, &line{pipeline: pipeline, state: state, query: query})
				}
			}
		}
	}
	var ordered []*line
	for _, l := range lines {
		l.query.Only, l.query.Where = only, append(l.query.Where, all...)
		if q.Max > 0 && l.query.By != "" { // by their keys they are in no order
			ordered = append(ordered, l)
		} else if err := l.all(tx, q, do); err != nil {
			return err
		}
	}
	return q.merge(tx, ordered, do)
}

// numbered is each for the dead letters of all pipelines, by their numbers. All other records have none,
// and come before the first.
func (q *search) numbered(tx table.Reader[Record], do func(*Record), more ...table.Cond) error {
	query := table.Query[Record]{By: "number", Back: q.Back, Most: min(q.Max, pageMax), Only: []string{"pipeline", "state", "seq", "deaths", "id", "kind", "grouped"},
		Where: append(append(where(&q.Filter), table.Cond{Field: "state", Op: "<", Value: account}), more...)}
	if after, _ := q.Between(); after == 0 { // else it is among the conditions
		query.Where = append(query.Where, table.Cond{Field: "seq", Op: ">", Value: uint64(0)})
	}
	for found := 0; ; query.Most = pageMax {
		page, err := tx.Page(query)
		for _, r := range page {
			if query.After = r; q.match(r.fill()) {
				do(r)
				found++
			}
		}
		if err != nil || len(page) < query.Most || found >= q.Max {
			return err
		}
	}
}

// line is the dead letters of a pipeline in a state, as far as they were read: all of them, or those of
// a cause.
type line struct {
	pipeline string
	state    uint8
	query    table.Query[Record]
	read     bool // some of it
	done     bool // all of it
}

// all calls do with all that the filter chooses.
func (l *line) all(tx table.Reader[Record], q *search, do func(*Record)) error {
	for !l.done {
		if err := l.some(tx, q, l.query.Most, do); err != nil {
			return err
		}
	}
	return nil
}

// some reads the next ones, at most so many, and calls do with those that the filter chooses.
func (l *line) some(tx table.Reader[Record], q *search, most int, do func(*Record)) error {
	l.query.Most = most
	page, err := tx.Page(l.query)
	for _, r := range page {
		r.Pipeline, r.state = l.pipeline, l.state
		l.query.After = r
		if q.match(r.fill()) {
			do(r)
		}
	}
	l.read, l.done = true, len(page) < most
	return err
}

// merge calls do with the first Max of all lines, and a few more: it reads on in those alone that may
// have one before the last of them.
func (q *search) merge(tx table.Reader[Record], lines []*line, do func(*Record)) error {
	var found []int64
	order := func(a, b int64) int {
		if q.Back {
			a, b = b, a
		}
		return cmp.Compare(a, b)
	}
	most := min(q.Max, 1+2*min(q.Max, math.MaxInt32)/max(len(lines), 1))
	for more := true; more; most = min(2*most, pageMax) {
		slices.SortFunc(found, order)
		more = false
		for _, l := range lines {
			if l.done || l.read && len(found) >= q.Max && order(l.query.After.Seq, found[q.Max-1]) >= 0 {
				continue
			}
			more = true
			if err := l.some(tx, q, min(most, pageMax), func(r *Record) {
				found = append(found, r.Seq)
				do(r)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// queries are the reads that find the dead letters of a pipeline in a state: a few are looked for
// by their names.
func (q *search) queries(pipeline string, state uint8) (qs []table.Query[Record]) {
	switch ids, seqs := len(q.ids), len(q.seqs); {
	case seqs > 0 && seqs <= namedMax:
		for seq := range q.seqs {
			qs = append(qs, numbered(pipeline, state, uint64(max(0, seq))))
		}
	case ids > 0 && ids <= namedMax:
		for id := range q.ids {
			of := append(beginning(prefix(pipeline, id)), table.Cond{Field: "state", Op: "=", Value: state})
			qs = append(qs, table.Query[Record]{Where: of, Most: tenants})
		}
	default:
		qs = append(qs, table.Query[Record]{By: "state", Back: q.Back, Most: pageMax, Where: among(pipeline, state)})
	}
	return qs
}

// numbered is the read that finds a dead letter by its number.
func numbered(pipeline string, state uint8, seq uint64) table.Query[Record] {
	return table.Query[Record]{By: "state", Most: 2, Where: append(among(pipeline, state), table.Cond{Field: "seq", Op: "=", Value: seq}), Only: place}
}

// seen is a dead letter of a snapshot: the same as long as it has not died again.
type seen struct {
	pipeline, key string
	seq           int64
	deaths        int
}

// snapshot finds the dead letters that f chooses, and for which more holds, by number.
func (s *Store[Raw]) snapshot(ctx context.Context, f deadletter.Filter, more ...table.Cond) (found []seen, err error) {
	if err := cmp.Or(ctx.Err(), f.Check()); err != nil {
		return nil, err
	}
	q := search{f, set(f.IDs), set(f.Seqs)}
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		found = nil
		return q.each(tx, func(r *Record) { found = append(found, seen{r.Pipeline, r.key, r.Seq, r.Deaths}) }, more...)
	})
	slices.SortFunc(found, func(a, b seen) int { return cmp.Compare(a.seq, b.seq) })
	if f.Back {
		slices.Reverse(found)
	}
	if f.Max > 0 {
		found = found[:min(f.Max, len(found))]
	}
	return found, err
}

// List implements deadletter.Store.
func (s *Store[Raw]) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		found, err := s.snapshot(ctx, f)
		if err != nil {
			yield(nil, fmt.Errorf("list dead letters: %w", err))
			return
		}
		for part := range slices.Chunk(found, listPage) {
			page, err := s.page(ctx, part)
			if err != nil {
				yield(nil, fmt.Errorf("list dead letters: %w", err))
				return
			}
			for _, r := range page {
				if !yield(&r.Letter, nil) {
					return
				}
			}
		}
	}
}

// page reads those dead letters of a snapshot that are still there, with their messages.
func (s *Store[Raw]) page(ctx context.Context, part []seen) (page []*Record, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		page = nil
		found, err := tx.Get(keysOf(part), shown...)
		if err != nil {
			return err
		}
		for _, l := range part {
			if r := found[l.key]; r != nil && r.seq == uint64(l.seq) {
				page = append(page, r)
			}
		}
		return whole(tx, page...)
	})
	return page, err
}

func keysOf(part []seen) []string {
	keys := make([]string, len(part))
	for i, l := range part {
		keys[i] = l.key
	}
	return keys
}

// Count implements deadletter.Store.
func (s *Store[Raw]) Count(ctx context.Context, f deadletter.Filter) (n int, err error) {
	key, rest := ofGroup(&f), f
	if key != "" {
		rest.Cause = "" // the table decides it
	}
	if !decided(&rest) {
		found, err := s.snapshot(ctx, f)
		if err != nil {
			return 0, fmt.Errorf("count dead letters: %w", err)
		}
		return len(found), nil
	}
	conds := append(where(&f), table.Cond{Field: "state", Op: "<", Value: account})
	if of := states(&f); len(of) == 1 {
		conds[len(conds)-1] = table.Cond{Field: "state", Op: "=", Value: of[0]}
	}
	if key != "" {
		conds = append(conds, table.Cond{Field: "grouped", Op: ">=", Value: key}, table.Cond{Field: "grouped", Op: "<=", Value: outsideKey(key)})
	} else if f.Pipeline != "" {
		conds = append(conds, table.Cond{Field: "pipeline", Op: "=", Value: f.Pipeline})
	}
	if n, err = s.t.Count(ctx, cmp.Or(max(f.Max, 0), math.MaxInt32), conds...); err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

// next is when the first of a pipeline's replaying dead letters may be handed out; false: none
// is replaying. Each page has those that are earlier than all before it.
func next(tx table.Reader[Record], pipeline string) (first time.Time, any bool, err error) {
	q := table.Query[Record]{By: "state", Where: among(pipeline, replaying), Most: 10, Only: append([]string{"due", "until"}, place...)}
	where := q.Where
	for {
		page, err := tx.Page(q)
		if err != nil {
			return first, any, err
		}
		for _, r := range page {
			if at := r.Next(); !any || at.Before(first) {
				first, any = at, true
			}
		}
		if len(page) < q.Most {
			return first, any, nil
		}
		q.After = page[len(page)-1]
		q.Where = append(where[:len(where):len(where)], table.Cond{Field: "due", Op: "<", Value: first}, table.Cond{Field: "until", Op: "<", Value: first})
	}
}
