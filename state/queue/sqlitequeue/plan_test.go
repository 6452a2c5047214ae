package sqlitequeue

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// TestNoStatementScansATable looks at how every statement that grows with a backlog finds
// its rows.
func TestNoStatementScansATable(t *testing.T) {
	s := newFile(t, Options{}).open()
	for _, query := range []string{
		groupOnSQL, groupBackSQL, groupAtSQL, lateOnSQL, lateBackSQL, someDueSQL,
		"SELECT strand FROM queue_segment WHERE strand>=? AND strand<? ORDER BY strand LIMIT 1",
		aheadSQL, dueSQL, noTimeSQL, orderedSQL, groupsSQL, pendingSQL, trimSQL, agedSQL,
		"SELECT strand FROM queue_segment WHERE strand>? AND strand<? ORDER BY strand LIMIT 1",
		"SELECT max(pos) FROM queue_segment WHERE strand=?",
		"SELECT coalesce(min(at),0) FROM queue_late WHERE queue=? AND at>?",
		"SELECT job, failures, cause FROM queue_late WHERE pos=?",
		"SELECT " + keptColumns + " FROM queue_kept WHERE state IN (0,1) AND pos=?",
		"SELECT " + keptColumns + " FROM queue_kept WHERE state=? AND pos>? AND pos<=? ORDER BY pos DESC LIMIT ?",
		"DELETE FROM queue_segment WHERE pos IN (?,?,?)",
		"DELETE FROM queue_kept WHERE state IN (0,1) AND pos IN (?,?,?)",
		"UPDATE queue_late SET handed=handed+1 WHERE pos IN (?,?,?)",
	} {
		err := s.db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
			var args []any
			for range strings.Count(query, "?") {
				args = append(args, 1)
			}
			if query == pendingSQL {
				args = args[:5]
			}
			rows, err := tx.Query("EXPLAIN QUERY PLAN "+query, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id, parent, unused int
				var detail string
				if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
					return err
				}
				if strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "CONSTANT ROW") || strings.Contains(detail, "TEMP B-TREE") {
					t.Errorf("%s\n%s", query, detail)
				}
				if query == pendingSQL && strings.Contains(detail, "queue_segment") && !strings.Contains(detail, "COVERING") {
					t.Errorf("%s\nlooks at jobs: %s", query, detail)
				}
			}
			return rows.Err()
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
