// What the checkers find needs no race detector: make sim runs these.

//go:build !race

package sim

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// The bugs below are the classic ones of systems that collect batches and send them on.

// storing changes the window store.
type storing struct {
	window.Store
	put  func(ctx context.Context, records []window.Record, kept []window.Kept) error
	page func(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (window.Page, error)
	open func(tidemill.Source) tidemill.Source
}

func (s storing) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	if s.put == nil {
		return s.Store.Put(ctx, records, kept)
	}
	return s.put(ctx, records, kept)
}

func (s storing) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (window.Page, error) {
	if s.page == nil {
		return s.Store.Page(ctx, m, from, into)
	}
	return s.page(ctx, m, from, into)
}

func (s storing) Open() tidemill.Source {
	if s.open == nil {
		return s.Store.Open()
	}
	return s.open(s.Store.Open())
}

// ends is a source that gets false settlements. It is a source of windows.
type ends struct {
	parked tidemill.Source
	settle func(ctx context.Context, ends []tidemill.Settlement) error
}

func (s ends) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	return s.parked.Receive(ctx, into)
}
func (s ends) Settle(ctx context.Context, all []tidemill.Settlement) error { return s.settle(ctx, all) }
func (s ends) Traits() tidemill.Traits                                     { return s.parked.Traits() }
func (s ends) Keep(ctx context.Context) error                              { return s.parked.(tidemill.Keeper).Keep(ctx) }
func (s ends) Books(ctx context.Context) (tidemill.Books, error) {
	return s.parked.(tidemill.Bookkeeper).Books(ctx)
}

// ending changes the window store's settlements of windows.
func ending(first func(*tidemill.Settlement)) func(*WindowsParts) {
	return func(p *WindowsParts) {
		p.Windows = storing{Store: p.Windows, open: func(s tidemill.Source) tidemill.Source {
			return ends{s, func(ctx context.Context, all []tidemill.Settlement) error {
				for i := range all {
					first(&all[i])
				}
				return s.Settle(ctx, all)
			}}
		}}
	}
}

// cleaning deletes, with a window, whatever came under its batch id meanwhile.
func cleaning(p *WindowsParts) {
	store := p.Windows.(gatedWindows)
	p.Windows = storing{Store: store, open: func(s tidemill.Source) tidemill.Source {
		return ends{s, func(ctx context.Context, all []tidemill.Settlement) error {
			err := s.Settle(ctx, all)
			for i := range all {
				batch, _, _ := window.ParseID(all[i].ID)
				if was, wrong := store.CloseNow(ctx, batch); all[i].Outcome != tidemill.Applied || all[i].End != tidemill.Done || !was || wrong != nil {
					continue
				}
				short, cancel := context.WithTimeout(ctx, time.Nanosecond)
				late, m := s.(parkedSource).s.Source, &tidemill.Message{}
				if n, _ := late.Receive(short, []*tidemill.Message{m}); n == 1 {
					_ = late.Settle(ctx, []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}})
				}
				cancel()
			}
			return err
		}}
	}}
}

// sends changes how records are sent.
type sends struct {
	windows.Out
	change func(windows.Delivery) windows.Delivery
}

func (o sends) Begin(ctx context.Context) (windows.Delivery, error) {
	d, err := o.Out.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return o.change(d), nil
}

// delivering changes deliveries.
func delivering(change func(windows.Delivery) windows.Delivery) func(*WindowsParts) {
	return func(p *WindowsParts) { p.Out = sends{p.Out, change} }
}

// lossy is a delivery that hides some errors.
type lossy struct {
	windows.Delivery
	write, commit func(error) error
}

func (d lossy) Write(ctx context.Context, batch []*tidemill.Message) error {
	err := d.Delivery.Write(ctx, batch)
	if d.write != nil {
		err = d.write(err)
	}
	return err
}

func (d lossy) Commit(ctx context.Context) error {
	err := d.Delivery.Commit(ctx)
	if d.commit != nil {
		err = d.commit(err)
	}
	return err
}

// blindIndex is an index whose result is only checked as a whole.
type blindIndex struct{ search.Store }

func (x blindIndex) Index(ctx context.Context, docs []search.Doc) error {
	err := x.Store.Index(ctx, docs)
	if _, partly := err.(*tidemill.Partial); partly {
		return nil
	}
	return err
}

