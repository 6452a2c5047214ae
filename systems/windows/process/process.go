// Package process is what happens to the records of a batch between their window and their
// delivery: a chain of processors. Each sees the batch page by page. Use it to filter,
// validate, change, enrich or count records, with built-in processors or your own code:
//
//	chain, err := process.New([]process.Step{
//		{Processor: filter},                              // Filter{Keep: "numMentions > 1"}
//		{Processor: sentiment, OnError: process.Retry},   // HTTP
//		{Processor: process.Each("mine", func(ctx context.Context, batch string, it *process.Item) error { … })},
//	}, process.Options{})
//	run := chain.Begin(batch)
//	for page := range pages { err := run.Page(ctx, page); … }
//	results, err := run.End(ctx)
//
// A record that cannot be read dies alone. The step chooses what a failure of its processor
// means: the records go on as they were before (Pass, counted), the batch is tried again
// (Retry), or the records die (Dead). For one batch processors are called from one goroutine,
// for several batches from several.
package process

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Item is one record in the chain. The caller sets Kind and Raw, and reads the rest after the
// page was processed.
type Item struct {
	Kind record.Kind
	Raw  []byte // as it was stored; Record points into it

	Record record.Record // read from Raw; processors change it
	Fate   tidemill.Fate // None: it goes on. Skipped, Dead: it does not
	Why    string        // of Skipped and Dead, in words
	Fault  tidemill.Kind // of Dead
}

// Skip ends the item on purpose: it is not sent. The reason is a word or two.
func (it *Item) Skip(reason string) {
	it.Fate, it.Why, it.Fault = tidemill.Skipped, reason, tidemill.NoKind
}

// Refuse ends the item as a dead letter. The error's kind is the dead letter's.
func (it *Item) Refuse(err error) {
	it.Fate, it.Why, it.Fault = tidemill.Dead, err.Error(), tidemill.KindOf(err)
}

// A Processor does one thing to records. It is used for several batches at once. What it
// remembers of one batch belongs to its Worker.
type Processor interface {
	// Name tells it from others of its chain: in metrics, causes and logs.
	Name() string
	// Begin starts a batch. A batch that is tried again begins anew.
	Begin(batch string) Worker
}

// A Worker is a processor at work on one batch. Its memory across pages has a bound.
type Worker interface {
	// Page may change records, Skip and Refuse items. A *tidemill.Partial names items that it
	// failed at; any other error concerns all of them. Its changes to failed items are undone.
	// It keeps nothing of items. The end of ctx is not a failure.
	Page(ctx context.Context, items []*Item) error
}

// An Ender is a worker that returns results at the end of the batch.
type Ender interface {
	// End returns results of the batch. They are not records.
	End(ctx context.Context) ([]Result, error)
}

// Result is what a processor found out about a batch.
type Result struct {
	Processor string
	Batch     string
	Value     []byte // one JSON object
}

// OnError says what a failure of a processor means.
type OnError uint8

const (
	Pass  OnError = iota // the records go on as they were before, counted
	Retry                // the batch is tried again later, as a whole
	Dead                 // the records become dead letters
)

// ParseOnError reads an OnError from a setting; empty is pass.
func ParseOnError(s string) (OnError, error) {
	switch s {
	case "", "pass":
		return Pass, nil
	case "retry":
		return Retry, nil
	case "dead":
		return Dead, nil
	}
	return Pass, fmt.Errorf("on error %q: want pass, retry or dead", s)
}

// String is the inverse of ParseOnError.
func (o OnError) String() string { return [...]string{"pass", "retry", "dead"}[min(o, Dead)] }

// Each makes a processor of a function that is called for every record. Its error is about
// that record.
func Each(name string, do func(ctx context.Context, batch string, it *Item) error) Processor {
	return each{name, do}
}

type each struct {
	name string
	do   func(context.Context, string, *Item) error
}

func (e each) Name() string { return e.name }

func (e each) Begin(batch string) Worker {
	return workerFunc(func(ctx context.Context, items []*Item) error {
		return forEach(ctx, items, func(it *Item) error { return e.do(ctx, batch, it) })
	})
}

// workerFunc is a worker without memory.
type workerFunc func(ctx context.Context, items []*Item) error

func (f workerFunc) Page(ctx context.Context, items []*Item) error { return f(ctx, items) }

// forEach calls do for every item and gathers what failed.
func forEach(ctx context.Context, items []*Item, do func(*Item) error) error {
	var failed []tidemill.Failed
	for i, it := range items {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := do(it); err != nil {
			failed = append(failed, tidemill.Failed{Index: i, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &tidemill.Partial{Failed: failed}
}
