package redissource

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// fill adds n entries, at the server.
func (b *table) fill(n string) {
	b.Helper()
	b.do("EVAL", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'n', i) end return 1", "1", b.stream, n)
}

// Redis does not know how many entries are behind a group where one of those was deleted.
func TestABacklogThatRedisDoesNotKnowIsNotLost(t *testing.T) {
	b := newTable(t, testenv.Start(t, testenv.PrivateRedis).URL) // others would have to wait
	s := b.open(b.client, Options{})
	b.add(1)
	b.deliver(s, b.take(s, 1, soon)...)
	b.do("XGROUP", "CREATE", b.stream, "other", "0")
	ids := b.add(2)
	b.fill("120000")
	b.do("XDEL", b.stream, ids[1])
	want := tidemill.Books{Accepted: 120_003, Settled: tidemill.Count{Delivered: 1}, Lost: 1, Pending: 120_001}
	b.books(s, want)
	if n := b.reported(Lost); n != 1 {
		t.Errorf("%d are reported as lost, want the one that was deleted", n)
	}
}

// A group that was here before may have acked millions of entries that are still there: they are not looked
// through while Redis does nothing else.
func TestWhatWasAckedBeforeIsNotLookedThrough(t *testing.T) {
	b := newTable(t, testenv.Start(t, testenv.PrivateRedis).URL)
	b.fill("200000")
	b.do("XGROUP", "CREATE", b.stream, Group, "$")
	b.add(2)
	b.do("CONFIG", "RESETSTAT")
	b.books(b.open(b.client, Options{Drains: true}), tidemill.Books{Accepted: 2, Pending: 2})
	calls, err := b.do("INFO", "commandstats").ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, calls, _ = strings.Cut(calls, "cmdstat_xrange:calls=")
	calls, _, _ = strings.Cut(calls, ",")
	if n, err := strconv.Atoi(calls); err != nil || n > 10 {
		t.Errorf("%s pages were read (%v), want a few", calls, err)
	}
}