func TestTheCheckerFindsPlantedBugsOfWindows(t *testing.T) {
	with := windowsWith
	none := func(error) error { return nil }
	findBugs(t, 300, []planted{
		{"the clean-up deletes what came late", with(cleaning)},
		{"a window is settled before its commit", with(delivering(func(d windows.Delivery) windows.Delivery { return lossy{Delivery: d, commit: none} }))},
		{"a window is settled although nothing could be sent", with(delivering(func(d windows.Delivery) windows.Delivery { return lossy{Delivery: d, write: none} }))},
		{"what was sent in part is taken for sent", with(delivering(func(d windows.Delivery) windows.Delivery {
			return lossy{Delivery: d, write: func(err error) error {
				if _, partly := err.(*tidemill.Partial); partly {
					return nil
				}
				return err
			}}
		}))},
		{"a window is to be seen before its commit", with(delivering(func(d windows.Delivery) windows.Delivery {
			if all, ok := d.(*windowsDelivery); ok && all.o.w.whole {
				return atOnce{all}
			}
			return d
		}))},
		{"a late owner settles", with(ending(func(e *tidemill.Settlement) { e.Mark = tidemill.Mark{} }))},
		{"a window that failed too often is deleted", with(ending(func(e *tidemill.Settlement) {
			if e.Fate == tidemill.Dead {
				e.Fate = tidemill.Skipped
			}
		}))},
		{"waiting for topics uses up tries", with(ending(func(e *tidemill.Settlement) {
			e.CountTry = e.CountTry || e.End == tidemill.Again && e.Kind != tidemill.NoKind
		}))},
		{"what was filtered is counted as sent", with(ending(func(e *tidemill.Settlement) {
			e.Records.Delivered, e.Records.Skipped = e.Records.Delivered+e.Records.Skipped, 0
		}))},
		{"a page is skipped", with(func(p *WindowsParts) {
			store := p.Windows
			p.Windows = storing{Store: store, page: func(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (window.Page, error) {
				page, err := store.Page(ctx, m, from, into)
				if err == nil && from == "" && page.Next != "" {
					return store.Page(ctx, m, page.Next, into)
				}
				return page, err
			}}
		})},
		{"a record over another is booked as new", with(func(p *WindowsParts) {
			store := p.Windows
			p.Windows = storing{Store: store, put: func(ctx context.Context, records []window.Record, kept []window.Kept) error {
				err := store.Put(ctx, records, kept)
				for i := range kept {
					kept[i] = window.New
				}
				return err
			}}
		})},
		{"a record is accepted before it is stored", with(func(p *WindowsParts) {
			store := p.Windows
			p.Windows = storing{Store: store, put: func(ctx context.Context, records []window.Record, kept []window.Kept) error {
				if store.Put(ctx, records, kept) != nil {
					for i := range kept {
						kept[i] = window.New
					}
				}
				return nil
			}}
		})},
		{"sentences of one document are one record", with(func(p *WindowsParts) {
			store := p.Windows
			p.Windows = storing{Store: store, put: func(ctx context.Context, records []window.Record, kept []window.Kept) error {
				for i := range records {
					records[i].Qualifier = ""
				}
				return store.Put(ctx, records, kept)
			}}
		})},
		{"dead letters are dropped", with(func(p *WindowsParts) { p.DeadLetters = dropOnDeadLetterError{p.DeadLetters} })},
		{"a letter is kept under another batch id", with(func(p *WindowsParts) { p.DeadLetters = strays{p.DeadLetters} })},
		{"what the index puts off is taken for indexed", with(func(p *WindowsParts) { p.Index = blindIndex{p.Index} })},
	})
}

// atOnce is a delivery whose writes show at once.
type atOnce struct{ *windowsDelivery }

func (d atOnce) Write(ctx context.Context, batch []*tidemill.Message) error {
	if err := d.windowsDelivery.Write(ctx, batch); err != nil {
		return err
	}
	return d.Commit(ctx)
}

// strays are dead letters that forget the headers of a message.
type strays struct{ deadletter.Store }

func (s strays) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	for i := range letters {
		if letters[i].Pipeline == windows.Delivered {
			letters[i].Message.Header = nil
		}
	}
	return s.Store.Put(ctx, letters)
}
