package sqlitewindow

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
)

// TestNoStatementScansATable looks at how every statement that grows with a backlog finds
// its rows.
func TestNoStatementScansATable(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Readers: 1, CacheMiB: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := New(t.Context(), db, window.Options{}); err != nil {
		t.Fatal(err)
	}
	for query, index := range map[string]string{
		dueSQL:             "window_out",
		nextSQL:            "window_out",
		entries + fullSQL:  "window_full",
		entries + overSQL:  "window_opened",
		firstSQL:           "window_opened",
		clearSQL:           "PRIMARY KEY",
		pageSQL:            "PRIMARY KEY (revision=? AND key>?)",
		knownSQL + ",?,?)": "PRIMARY KEY (revision=? AND key=?)",
		entries + "WHERE w.batch=? AND w.state=0":                                 "window_active",
		"SELECT opened FROM window_batch WHERE state=? ORDER BY revision LIMIT 1": "window_state",
	} {
		err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
			args := make([]any, strings.Count(query, "?"))
			for i := range args {
				args[i] = 1
			}
			plan := ""
			err := each(tx, "EXPLAIN QUERY PLAN "+query, args, func(rows *sql.Rows) error {
				var id, parent, unused int
				var detail string
				err := rows.Scan(&id, &parent, &unused, &detail)
				plan += detail + "\n"
				if strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, index) || strings.Contains(detail, "TEMP B-TREE") {
					t.Errorf("%s\n%s", query, detail)
				}
				return err
			})
			if !strings.Contains(plan, index) {
				t.Errorf("%s\ndoes not use %s:\n%s", query, index, plan)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
