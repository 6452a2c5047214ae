package clickhousewarehouse

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func TestATableThatIsThereIsGivenTheTimeThatEventsAreKept(t *testing.T) {
	conn := fresh(t)
	ttl := func() string {
		return text(t, conn, "SELECT extract(engine_full, 'TTL .* \\\\+ (toInterval[^ ]*)') FROM system.tables WHERE database = "+clickhousehttp.Text(conn.Database())+" AND name = 'events'")
	}
	opened := func(keep time.Duration) *Store {
		s, err := New(t.Context(), conn, Options{Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := opened(0)
	old, young := ev(1), ev(2)
	old.Timestamp, young.Timestamp = time.Now().Add(-100*24*time.Hour), time.Now().Add(-time.Hour)
	insert(t, s, old)
	insert(t, s, young)
	if got := ttl(); got != "toIntervalSecond(31536000)" || s.Was() != "" {
		t.Fatalf("a new table has %s, was %q", got, s.Was())
	}
	if s = opened(90 * 24 * time.Hour); ttl() != "toIntervalSecond(7776000)" || !strings.Contains(s.Was(), "31536000") {
		t.Errorf("it has %s, was %q", ttl(), s.Was())
	}
	if s = opened(90 * 24 * time.Hour); s.Was() != "" {
		t.Errorf("the same again changes it: was %q", s.Was())
	}
	if s = opened(0); ttl() != "toIntervalSecond(7776000)" || s.Was() != "" {
		t.Errorf("without the setting it has %s, was %q", ttl(), s.Was())
	}
	exec(t, conn, "OPTIMIZE TABLE "+s.names.events+" FINAL")
	got := list(t, s, warehouse.Filter{Project: old.Project})
	if len(got) != 1 || got[0].ID != young.ID {
		t.Errorf("there are %d events, want the one that is younger than 90 days", len(got))
	}
	exec(t, conn, "ALTER TABLE "+s.names.events+" MODIFY TTL toDateTime(timestamp) + toIntervalDay(1) RECOMPRESS CODEC(ZSTD(3)), toDateTime(timestamp) + toIntervalDay(365)")
	if _, err := New(t.Context(), conn, Options{Keep: 90 * 24 * time.Hour}); err == nil || !strings.Contains(err.Error(), "RECOMPRESS") {
		t.Errorf("a TTL that does more is replaced: %v", err)
	}
}
