package operation

import (
	"context"
	"time"
)

// How a page is counted.
const (
	countBounded = "bounded"
	countExact   = "exact"
)

// Bounds of counts. One that takes longer is given up: what was counted by then is at least there.
const (
	countMost     = 10_000
	boundedWithin = 300 * time.Millisecond
	exactWithin   = 2 * time.Second
)

// Count is how many items all pages have together.
type Count struct {
	Value   int  `json:"value"`
	AtLeast bool `json:"at_least,omitempty"` // there may be more: counting was given up
}

// Counter counts what a request's filter chooses, whatever its page: up to most, or all where that
// is 0. Beside an error it says how many it has counted by then.
type Counter[Q any] func(ctx context.Context, q *Q, most int) (int, error)

// Counts says whether a page is asked for with how many there are.
func (p *Page) Counts() bool { return p.Count != "" && p.Count != "none" }

// counted counts, for as long as that may take; nil: nobody asked for it.
func counted(ctx context.Context, p *Page, count func(context.Context, int) (int, error)) *Count {
	most, within := countMost+1, boundedWithin
	switch p.Count {
	case countExact:
		most, within = 0, exactWithin
	case countBounded:
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, err := count(ctx, most)
	if p.Count == countBounded && n > countMost {
		return &Count{countMost, true}
	}
	return &Count{n, err != nil}
}
