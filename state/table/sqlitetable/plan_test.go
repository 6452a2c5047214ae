package sqlitetable

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// TestPagesReadAnIndexInItsOrder holds that a page whose conditions are on the first fields of its
// order is a search in an index: no scan of the table, and nothing sorted.
func TestPagesReadAnIndexInItsOrder(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s, err := New(t.Context(), db, tabletest.Spec("t"))
	if err != nil {
		t.Fatal(err)
	}
	type q = table.Query[tabletest.Record]
	state := []table.Cond{{Field: "state", Op: "=", Value: uint8(1)}}
	after := &tabletest.Record{Key: "k", State: 1, Group: "g", Flag: true}
	after.At = after.At.AddDate(2025, 0, 0)
	for _, c := range []struct {
		q    q
		want string // of the plan, between the name of the table and its end
	}{
		{q{}, "SCAN t USING INDEX sqlite_autoindex_t_1"}, // from the beginning of the index
		{q{After: after}, "SEARCH t USING INDEX sqlite_autoindex_t_1 (key>?)"},
		{q{After: after, Back: true}, "SEARCH t USING INDEX sqlite_autoindex_t_1 (key<?)"},
		{q{By: "at", After: after}, "SEARCH t USING INDEX t.at ((at,key)>(?,?))"},
		{q{By: "at", After: after, Back: true}, "SEARCH t USING INDEX t.at ((at,key)<(?,?))"},
		{q{By: "at", After: after, Where: []table.Cond{{Field: "at", Op: "<", Value: after.At.AddDate(1, 0, 0)}}}, "SEARCH t USING INDEX t.at ((at,key)>(?,?) AND at<?)"},
		{q{By: "state", Where: state}, "SEARCH t USING INDEX t.state (state=?)"},
		{q{By: "state", Where: state, After: after}, "SEARCH t USING INDEX t.state (state=? AND (at,key)>(?,?))"},
		{q{By: "state", Where: append(state, table.Cond{Field: "at", Op: "<=", Value: after.At}), Back: true}, "SEARCH t USING INDEX t.state (state=? AND at<?)"},
		{q{By: "state", Where: append(state, table.Cond{Field: "at", Op: ">", Value: after.At.AddDate(-1, 0, 0)}), After: after}, "SEARCH t USING INDEX t.state (state=? AND (at,key)>(?,?))"},
		{q{By: "group", Where: []table.Cond{{Field: "flag", Op: "=", Value: true}, {Field: "group", Op: "=", Value: "g"}}, After: after}, "SEARCH t USING INDEX t.group (group=? AND flag=? AND (no,key)>(?,?))"},
		// Records that another index would find are not sorted.
		{q{By: "at", Where: append(state, table.Cond{Field: "group", Op: "=", Value: "g"}, table.Cond{Field: "tries", Op: ">", Value: 1})}, "SCAN t USING INDEX t.at"},
	} {
		for _, only := range [][]string{nil, {"key"}} {
			c.q.Only, c.q.Most = only, 10
			p, err := s.of.Plan(c.q)
			if err != nil {
				t.Fatal(err)
			}
			query, args := page(&s.sql, layout.Names(p.Only), p, true)
			if got := strings.ReplaceAll(explain(t, db, query, args), "COVERING ", ""); got != c.want {
				t.Errorf("%s:\n%s, want\n%s", query, got, c.want)
			}
		}
	}
}

func explain(t *testing.T, db *sqlitedb.DB, query string, args []any) string {
	t.Helper()
	var steps []string
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			steps = append(steps, detail)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(steps, "; ")
}

// TestFewStatementsPutRecords holds that records of which any fields are zero are put by few
// statements, each with as many values as it has placeholders.
func TestFewStatementsPutRecords(t *testing.T) {
	l, err := layout.Of(tabletest.Spec("t"))
	if err != nil {
		t.Fatal(err)
	}
	s := statementsOf(l)
	for i := range 4 * maxPuts {
		args := make([]any, 2*len(l.Fields))
		for j := range args {
			args[j] = int64(0)
			if j%len(l.Fields) == 0 || i>>(j%len(l.Fields)-1)&1 == 1 {
				args[j] = int64(1)
			}
		}
		some := 0
		for _, v := range args {
			if v != int64(0) {
				some++
			}
		}
		b, left := put(&s, l, l.Fields, nil, args)
		if n := 2 * strings.Count(b.row, "?"); n != len(left) || i < maxPuts && n != some {
			t.Errorf("%d values of 2 records are put as %d by %s; %d are not zero", len(args), len(left), b.head, some)
		}
	}
	if n := len(s.puts); n != maxPuts+1 {
		t.Errorf("%d statements, want %d and that of all fields", n, maxPuts)
	}
}
