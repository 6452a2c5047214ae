package sqlitesearch

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// ask is one running search.
type ask struct {
	t      *table
	q      *search.Query
	paged  bool   // behind after
	oldest bool   // come first
	words  string // for the full-text index; empty: no condition uses it
	ranges []any  // arguments of the conditions on columns
	after  search.Position
	low    int64 // the range of times that can match
	high   int64
}

// Search implements search.Searcher.
func (s *Store) Search(ctx context.Context, q search.Query) (search.Page, error) {
	if err := ctx.Err(); err != nil {
		return search.Page{}, err
	}
	t, err := s.table(q.Schema)
	if err != nil {
		return search.Page{}, err
	}
	clauses, err := q.Plan(t.schema)
	if err != nil {
		return search.Page{}, err
	}
	a := &ask{t: t, q: &q, low: math.MinInt64, high: math.MaxInt64}
	a.plan(clauses)
	cursor, oldest := q.Way()
	if a.oldest = oldest; cursor != "" {
		a.paged = true
		if a.after, err = search.ParsePosition(cursor); err != nil {
			return search.Page{}, err
		}
		if oldest {
			a.low = max(a.low, a.after.Time)
		} else {
			a.high = min(a.high, a.after.Time)
		}
	}
	var all []found
	err = a.windows(ctx, s.db, func(tx *sqlitedb.Tx, from, to int64) (enough bool, err error) {
		all, err = a.hits(tx, from, to, all)
		return len(all) > q.Hits(), err
	})
	if err != nil {
		return search.Page{}, fmt.Errorf("search %s: %w", q.Schema, err)
	}
	page := search.Paged(&q, all, func(f found) search.Hit { return search.Hit{Day: f.at.Day, ID: f.at.ID, Body: f.body} },
		func(f found) string { return f.at.Cursor() })
	switch {
	case a.paged:
	case page.Next == "":
		page.Total = len(page.Hits)
	default:
		if page.Total, err = a.count(ctx, s.db); err != nil {
			return search.Page{}, fmt.Errorf("count in %s: %w", q.Schema, err)
		}
	}
	return page, nil
}

// found is a hit and its position.
type found struct {
	at   search.Position
	body []byte
}

// plan translates conditions: words and whole values into a query of the full-text index,
// ranges into a fixed number of arguments.
func (a *ask) plan(clauses []search.Clause) {
	var must, not []string
	for i := range clauses {
		c := &clauses[i]
		switch {
		case c.Range:
			a.span(c)
		case c.Not:
			not = append(not, a.term(c))
		default:
			must = append(must, a.term(c))
		}
	}
	if len(must) == 0 && len(not) > 0 {
		must = append(must, `terms : "`+everything+`"`)
	}
	a.words = strings.Join(must, " AND ")
	if len(not) > 0 {
		a.words = "(" + a.words + ") NOT (" + strings.Join(not, " OR ") + ")"
	}
	for len(a.ranges) < search.MaxRanges*rangeArgs {
		a.ranges = append(a.ranges, -1, -1, 0, 0, 0)
	}
}

// term is one condition in the language of FTS5. Its words are letters and digits, so
// that quotes hold them.
func (a *ask) term(c *search.Clause) string {
	switch {
	case c.Words == nil:
		return `terms : "` + termWord(c.Field, c.Equal) + `"`
	case c.Field == search.Any:
		return "{" + strings.TrimSuffix(strings.ReplaceAll(a.t.textColumns(), ",", ""), " ") + `} : "` + join(c.Words) + `"`
	}
	return fmt.Sprintf(`f%d : "%s"`, c.Field, join(c.Words))
}

// rangeArgs is how many arguments a range has: the field twice, its ends, and whether it
// has to hold.
const rangeArgs = 5

func (a *ask) span(c *search.Clause) {
	f := &a.t.schema.Fields[c.Field]
	if f.Type == search.Double {
		low, high := c.ClosedFloat()
		a.ranges = append(a.ranges, c.Field, c.Field, low, high, !c.Not)
		return
	}
	low, high := c.Closed()
	a.ranges = append(a.ranges, c.Field, c.Field, low, high, !c.Not)
	if f.Name == a.t.schema.Time && !c.Not { // days outside need not be looked at
		a.low, a.high = max(a.low, low), min(a.high, high)
	}
}

