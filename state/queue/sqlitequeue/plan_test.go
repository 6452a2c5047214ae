package sqlitequeue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// TestNoStatementScansATable looks at how every statement that grows with a backlog finds
// its rows.
func TestNoStatementScansATable(t *testing.T) {
	s := newFile(t, Options{}).open()
	for _, query := range []string{
		aheadSQL, dueSQL, noTimeSQL, chainSQL, strandsSQL, pendingSQL, trimSQL, agedSQL,
		"SELECT strand FROM queue_segment WHERE strand>? AND strand<? ORDER BY strand LIMIT 1",
		"SELECT max(pos) FROM queue_segment WHERE strand=?",
		"SELECT coalesce(min(at),0) FROM queue_late WHERE queue=? AND at>?",
		"SELECT job, failures, cause FROM queue_late WHERE pos=?",
		"SELECT " + keptColumns + " FROM queue_kept WHERE pos=?",
		"DELETE FROM queue_segment WHERE pos IN (?,?,?)",
		"DELETE FROM queue_kept WHERE pos IN (?,?,?)",
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

// TestAFileOfTheFirstVersionOpens fills a file as the first version did, whose segments
// have jobs of all tenants.
func TestAFileOfTheFirstVersionOpens(t *testing.T) {
	const n = 5000
	f := newFile(t, Options{})
	ctx := t.Context()
	db, err := sqlitedb.Open(ctx, f.path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(ctx, "queue", steps[:1]); err != nil {
		t.Fatal(err)
	}
	old := &line{no: 1}
	now := time.Now().UnixMilli()
	err = db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if _, err := tx.Exec("INSERT INTO queue(no,name,next,delivered) VALUES(1,?,?,2)", []byte("q"), n+2); err != nil {
			return err
		}
		var records [][]byte
		first := uint64(2) // 1 has ended, and 2
		for i := range n {
			m := &tidemill.Message{ID: fmt.Sprint(i), Tenant: []string{"big", "big", "big", "small"}[i%4], Payload: []byte("p")}
			records = append(records, appendRecord(nil, m, now))
			if len(records) == segmentJobs || i == n-1 {
				if _, err := tx.Exec("INSERT INTO queue_segment(pos,n,jobs) VALUES(?,?,?)", old.place(first), len(records), appendSegment(nil, records)); err != nil {
					return err
				}
				first += uint64(len(records))
				records = nil
			}
		}
		if _, err := tx.Exec("INSERT INTO queue_ended(pos,gone,bits) VALUES(?,1,1)", old.place(2)); err != nil {
			return err
		}
		m := &tidemill.Message{ID: "late", Tenant: "small", Payload: []byte("p")}
		_, err := tx.Exec("INSERT INTO queue_late(pos,queue,at,tries,handed,job) VALUES(?,1,NULL,2,3,?)", old.place(n+2), appendRecord(nil, m, now))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := f.open()
	src := s.Open("q", queue.Options{})
	if st, err := s.Stats(ctx, "q"); err != nil || st.Waiting != n {
		t.Fatalf("the file holds %+v, %v; want %d that wait", st, err, n)
	}
	if err := s.Add(ctx, []*tidemill.Message{{ID: "new", Tenant: "small", To: "q", Payload: []byte("p")}}, nil); err != nil {
		t.Fatal(err)
	}
	last := map[string]uint64{}
	for left, round := n+1, 0; left > 0; round++ {
		into := slots(100)
		k, err := src.Receive(ctx, into)
		if err != nil {
			t.Fatal(err)
		}
		small := 0
		ends := make([]tidemill.Settlement, k)
		for i, m := range into[:k] {
			if m.Mark.Lo <= last[m.Tenant] {
				t.Fatalf("tenant %s had job %d after %d", m.Tenant, m.Mark.Lo, last[m.Tenant])
			}
			last[m.Tenant] = m.Mark.Lo
			if m.ID == "late" && (m.Tries != 2 || m.Handed != 4) {
				t.Errorf("the late job came with %d tries and %d hand-outs", m.Tries, m.Handed)
			}
			if m.Tenant == "small" {
				small++
			}
			ends[i] = delivered(m)
		}
		if round < 5 && small < 40 {
			t.Errorf("of %d jobs the small tenant had %d, want about half", k, small)
		}
		if err := src.Settle(ctx, ends); err != nil {
			t.Fatal(err)
		}
		left -= k
	}
	want := tidemill.Books{Accepted: n + 3, Settled: tidemill.Count{Delivered: n + 3}}
	if got, err := src.(tidemill.Bookkeeper).Books(context.Background()); err != nil || got != want {
		t.Errorf("books are %+v, %v; want %+v", got, err, want)
	}
}
