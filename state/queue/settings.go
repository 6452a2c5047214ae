package queue

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/nearest"
	"github.com/tidemill/tidemill/internal/wire"
)

// Settings say how one queue works. They are durable and hold for all instances; the zero
// value is what a new queue has. Operators read and write them as JSON.
type Settings struct {
	Paused bool `json:"paused,omitempty"` // hands out nothing
	// PausedUntil is when the queue is to resume, as set at the pause; zero: when somebody
	// resumes it. The queue only keeps it and does not act on it.
	PausedUntil time.Time `json:"paused_until,omitzero"`
	Closed      bool      `json:"closed,omitempty"` // being drained: takes no new jobs, what is there is worked on

	// Max is how many jobs the queue may hold; 0: the store's limit. It may be more than that. A
	// store with several shards gives each an equal part.
	Max int `json:"max,omitempty"`

	// FailingSince and Off are when the destination of the jobs first failed after its last
	// success, and when it was switched off for that; zero: it was not. The queue only keeps
	// them and does not act on them.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Off          time.Time `json:"off,omitzero"`

	// Weights of priorities: while several priorities wait, each gets its weight's share of
	// the hand-outs, so that none starves. A priority that is not named has 4 times the
	// weight of the one below it: 1, 4, 16, 64, and 256 from priority 4 on.
	Weights map[uint8]int `json:"weights,omitempty"`

	// Fair says who takes turns within a priority. When it is switched while jobs wait, the
	// backend chooses which of them come first.
	Fair Fairness `json:"fair,omitempty"`

	// Ordered keeps strict order per tenant and key: a job is not handed out while an
	// earlier due one of its key is waiting, leased, or delayed after a try. Jobs without a
	// key have no order. It can be changed only while the queue holds no job.
	Ordered bool `json:"ordered,omitempty"`

	Limit   Limit            `json:"limit,omitzero"`    // of the whole queue
	Tenant  Limit            `json:"tenant,omitzero"`   // of each tenant that is not named below
	Tenants map[string]Limit `json:"tenants,omitempty"` // of tenants by name (UTF-8), instead
	// Key is the limit of each tenant's key (no key: none). Like fairness by key it holds
	// for jobs that come, or come back, after it was set.
	Key Limit `json:"key,omitzero"`
	// Configured are the limits that Configure has set, so that they are removed with the
	// configuration that they came from.
	Configured Configured `json:"configured,omitzero"`

	Completed Keep `json:"completed,omitzero"` // how many jobs are kept after they were delivered or skipped; zero: none
	Failed    Keep `json:"failed,omitzero"`    // how many are kept after they died; zero: none
}

// Fairness says who takes turns.
type Fairness string

// Tenants take turns while several have jobs that may be handed out: a tenant with a
// million jobs waits no longer because of another's ten, and does not delay those.
const (
	ByTenant Fairness = ""       // tenants; each tenant's jobs go first in, first out
	ByKey    Fairness = "keys"   // tenants, and within a tenant its keys; first in, first out for each key
	Unfair   Fairness = "unfair" // nobody: first in, first out over all tenants
)

// Limit bounds how much is handed out. A job that a limit holds back waits, at no cost.
type Limit struct {
	PerSecond float64 `json:"per_second,omitempty"` // 0: no limit
	Burst     int     `json:"burst,omitempty"`      // how many may go at once after a pause; 0: a tenth of a second's, one at least
	AtOnce    int     `json:"at_once,omitempty"`    // out at a time; 0: no limit. Jobs handed out before it was set do not count
}

// Keep is how many jobs are kept after their end, and for how long. Both bounds hold;
// without a Count none is kept, without an Age only the Count bounds them.
type Keep struct {
	Count int           `json:"count,omitempty"`
	Age   time.Duration `json:"age,omitempty"`
}

// Bounds of settings.
const (
	MaxWeight  = 1000
	MaxRate    = 1e6     // a second
	MinRate    = 1e-6    // of a limit; a queue that hands out less is paused
	MaxKept    = 1 << 20 // jobs after their end
	MaxTenants = 10_000  // with limits of their own
)

// Check refuses invalid settings, with kind validation.
func (s *Settings) Check() error {
	if s.Max < 0 {
		return tidemill.Fail(tidemill.Validation, "at most %d jobs: want 0 (as many as the store allows) or more", s.Max)
	}
	for _, p := range slices.Sorted(maps.Keys(s.Weights)) {
		if w := s.Weights[p]; w < 1 || w > MaxWeight {
			return tidemill.Fail(tidemill.Validation, "weight of priority %d: %d is not between 1 and %d", p, w, MaxWeight)
		}
	}
	if s.Fair != ByTenant && s.Fair != ByKey && s.Fair != Unfair {
		return tidemill.Fail(tidemill.Validation, "fairness %q: want %q (tenants), %q or %q%s", s.Fair, ByTenant, ByKey, Unfair, nearest.Said(string(s.Fair), []string{string(ByKey), string(Unfair)}))
	}
	if len(s.Tenants) > MaxTenants {
		return tidemill.Fail(tidemill.Validation, "limits of %d tenants: there may be %d", len(s.Tenants), MaxTenants)
	}
	for _, l := range []Limit{s.Limit, s.Tenant, s.Key} {
		if err := l.check(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tenants)) {
		if !utf8.ValidString(name) { // it would be stored as another name
			return tidemill.Fail(tidemill.Validation, "limit of tenant %q: only of names in UTF-8 there can be one", name)
		}
		if err := s.Tenants[name].check(); err != nil {
			return fmt.Errorf("tenant %q: %w", name, err)
		}
	}
	for _, k := range []Keep{s.Completed, s.Failed} {
		if k.Count < 0 || k.Count > MaxKept || k.Age < 0 {
			return tidemill.Fail(tidemill.Validation, "keep %d jobs for %v: want at most %d, and no negative time", k.Count, k.Age, MaxKept)
		}
	}
	return nil
}

func (l Limit) check() error {
	if !(l.PerSecond >= 0 && l.PerSecond <= MaxRate) || l.Burst < 0 || l.Burst > MaxRate || l.AtOnce < 0 {
		return tidemill.Fail(tidemill.Validation, "limit %+v: want no negative number, and at most %.0f a second", l, MaxRate)
	}
	if l.PerSecond > 0 && l.PerSecond < MinRate {
		return tidemill.Fail(tidemill.Validation, "limit of %g a second: that is too little, pause the queue instead", l.PerSecond)
	}
	return nil
}

// Clone shares no memory with the settings.
func (s Settings) Clone() Settings {
	s.Weights, s.Tenants, s.Configured.Tenants = maps.Clone(s.Weights), maps.Clone(s.Tenants), maps.Clone(s.Configured.Tenants)
	return s
}

// Version of the settings: other settings have another one.
func (s Settings) Version() string {
	b, err := json.Marshal(s)
	if err != nil { // plain numbers and texts
		panic(err)
	}
	return wire.Fingerprint(b)
}

// EndPause ends a pause whose time is over. A queue that is switched off stays paused.
func (s *Settings) EndPause() { s.Paused, s.PausedUntil = !s.Off.IsZero(), time.Time{} }

// LimitOf is the limit of a tenant.
func (s *Settings) LimitOf(tenant string) Limit {
	if l, ok := s.Tenants[tenant]; ok {
		return l
	}
	return s.Tenant
}
