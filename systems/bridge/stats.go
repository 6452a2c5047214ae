package bridge

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultBuckets of histograms, in seconds.
var DefaultBuckets = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// Stats are counters since the start, except Unanswered. The engine's own counters are in
// Pipeline.Stats.
type Stats struct {
	Published uint64 // messages that the broker acknowledged, repetitions included
	Acked     uint64 // entries that ended delivered: by an ack, or by the broker's acknowledgement
	Refused   uint64 // negative acks
	Unknown   uint64 // acks of entries that are not pending: acked before, or never ours
	Garbage   uint64 // payloads on the ack topic that are not acks
	Dead      uint64 // entries on the topic of the dead
	Dropped   uint64 // entries given up that stay pending without a topic of the dead; counted again whenever they come again
	Errors    uint64 // of MQTT

	Unanswered Unanswered // now, not since the start

	Processing Histogram // of a batch, for each message of it
	Publishing Histogram // until the broker has acknowledged a message
	Acking     Histogram // from then until the subscriber did
}

// Histogram of seconds, as Prometheus has it.
type Histogram struct {
	Bounds []float64
	Counts []uint64 // up to each bound, those of lower bounds included
	Count  uint64
	Sum    float64
}

// stats are the numbers behind Stats.
type stats struct {
	published, acked, refused, unknown, garbage, dead, kept, mqtt atomic.Uint64
	processing, publishing, acking                                histogram

	seed maphash.Seed
	mu   sync.Mutex // guards out
	out  []sending  // a slot for each of the last published messages, by the hash of its id
}

// sending is when a message went out.
type sending struct {
	id uint64 // hash
	at int64  // unix ns
}

// outs is how many messages that await an ack are timed. Later ones replace earlier ones, which
// then are not in the histogram.
const outs = 1 << 15

func (s *stats) init(bounds []float64) {
	s.seed = maphash.MakeSeed()
	for _, h := range []*histogram{&s.processing, &s.publishing, &s.acking} {
		h.bounds = bounds
		h.counts = make([]atomic.Uint64, len(bounds)+1)
	}
}

// sent notes that a message is sent now.
func (s *stats) sent(id string, now time.Time) {
	h := maphash.String(s.seed, id)
	s.mu.Lock()
	if s.out == nil {
		s.out = make([]sending, outs)
	}
	s.out[h%outs] = sending{h, now.UnixNano()}
	s.mu.Unlock()
}

// back notes that its ack came.
func (s *stats) back(id string, now time.Time) {
	h := maphash.String(s.seed, id)
	s.mu.Lock()
	at := int64(0)
	if s.out != nil && s.out[h%outs].id == h {
		at = s.out[h%outs].at
		s.out[h%outs] = sending{}
	}
	s.mu.Unlock()
	if at != 0 {
		s.acking.observe(time.Duration(now.UnixNano()-at), 1)
	}
}

// Stats reads the counters.
func (b *Bridge) Stats() Stats {
	s := &b.stats
	return Stats{Published: s.published.Load(), Acked: s.acked.Load(), Refused: s.refused.Load(), Unknown: s.unknown.Load(),
		Garbage: s.garbage.Load(), Dead: s.dead.Load(), Dropped: s.kept.Load(), Errors: s.mqtt.Load(), Unanswered: b.unanswered.look(b.o.Now()),
		Processing: s.processing.read(), Publishing: s.publishing.read(), Acking: s.acking.read()}
}

// Utilization is how much of the buffer is used, in percent, at most 100: the engine still
// counts entries that a drop policy has just dropped.
func (b *Bridge) Utilization() float64 {
	st := b.Pipeline.Stats()
	return min(100*float64(st.InFlight)/float64(b.o.Buffer), 100)
}

// histogram counts durations, many at a time.
type histogram struct {
	bounds []float64
	counts []atomic.Uint64 // between bounds
	sum    atomic.Uint64   // float64 bits
}

// observe counts n events of duration d each.
func (h *histogram) observe(d time.Duration, n int) {
	v := d.Seconds()
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(uint64(n))
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v*float64(n))) {
			return
		}
	}
}

func (h *histogram) read() Histogram {
	out := Histogram{Bounds: h.bounds, Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		out.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			out.Counts = append(out.Counts, out.Count)
		}
	}
	return out
}
