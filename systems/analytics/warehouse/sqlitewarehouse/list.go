package sqlitewarehouse

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/rowindex"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// listLooks is how many events are looked at for a page whose filter no index has whole: 10 to 40 ms.
const listLooks = 2000

// List implements warehouse.Reader. The index has the events of the most selective part of a filter in
// the order of their times; the rest of it is looked at in the rows.
func (s *Store) List(ctx context.Context, l warehouse.Listing) (out warehouse.Listed, err error) {
	l.Newest = false
	if err := l.Check(); err != nil {
		return out, err
	}
	g := &gathering{store: s, l: l, most: l.Most(), p: &listing{project: l.Project}}
	if err = g.between(); err != nil {
		return out, err
	}
	if err = g.prepare(ctx); err == nil {
		err = s.index.Search(ctx, g.search, g.most, g.look)
	}
	if err != nil {
		return out, fmt.Errorf("list events of project %s: %w", l.Project, err)
	}
	return g.out, nil
}

// gathering gathers a page.
type gathering struct {
	store  *Store
	l      warehouse.Listing
	most   int
	search rowindex.Search
	p      *listing // its condition, for the rows
	looked int
	out    warehouse.Listed
}

// between sets where the page lies.
func (g *gathering) between() error {
	low, high := rowindex.Position{At: math.MinInt64}, rowindex.Position{At: math.MaxInt64, Row: math.MaxInt64}
	if !g.l.From.IsZero() {
		low.At, low.Row = ceilMilli(g.l.From), math.MinInt64
	}
	if !g.l.To.IsZero() {
		high.At, high.Row = ceilMilli(g.l.To), math.MinInt64
	}
	if g.l.After != "" {
		at, ok := warehouse.PlaceOf(g.l.After)
		if !ok {
			return g.l.NoKey()
		}
		after := rowindex.Position{At: at.At, Row: at.Tie}
		if g.l.Oldest && low.Compare(after) < 0 {
			low = after
		} else if !g.l.Oldest && high.Compare(after) > 0 {
			high = after
		}
	}
	g.search.Low, g.search.High, g.search.Back = low, high, !g.l.Oldest
	return nil
}

// mostOverridden is how many distinct ids a person may have been given for its events to be found by
// these: each costs a look at each run. The events of a person with more are found by their names or
// among all, page by page.
const mostOverridden = 256

// prepare finds out which keys are searched, and takes in what is stored now.
func (g *gathering) prepare(ctx context.Context) error {
	project := g.l.Project[:]
	switch {
	case g.l.Distinct != "":
		g.search.Keys = []uint64{key(ofDistinct, project, g.l.Distinct)}
	case g.l.Person != uuid.Nil:
		g.search.Keys = []uint64{key(ofPerson, project, g.l.Person[:])}
	case g.l.Name != "":
		g.search.Keys = []uint64{key(ofName, project, g.l.Name)}
	default:
		g.search.Keys = []uint64{key(ofProject, project, "")}
	}
	g.p.condition(g.l.Filter)
	var last int64
	err := g.store.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if g.l.Person != uuid.Nil && g.l.Distinct == "" {
			more, err := overridden(tx, g.l.Project, g.l.Person)
			switch {
			case err != nil:
				return err
			case len(more) <= mostOverridden:
				g.search.Keys = append(g.search.Keys, more...)
			case g.l.Name != "":
				g.search.Keys = []uint64{key(ofName, project, g.l.Name)}
			default:
				g.search.Keys = []uint64{key(ofProject, project, "")}
			}
		}
		return tx.QueryRow("SELECT coalesce((SELECT min(id) FROM warehouse_event), 1), coalesce((SELECT max(id) FROM warehouse_event), 0)").Scan(&g.search.First, &last)
	})
	if err != nil {
		return err
	}
	return g.store.index.CatchUp(ctx, last)
}

// look takes those of some rows that match.
func (g *gathering) look(tx *sqlitedb.Tx, at []rowindex.Position) (next int, err error) {
	found, err := g.read(tx, at)
	if err != nil {
		return 0, err
	}
	for _, p := range at {
		if e := found[p.Row]; e != nil && len(g.out.Events) < g.most {
			g.out.Events = append(g.out.Events, e)
			g.out.Keys = append(g.out.Keys, placeOf(p))
		}
	}
	g.looked += len(at)
	switch missing := g.most - len(g.out.Events); {
	case missing == 0:
		return 0, nil
	case g.looked-len(g.out.Events) >= listLooks:
		g.out.Rest = placeOf(at[len(at)-1])
		return 0, nil
	case len(found) == len(at):
		return min(missing, pageRows), nil
	default: // few match: look at more at once
		return min(max(missing, 2*len(at)), pageRows), nil
	}
}

// read reads the rows that match.
func (g *gathering) read(tx *sqlitedb.Tx, at []rowindex.Position) (map[int64]*event.Event, error) {
	ids := make([]int64, len(at))
	for i, p := range at {
		ids[i] = p.Row
	}
	rows, err := tx.Query(pageColumns+`
FROM json_each(?) j CROSS JOIN warehouse_event e ON e.id = j.value LEFT JOIN warehouse_override o ON o.project = e.project AND o.distinct_id = e.distinct_id
WHERE e.project = ?`+g.p.where, append([]any{jsonInts(ids), g.l.Project[:]}, g.p.args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make(map[int64]*event.Event, len(at))
	for rows.Next() {
		e := new(event.Event)
		id, err := g.p.scan(rows, e)
		if err != nil {
			return nil, err
		}
		found[id] = e
	}
	return found, rows.Err()
}

func placeOf(p rowindex.Position) string { return warehouse.Place{At: p.At, Tie: p.Row}.Key() }
