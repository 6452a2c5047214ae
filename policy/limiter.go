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
	if !(l.Rate >= 0) || l.Burst < 0 {
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
	b.fill(now)
	b.tokens -= float64(n)
	return time.Duration(max(-b.tokens, 0) / b.l.Rate * float64(time.Second))
}

// Try takes one token if there is one; else it takes none, and says how long to wait for it. Left is
// how many there are then, and full how long it takes until there is all of Burst.
func (b *Bucket) Try(now time.Time) (wait time.Duration, left int, full time.Duration) {
	if b.l.Rate == 0 {
		return 0, b.l.Burst, 0
	}
	b.fill(now)
	of := func(tokens float64) time.Duration { return time.Duration(tokens / b.l.Rate * float64(time.Second)) }
	if b.tokens < 1 {
		return of(1 - b.tokens), 0, of(float64(b.l.Burst) - b.tokens)
	}
	b.tokens--
	return 0, int(b.tokens), of(float64(b.l.Burst) - b.tokens)
}

// Limiter is what the bucket is of.
func (b *Bucket) Limiter() Limiter { return b.l }

// fill adds what has come since.
func (b *Bucket) fill(now time.Time) {
	switch {
	case b.at.IsZero():
		b.at = now
	case now.After(b.at):
		b.tokens = min(b.tokens+b.l.Rate*now.Sub(b.at).Seconds(), float64(b.l.Burst))
		b.at = now
	}
}
