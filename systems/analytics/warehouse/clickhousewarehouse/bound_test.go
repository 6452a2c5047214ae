package clickhousewarehouse

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// monthly stores n events in each of some months.
func monthly(t testing.TB, s *Store, n int, months ...time.Time) {
	t.Helper()
	for _, month := range months {
		var rows []*event.Event
		for i := range n {
			e := ev(i)
			e.ID = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, month, i))
			e.Timestamp = month.Add(time.Duration(i) * time.Second)
			rows = append(rows, e)
		}
		insert(t, s, rows...)
	}
}

func TestOnlySoManyMonthsGoAsAreTooMany(t *testing.T) {
	conn := fresh(t)
	s := store(t, conn, Options{})
	month := func(year, m int) time.Time { return time.Date(year, time.Month(m), 1, 0, 0, 0, 0, time.UTC) }
	monthly(t, s, 1000, month(2025, 11), month(2025, 12), month(2026, 1), month(2026, 2))
	monthly(t, s, 10, month(1995, 1)) // which shares a partition with what is far in the future
	there := func() string {
		return text(t, conn, "SELECT arrayStringConcat(groupArray(concat(m, ':', toString(n))), ' ') FROM (SELECT toString(toYYYYMM(timestamp)) AS m, count() AS n FROM "+s.names.events+" GROUP BY m ORDER BY m)")
	}
	slices, have, err := s.slices(t.Context())
	if err != nil || len(slices) != 5 || have == 0 {
		t.Fatalf("%+v, %d: %v", slices, have, err)
	}
	young := month(2026, 2)
	most := have - slices[1].bytes // the first one does not count: it stays
	if n, more, err := s.Bound(t.Context(), most, young); n != 1000 || !more || err != nil {
		t.Fatalf("%d went, more %t: %v", n, more, err)
	}
	if n, more, err := s.Bound(t.Context(), most, young); n != 0 || more || err != nil {
		t.Fatalf("%d went though there is room now, more %t: %v", n, more, err)
	}
	if got, want := there(), "199501:10 202512:1000 202601:1000 202602:1000"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	if _, _, err := s.Bound(t.Context(), 1, month(2026, 1).Add(-time.Second)); tidemill.KindOf(err) != tidemill.Business {
		t.Errorf("a month whose last second is young: %v", err)
	}
	if got, want := there(), "199501:10 202512:1000 202601:1000 202602:1000"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
}

// A partition that is larger than the server lets people drop by mistake.
func TestALargeMonthGoesToo(t *testing.T) {
	conn := fresh(t)
	s := store(t, conn, Options{})
	monthly(t, s, 10, noon.AddDate(0, -2, 0))
	if n, _, err := s.Bound(t.Context(), 1, noon); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if err := conn.Exec(t.Context(), "SELECT 1", clickhousehttp.Set("max_partition_size_to_drop", "0")); err != nil {
		t.Errorf("the server does not know the setting: %v", err)
	}
}

func TestATableOfAnEarlierDeploymentIsBoundedByItsMonthsAndDays(t *testing.T) {
	for key, want := range map[string]string{"toYYYYMM(timestamp)": "", "toYYYYMMDD(timestamp)": "", "project_id": "no months or days", "tuple()": "no months or days"} {
		conn := fresh(t)
		exec(t, conn, "CREATE DATABASE "+clickhousehttp.Name(conn.Database()))
		exec(t, conn, strings.Replace(strings.Replace(deployed, "%.", clickhousehttp.Name(conn.Database())+".", 1), "toYYYYMM(timestamp)", key, 1))
		s := store(t, conn, Options{})
		monthly(t, s, 10, noon.AddDate(0, -2, 0), noon)
		n, _, err := s.Bound(t.Context(), 1, noon.AddDate(0, -1, 0))
		if want == "" && (n != 10 || err != nil) {
			t.Errorf("by %s: %d went: %v", key, n, err)
		}
		if want != "" && (n != 0 || err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("by %s: %d went: %v, want %q", key, n, err, want)
		}
	}
}

// What is stored at the same time is of other months, or comes after: none of it goes unseen.
func TestIntakeGoesOnWhileMonthsGo(t *testing.T) {
	conn := fresh(t)
	s := store(t, conn, Options{Recent: -1})
	months := []time.Time{}
	for i := range 6 {
		months = append(months, noon.AddDate(0, -8+i, 0))
	}
	monthly(t, s, 500, months...)
	done := make(chan error, 1)
	go func() {
		for i := range 20 {
			var rows []*event.Event
			for k := range 200 {
				rows = append(rows, ev(i*200+k))
			}
			if err := s.Insert(t.Context(), rows, make([]warehouse.Outcome, len(rows))); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	var went int64
	for more := true; more; {
		var n int64
		var err error
		if n, more, err = s.Bound(t.Context(), 1, noon.AddDate(0, -1, 0)); err != nil && tidemill.KindOf(err) != tidemill.Business {
			t.Fatal(err)
		}
		went += n
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context(), uuid.Nil); n != 4000 || err != nil || went != 3000 {
		t.Errorf("%d are there and %d went, want the 4000 that came in, and 3000: %v", n, went, err)
	}
}
