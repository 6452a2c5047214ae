package analyticsingest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// A Meter limits how much a project may send. Its errors never keep events out: what
// cannot be counted now is let in.
type Meter interface {
	// Admit says whether so many events of the project may come in now, and counts them
	// in its rate if they may. Only billed events are held to the quota.
	Admit(ctx context.Context, project uuid.UUID, events int, billed bool) (Admission, error)
	// Bill counts billed events that are durable now.
	Bill(ctx context.Context, project uuid.UUID, events int) error
}

// A Limiter is a Meter whose limits may change while it counts; 0: there is none.
type Limiter interface{ Limit(rate, quota int) }

// Admission is a Meter's answer.
type Admission uint8

const (
	Admitted  Admission = iota
	Limited             // too many lately: try again in ten seconds
	OverQuota           // the month's quota is used up: the events are dropped
)

const (
	bucketSpan = 10 * time.Second
	buckets    = 6 // a minute
)

// memoryMeter is the Meter of one process. Its months begin anew with the process.
type memoryMeter struct {
	now     func() time.Time
	limited atomic.Bool // there is a limit

	mu          sync.Mutex // guards all below
	rate, quota int        // 0: no limit
	of          map[uuid.UUID]*meterRow
	swept       int64 // bucket in which idle rows were last forgotten
}

type meterRow struct {
	at     [buckets]int64 // which bucket each place holds, in spans since 1970
	n      [buckets]int
	month  int64 // year and month of billed
	billed int
}

func newMemoryMeter(rate, quota int, now func() time.Time) *memoryMeter {
	m := &memoryMeter{now: now, of: map[uuid.UUID]*meterRow{}}
	m.Limit(rate, quota)
	return m
}

// row finds a project's row, with the current bucket and month; the lock is held.
func (m *memoryMeter) row(project uuid.UUID) (*meterRow, int64) {
	now := m.now().UTC()
	bucket := now.Unix() / int64(bucketSpan/time.Second)
	month := int64(now.Year())*12 + int64(now.Month())
	if bucket >= m.swept+buckets { // forget who was silent for a minute and owes nothing
		m.swept = bucket
		for id, r := range m.of {
			idle := true
			for _, at := range r.at {
				idle = idle && at <= bucket-buckets
			}
			if idle && (m.quota == 0 || r.month != month) {
				delete(m.of, id)
			}
		}
	}
	r := m.of[project]
	if r == nil {
		r = &meterRow{}
		m.of[project] = r
	}
	if r.month != month {
		r.month, r.billed = month, 0
	}
	return r, bucket
}

// Limit is Limiter.
func (m *memoryMeter) Limit(rate, quota int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rate, m.quota = rate, quota
	m.limited.Store(rate > 0 || quota > 0)
}

func (m *memoryMeter) Admit(_ context.Context, project uuid.UUID, events int, billed bool) (Admission, error) {
	if !m.limited.Load() {
		return Admitted, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, bucket := m.row(project)
	if m.rate > 0 {
		sum := 0
		for i, at := range r.at {
			if at > bucket-buckets {
				sum += r.n[i]
			}
		}
		if sum >= m.rate {
			return Limited, nil
		}
	}
	if billed && m.quota > 0 && r.billed >= m.quota {
		return OverQuota, nil
	}
	i := bucket % buckets
	if r.at[i] != bucket {
		r.at[i], r.n[i] = bucket, 0
	}
	r.n[i] += events
	return Admitted, nil
}

func (m *memoryMeter) Bill(_ context.Context, project uuid.UUID, events int) error {
	if !m.limited.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, _ := m.row(project)
	r.billed += events
	return nil
}
