package tabledeadletter_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/deadletter"
)

// BenchmarkInSQLite puts batches of dead letters, lists them, marks them, and takes them through a
// replay.
func BenchmarkInSQLite(b *testing.B) {
	for _, size := range []int{1000, 100_000} {
		for _, work := range works {
			b.Run(fmt.Sprintf("%s/bytes=%d", work.name, size), func(b *testing.B) {
				k := kit{B: b, s: onFile(b, sqlitedbtest.NewFile(b, options).Open(), deadletter.Options{Max: 1 << 40}), size: size}
				k.start()
				work.do(&k)
				k.stop()
				b.ReportMetric(float64(k.spent.Microseconds())/float64(b.N*k.each), "cpu-µs/dead_letter")
			})
		}
	}
}

// kit is a store that is measured, and what each round works on.
type kit struct {
	*testing.B
	s    deadletter.Store
	size int // bytes of a payload
	each int // dead letters of a round
	put  int

	since, spent time.Duration // CPU of the process
}

func (k *kit) stop() {
	k.StopTimer()
	k.spent += k.cpu() - k.since
}

func (k *kit) start() {
	k.since = k.cpu()
	k.StartTimer()
}

// begin forgets what was spent to prepare.
func (k *kit) begin() { k.spent, k.since = 0, k.cpu() }

func (k *kit) cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		k.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

const batch = 200

func (k *kit) fill(batches int) {
	for range batches {
		ls := make([]tidemill.DeadLetter, batch)
		for i := range ls {
			k.put++
			ls[i] = tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500: internal server error", Tries: 3, At: time.Now(), Row: make([]byte, 300),
				Message: &tidemill.Message{ID: fmt.Sprint("message-", k.put), Tenant: "tenant", Payload: make([]byte, k.size), Time: time.Now(), Mark: tidemill.Mark{Lo: uint64(k.put)}}}
		}
		if err := k.s.Put(k.Context(), ls); err != nil {
			k.Fatal(err)
		}
	}
}

// batches are as many as 100 MB have.
func (k *kit) batches() int { return max(1, min(50, 100_000_000/batch/k.size)) }

// want fails unless a call did as much as a round has.
func (k *kit) want(n int, err error) {
	k.Helper()
	if n != k.each || err != nil {
		k.Fatalf("%d, %v; want %d", n, err, k.each)
	}
}

var works = []struct {
	name string
	do   func(*kit)
}{
	{"put", func(k *kit) {
		for k.each = batch; k.Loop(); {
			k.fill(1)
		}
	}},
	{"list", func(k *kit) {
		k.each = k.batches() * batch
		k.fill(k.batches())
		for k.begin(); k.Loop(); {
			n := 0
			for _, err := range k.s.List(k.Context(), deadletter.Filter{Pipeline: "p"}) {
				if n++; err != nil {
					k.Fatal(err)
				}
			}
			k.want(n, nil)
		}
	}},
	{"count", func(k *kit) {
		k.each = k.batches() * batch
		k.fill(k.batches())
		for k.begin(); k.Loop(); {
			k.want(k.s.Count(k.Context(), deadletter.Filter{Pipeline: "p", State: deadletter.Held, NotKinds: []tidemill.Kind{tidemill.Validation}}))
		}
	}},
	{"mark", func(k *kit) {
		for k.each = k.batches() * batch; k.Loop(); {
			k.stop()
			k.fill(k.batches())
			k.start()
			k.want(k.s.Replay(k.Context(), deadletter.Filter{Pipeline: "p"}))
		}
	}},
	{"replay", func(k *kit) {
		k.each = k.batches() * batch
		src := k.s.Open("p")
		for k.Loop() {
			k.stop()
			k.fill(k.batches())
			k.want(k.s.Replay(k.Context(), deadletter.Filter{Pipeline: "p"}))
			k.start()
			for left := k.each; left > 0; {
				left -= k.deliver(src)
			}
		}
	}},
	{"discard", func(k *kit) {
		for k.each = k.batches() * batch; k.Loop(); {
			k.stop()
			k.fill(k.batches())
			k.start()
			k.want(k.s.Delete(k.Context(), deadletter.Filter{Pipeline: "p"}))
		}
	}},
}

// deliver receives and settles some dead letters.
func (k *kit) deliver(src tidemill.Source) int {
	into := make([]*tidemill.Message, batch)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	n, err := src.Receive(k.Context(), into)
	if err != nil {
		k.Fatal(err)
	}
	ends := make([]tidemill.Settlement, n)
	for i, m := range into[:n] {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
	}
	if err := src.Settle(k.Context(), ends); err != nil {
		k.Fatal(err)
	}
	return n
}