// where has the conditions on columns, the same text for all queries.
func (t *table) where() string {
	var column strings.Builder
	column.WriteString("CASE ?")
	for _, i := range t.numbers {
		fmt.Fprintf(&column, " WHEN %d THEN n%d", i, i)
	}
	column.WriteString(" END")
	return strings.Repeat(" AND (? < 0 OR coalesce("+column.String()+" BETWEEN ? AND ?, 0) = ?)", search.MaxRanges)
}

// from selects the documents of some days, with its arguments.
func (a *ask) from(from, to int64) (string, []any) {
	if a.words == "" {
		args := append([]any{begins(from), begins(to + 1)}, a.ranges...)
		return " FROM " + a.t.name + "_doc d WHERE d.at >= ? AND d.at < ?" + a.t.where(), args
	}
	args := append([]any{a.words, from << seqBits, to<<seqBits | seqMask}, a.ranges...)
	return " FROM " + a.t.name + "_words w CROSS JOIN " + a.t.name + "_doc d ON d.id = w.rowid WHERE w." + a.t.name + "_words MATCH ? AND w.rowid BETWEEN ? AND ?" + a.t.where(), args
}

// hits reads the matches of some days, until there is one hit more than the page takes.
func (a *ask) hits(tx *sqlitedb.Tx, from, to int64, have []found) ([]found, error) {
	text, args := a.from(from, to)
	less, direction := "<", " DESC"
	if a.oldest {
		less, direction = ">", ""
	}
	if a.paged {
		text += " AND (d.at, d.tie, d.day, d.key) " + less + " (?,?,?,?)"
		args = append(args, a.after.Time, a.after.Tie, a.after.Day, a.after.ID)
	}
	order := strings.NewReplacer("$", direction).Replace(" ORDER BY at$, tie$, day$, key$")
	rows, err := tx.Query("SELECT h.at, h.tie, h.day, h.key, b.body FROM (SELECT d.id, d.at, d.tie, d.day, d.key"+text+order+" LIMIT ?) h JOIN "+a.t.name+"_body b ON b.id = h.id"+order,
		append(args, a.q.Hits()+1-len(have))...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f found
		if err := rows.Scan(&f.at.Time, &f.at.Tie, &f.at.Day, &f.at.ID, &f.body); err != nil {
			return nil, err
		}
		have = append(have, f)
	}
	return have, rows.Err()
}

// count counts the matches, up to search.MaxTotal.
func (a *ask) count(ctx context.Context, db *sqlitedb.DB) (total int, err error) {
	err = a.windows(ctx, db, func(tx *sqlitedb.Tx, from, to int64) (bool, error) {
		text, args := a.from(from, to)
		var n int
		err := tx.QueryRow("SELECT count(*) FROM (SELECT 1"+text+" LIMIT ?)", append(args, search.MaxTotal-total)...).Scan(&n)
		total += n
		return total >= search.MaxTotal, err
	})
	return total, err
}

// mostDays is how many days one read covers at most, so that none is long.
const mostDays = 64

// windows reads days from the newest or the oldest on, one, two, four… at a time, each in a
// read of its own, until do has enough.
func (a *ask) windows(ctx context.Context, db *sqlitedb.DB, do func(tx *sqlitedb.Tx, from, to int64) (enough bool, err error)) error {
	low, high := dayOf(a.low), dayOf(a.high)
	for days := int64(1); low <= high && a.low <= a.high; days = min(2*days, mostDays) {
		var enough bool
		err := db.Read(ctx, func(tx *sqlitedb.Tx) error {
			var next int64
			seek, at := a.t.newest, high<<seqBits|seqMask
			if a.oldest {
				seek, at = a.t.oldest, low<<seqBits
			}
			if err := tx.QueryRow(seek, at).Scan(&next); err != nil {
				return err
			}
			from, to := next>>seqBits, next>>seqBits // the first day with any
			if next < 0 || from < low || to > high {
				enough = true
				return nil
			}
			if a.oldest {
				to = min(to+days-1, high)
				low = to + 1
			} else {
				from = max(from-days+1, low)
				high = from - 1
			}
			var err error
			enough, err = do(tx, from, to)
			return err
		})
		if err != nil || enough {
			return err
		}
	}
	return nil
}
