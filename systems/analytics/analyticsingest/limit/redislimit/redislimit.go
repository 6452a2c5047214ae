// Package redislimit limits what projects may send by counters in Redis, so that all
// instances of the ingest API count together, and others may say who is over quota.
//
//	ratelimit:<project>:<start of 10 s, unix>   events; the last six are the rate
//	billing:quota_limited                       set of projects over quota
//	billing:events:<project>:<YYYY-MM>          billed events, until the 6th of the next month
//
// A project's counters are read, and what was let in is written, once a second and in one
// round trip; between, an instance counts by itself. So the rate is exceeded by what all
// instances let in within a second at the most. A Redis that does not answer never keeps
// events out: each instance counts alone until it does.
package redislimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
)

// Options tune a Meter; the zero value limits nothing by itself: it counts, and keeps to
// the set of projects over quota.
type Options struct {
	Rate     int              // events a minute and project; 0: no limit
	Quota    int              // billed events a month (UTC) and project; 0: only the set says who is over
	Interval time.Duration    // between looks at a project's counters; 0 means 1s
	Timeout  time.Duration    // how long Redis may take to answer; 0 means 250ms
	Log      *slog.Logger     // nil discards
	Now      func() time.Time // nil means time.Now
}

// Meter is an analyticsingest.Meter.
type Meter struct {
	client rueidis.Client
	o      Options

	mu    sync.Mutex // guards the limits of o, and all below; never held across a call
	of    map[uuid.UUID]*row
	swept int64     // bucket in which silent rows were last forgotten
	away  time.Time // Redis is left alone until then; zero: it answers
}

var (
	_ analyticsingest.Meter   = (*Meter)(nil)
	_ analyticsingest.Limiter = (*Meter)(nil)
)

const (
	span     = 10 * time.Second // of a bucket
	buckets  = 6                // a minute
	life     = 70               // seconds that a bucket is kept
	overSet  = "billing:quota_limited"
	alongMax = 64 // other projects whose counts go along in one round trip
)

// row is what an instance knows of a project.
type row struct {
	at     [buckets]int64 // which bucket each place holds, in spans since 1970
	seen   [buckets]int64 // what was in Redis, and what may be
	unsent [buckets]int64 // let in since; below zero: taken back
	over   bool           // in the set
	month  string         // of what follows
	billed int64          // in Redis, and what may be
	owed   int64          // not billed there yet
	look   time.Time      // not before
}

// New makes a meter.
func New(client rueidis.Client, o Options) (*Meter, error) {
	if client == nil {
		return nil, errors.New("limits in Redis need a connection")
	}
	if o.Rate < 0 || o.Quota < 0 || o.Interval < 0 || o.Timeout < 0 {
		return nil, errors.New("limits in Redis: all numbers are zero (the default) or more")
	}
	o.Interval, o.Timeout = cmp.Or(o.Interval, time.Second), cmp.Or(o.Timeout, 250*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Meter{client: client, o: o, of: map[uuid.UUID]*row{}}, nil
}

// row finds a project's row; the lock is held.
func (m *Meter) row(project uuid.UUID, now time.Time) (r *row, bucket int64) {
	bucket = now.Unix() / int64(span/time.Second)
	month := now.UTC().Format("2006-01")
	if bucket >= m.swept+buckets { // forget who was silent for a minute and owes nothing
		m.swept = bucket
		for id, r := range m.of {
			silent := r.owed == 0
			for _, at := range r.at {
				silent = silent && at <= bucket-buckets
			}
			if silent {
				delete(m.of, id)
			}
		}
	}
	if r = m.of[project]; r == nil {
		r = &row{}
		m.of[project] = r
	}
	if r.month != month && r.owed == 0 {
		r.month, r.billed = month, 0
	}
	if i := bucket % buckets; r.at[i] != bucket {
		r.at[i], r.seen[i], r.unsent[i] = bucket, 0, 0
	}
	return r, bucket
}

// Limit is analyticsingest.Limiter.
func (m *Meter) Limit(rate, quota int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.o.Rate, m.o.Quota = rate, quota
}

// sum is the rate as it is known.
func (r *row) sum(bucket int64) (n int64) {
	for i, at := range r.at {
		if at > bucket-buckets {
			n += r.seen[i] + r.unsent[i]
		}
	}
	return n
}

// Admit is analyticsingest.Meter.
func (m *Meter) Admit(ctx context.Context, project uuid.UUID, events int, billed bool) (analyticsingest.Admission, error) {
	now := m.o.Now()
	m.mu.Lock()
	r, bucket := m.row(project, now)
	place := bucket % buckets
	full := m.o.Rate > 0 && r.sum(bucket) >= int64(m.o.Rate)
	if !full { // so that it goes along
		r.unsent[place] += int64(events)
	}
	var l *look
	if !now.Before(r.look) && !now.Before(m.away) {
		r.look = now.Add(m.o.Interval)
		l = m.prepare(project, r, now, bucket)
	}
	m.mu.Unlock()
	var err error
	if l != nil {
		err = l.run(ctx, m)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if l != nil {
		m.take(ctx, l, err)
	}
	before := r.sum(bucket)
	if !full {
		before -= int64(events)
	}
	answer := analyticsingest.Admitted
	switch {
	case m.o.Rate > 0 && before >= int64(m.o.Rate):
		answer = analyticsingest.Limited
	case billed && (r.over || m.o.Quota > 0 && r.billed >= int64(m.o.Quota)):
		answer = analyticsingest.OverQuota
	}
	switch counted := !full; {
	case r.at[place] != bucket: // a minute has passed meanwhile
	case counted && answer != analyticsingest.Admitted:
		r.unsent[place] -= int64(events)
	case !counted && answer == analyticsingest.Admitted:
		r.unsent[place] += int64(events)
	}
	return answer, nil
}

// Bill is analyticsingest.Meter. What cannot be billed now is billed with the next look.
func (m *Meter) Bill(ctx context.Context, project uuid.UUID, events int) error {
	now := m.o.Now()
	m.mu.Lock()
	r, _ := m.row(project, now)
	r.owed += int64(events)
	r.billed += int64(events)
	var l *look
	if !now.Before(m.away) {
		l = &look{}
		m.bill(l, project, r)
	}
	m.mu.Unlock()
	if l == nil {
		return nil
	}
	err := l.run(ctx, m)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(ctx, l, err)
	return nil
}

func rateKey(project uuid.UUID, bucket int64) string {
	return "ratelimit:" + project.String() + ":" + strconv.FormatInt(bucket*int64(span/time.Second), 10)
}

// billEnd is when a month's counter expires: the 6th of the next month.
func billEnd(month string) time.Time {
	t, err := time.Parse("2006-01", month)
	if err != nil {
		return time.Time{}
	}
	return t.AddDate(0, 1, 5)
}

// trouble notes whether Redis did answer; the lock is held.
func (m *Meter) trouble(ctx context.Context, err error) {
	was := !m.away.IsZero()
	if m.away = (time.Time{}); err != nil {
		m.away = m.o.Now().Add(m.o.Interval)
	}
	switch {
	case err != nil && !was:
		// Logged when the Redis of limits fails; once for each outage.
		// To do: see whether that Redis is well; each instance lets in as much as the limit meanwhile.
		m.o.Log.WarnContext(ctx, "limits cannot be shared; every instance counts alone", "error", err)
	case err == nil && was:
		// Logged when the Redis of limits answers after it did not.
		m.o.Log.InfoContext(ctx, "limits are shared again")
	}
}

// lostAnswer says that what was asked may have been done.
func lostAnswer(err error) bool { return redisconn.Kind(err) == tidemill.Timeout }
