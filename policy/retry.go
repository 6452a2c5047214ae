package policy

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Retry says whether and when something that failed is tried again. It is a pure function
// of how many tries failed and of a random number. The zero value: it is not tried again.
type Retry struct {
	Tries  int           // tries after the first; 0: none; below 0: no limit
	Base   time.Duration // the wait after the first failure
	Factor float64       // 0: linear, the n-th wait is n×Base; else the n-th is Base×Factorⁿ⁻¹ (1: constant)
	Max    time.Duration // no wait is longer before jitter; 0: no limit
	Jitter Jitter        // how chance changes a wait
	Spread float64       // of Jitter Around: 0.25 is ±25%
}

// Jitter says how chance changes a wait, so that messages that failed together do not come
// back together.
type Jitter uint8

const (
	Exact  Jitter = iota // not at all
	Full                 // anything from 0 to the wait
	Equal                // half of the wait, plus a random part of the other half
	Added                // the wait plus a random part of Base
	Around               // the wait ± Spread of it
)

var jitterNames = [...]string{Exact: "exact", Full: "full", Equal: "equal", Added: "added", Around: "around"}

// String returns the jitter as it is written in configuration.
func (j Jitter) String() string {
	if int(j) < len(jitterNames) {
		return jitterNames[j]
	}
	return fmt.Sprintf("jitter(%d)", uint8(j))
}

// MarshalText writes the name.
func (j Jitter) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText takes a name.
func (j *Jitter) UnmarshalText(b []byte) error {
	for i, n := range jitterNames {
		if n == string(b) {
			*j = Jitter(i)
			return nil
		}
	}
	return fmt.Errorf("jitter %q: want one of %q", b, jitterNames)
}

// The presets. Those for stores wait attempt × base, plus a random part of base. Copy these
// values; do not change them.
var (
	// Warehouse is for the event warehouse: 3 tries in all, 1 s apart and growing.
	Warehouse = Retry{Tries: 2, Base: time.Second, Jitter: Added}
	// Database is for a relational store: 3 tries in all, 200 ms apart and growing.
	Database = Retry{Tries: 2, Base: 200 * time.Millisecond, Jitter: Added}
	// Definitions is for catalogue upserts: 3 tries in all, 50 ms apart and growing.
	Definitions = Retry{Tries: 2, Base: 50 * time.Millisecond, Jitter: Added}
	// Partner is for deliveries over HTTP: 7 retries after 1, 2, 4 … 64 s, each ±25%.
	Partner = Retry{Tries: 7, Base: time.Second, Factor: 2, Max: 64 * time.Second, Jitter: Around, Spread: .25}
)

// Next says, after a try that failed, how long to wait before the next one, and whether a
// next one follows. before is how many tries had failed before it: 0 after the first.
// random is from [0, 1).
func (r Retry) Next(before int, random float64) (time.Duration, bool) {
	if r.Tries >= 0 && before >= r.Tries {
		return 0, false
	}
	return r.Wait(before+1, random), true
}

// Wait is the wait after that many failures in a row (from 1), whatever Tries says.
func (r Retry) Wait(failed int, random float64) time.Duration {
	if r.Base <= 0 {
		return 0
	}
	n := float64(max(failed, 1))
	d := float64(r.Base) * n
	if r.Factor > 0 {
		d = float64(r.Base) * math.Pow(r.Factor, n-1)
	}
	if r.Max > 0 {
		d = min(d, float64(r.Max))
	}
	switch r.Jitter {
	case Full:
		d *= random
	case Equal:
		d = d/2 + d/2*random
	case Added:
		d += float64(r.Base) * random
	case Around:
		d *= 1 - r.Spread + 2*r.Spread*random
	}
	return time.Duration(min(d, float64(longest)))
}

// longest bounds every wait: a retry without end and without Max must not overflow.
const longest = 24 * time.Hour

// Check refuses invalid settings.
func (r Retry) Check() error {
	switch {
	case r.Base < 0 || r.Max < 0:
		return errors.New("retry: a wait below zero")
	case r.Factor != 0 && !(r.Factor >= 1): // nor what is no number
		return fmt.Errorf("retry: factor %v makes waits shorter: want 0 (linear), 1 (constant) or more", r.Factor)
	case !(r.Spread >= 0 && r.Spread <= 1):
		return fmt.Errorf("retry: spread %v: want 0 to 1", r.Spread)
	case r.Tries < 0 && r.Base == 0:
		return errors.New("retry for ever needs a base, or it would never rest")
	}
	return nil
}
