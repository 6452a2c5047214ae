package policy

import (
	"fmt"
	"time"
)

// Limiter says how fast a destination may be used. The zero value sets no limit.
type Limiter struct {
	Rate  float64 // messages a second; 0: no limit
	Burst int     // messages that may go at once after a rest; 0: what a second allows, at least 1
}

// Check refuses invalid settings.
func (l Limiter) Check() error {
	if l.Rate < 0 || l.Burst < 0 {
		return fmt.Errorf("limiter: a number below zero in %+v", l)
	}
	return nil
}

// A Bucket is the state of one Limiter: a token bucket that may owe tokens. A batch larger
// than Burst passes too, and later ones wait. It is not safe for concurrent use.
type Bucket struct {
	l      Limiter
	tokens float64
	at     time.Time
}

// Bucket makes a full bucket.
func (l Limiter) Bucket() *Bucket {
	if l.Burst == 0 {
		l.Burst = max(int(l.Rate), 1)
	}
	return &Bucket{l: l, tokens: float64(l.Burst)}
}

// Take takes n tokens and says how long to wait before using them. The tokens are taken
// either way: the next caller waits longer.
func (b *Bucket) Take(now time.Time, n int) time.Duration {
	if b.l.Rate == 0 {
		return 0
	}
	switch {
	case b.at.IsZero():
		b.at = now
	case now.After(b.at):
		b.tokens = min(b.tokens+b.l.Rate*now.Sub(b.at).Seconds(), float64(b.l.Burst))
		b.at = now
	}
	b.tokens -= float64(n)
	return time.Duration(max(-b.tokens, 0) / b.l.Rate * float64(time.Second))
}
