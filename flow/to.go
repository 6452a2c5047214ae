package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemill/tidemill"
)

// To makes the delivering stage's Do of a sink. encode fills the outgoing message, which is
// empty but keeps its memory, from an item; an error fails the item, and the others are
// written without it. A failure that the sink reports for a message fails its item.
func To[T any](sink tidemill.Sink, encode func(*Item[T], *tidemill.Message) error) func(context.Context, []*Item[T]) error {
	var pool sync.Pool // of *outgoing: lanes share the stage and call it at once
	return func(ctx context.Context, batch []*Item[T]) error {
		o, _ := pool.Get().(*outgoing)
		if o == nil {
			o = new(outgoing)
		}
		defer pool.Put(o)
		o.reset(len(batch))
		for i, it := range batch {
			m := o.messages[len(o.index)]
			if err := encode(it, m); err != nil {
				it.Fail(err)
				clean(m) // what encode left in it
				continue
			}
			m.Trace = it.Trace
			o.index = append(o.index, i)
		}
		if len(o.index) == 0 {
			return nil
		}
		err := sink.Write(ctx, o.messages[:len(o.index)])
		if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
			return o.translate(partly)
		}
		return err
	}
}

// outgoing is the memory of one call.
type outgoing struct {
	messages []*tidemill.Message
	index    []int // of the item that each message is from
}

func (o *outgoing) reset(n int) {
	if missing := n - len(o.messages); missing > 0 {
		slab := make([]tidemill.Message, missing)
		for i := range slab {
			o.messages = append(o.messages, &slab[i])
		}
	}
	for _, m := range o.messages[:n] {
		clean(m)
	}
	o.index = o.index[:0]
}

// translate turns a Partial about messages into one about items.
func (o *outgoing) translate(p *tidemill.Partial) error {
	items := &tidemill.Partial{Failed: make([]tidemill.Failed, 0, len(p.Failed))}
	for _, f := range p.Failed {
		if f.Index < 0 || f.Index >= len(o.index) {
			return tidemill.Fail(tidemill.Internal, "the sink named message %d of a batch of %d: %w", f.Index, len(o.index), orUnknown(f.Err))
		}
		items.Failed = append(items.Failed, tidemill.Failed{Index: o.index[f.Index], Err: f.Err})
	}
	return items
}

func orUnknown(err error) error {
	if err == nil {
		return fmt.Errorf("it gave no reason")
	}
	return err
}

// keepBytes is the most payload memory a slot keeps for its next message, so that one
// large message does not stay in memory for each slot it went through.
const keepBytes = 8 << 10

// clean empties a message and keeps its memory, unless that is large. Header fields may
// point to memory of the source; they are released.
func clean(m *tidemill.Message) {
	if cap(m.Payload) > keepBytes {
		m.Payload = nil
	}
	if cap(m.Key) > keepBytes {
		m.Key = nil
	}
	clear(m.Header[:cap(m.Header)])
	*m = tidemill.Message{Key: m.Key[:0], Payload: m.Payload[:0], Header: m.Header[:0]}
}
