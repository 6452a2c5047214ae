package windows

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// part is what became of one page: messages to be sent, letters of what died, and how many
// of its records were sent, skipped and given up.
type part struct {
	messages []*tidemill.Message
	bodies   [][]byte // of messages, as they are stored
	letters  []tidemill.Letter
	refused  []refusal // of messages
	count    tidemill.Count
	memory   []*tidemill.Message // for messages
}

// refusal is a message that is not taken, whenever it is sent.
type refusal struct {
	id  string
	err error
}

func (p *part) reset() {
	p.messages, p.bodies, p.letters, p.refused, p.count = p.messages[:0], p.bodies[:0], nil, nil, tidemill.Count{}
}

// add makes the message of a record that goes out.
func (p *part) add(x *sending, r *window.Record, it *process.Item) {
	id := x.idOf(r)
	if err := x.refused[id]; err != nil {
		p.die(x, r, err)
		return
	}
	n := len(p.messages)
	if n == len(p.memory) {
		p.memory = append(p.memory, &tidemill.Message{})
	}
	m := p.memory[n]
	*m = tidemill.Message{ID: id, Type: r.Kind, To: x.s.o.Topics.of(it.Kind), Key: it.Record.AppendKey(m.Key[:0]), Payload: it.Record.AppendOut(m.Payload[:0])}
	p.messages, p.bodies = append(p.messages, m), append(p.bodies, r.Body)
	p.count.Delivered++
}

// die makes the letter of a record that goes nowhere.
func (p *part) die(x *sending, r *window.Record, err error) {
	p.letters = append(p.letters, x.letter(x.idOf(r), r.Kind, r.Body, err))
	p.count.Dead++
}

// sending is the way of one window's parts to where they go, one after the other.
type sending struct {
	s        *System
	delivery Delivery
	window   string
	batch    string
	refused  map[string]error
	count    tidemill.Count // of the parts that have arrived

	now    *part      // on its way; nil: none
	answer chan error // of now
}

// idOf names a record's message: it is the same whenever the window comes again.
func (x *sending) idOf(r *window.Record) string {
	id := x.window + "/" + r.Kind + "/" + r.ID
	if r.Qualifier != "" {
		id += "/" + r.Qualifier
	}
	return id
}

// letter is that of a record, as an intake would bring it.
func (x *sending) letter(id, kind string, body []byte, err error) tidemill.Letter {
	header := x.s.o.Header
	if header == "" {
		header = record.BatchHeader
	}
	return tidemill.Letter{Pipeline: Delivered, Kind: tidemill.KindOf(err), Cause: err.Error(), Tries: 1, At: x.s.o.Now(), Message: &tidemill.Message{
		ID: id, Type: kind, Payload: body, Header: []tidemill.Field{{Name: []byte(header), Value: []byte(x.batch)}}}}
}

// send sends a part while the next is made; wait says what came of it.
func (x *sending) send(ctx context.Context, p *part) {
	x.now, x.answer = p, make(chan error, 1)
	answer := x.answer
	go func() { answer <- x.write(ctx, p) }()
}

// wait waits for the part that is on its way.
func (x *sending) wait() error {
	if x.now == nil {
		return nil
	}
	p := x.now
	x.now = nil
	err := <-x.answer
	for _, r := range p.refused {
		x.refused[r.id] = r.err
	}
	if err == nil {
		x.count.Delivered += p.count.Delivered
		x.count.Skipped += p.count.Skipped
		x.count.Dead += p.count.Dead
	}
	return err
}

// write makes a part durable: the letters of what died, and its messages.
func (x *sending) write(ctx context.Context, p *part) error {
	if len(p.messages) > 0 {
		if err := x.delivery.Write(ctx, p.messages); err != nil {
			if err = x.judge(p, err); err != nil {
				return err
			}
		}
	}
	if len(p.letters) == 0 {
		return nil
	}
	if err := x.s.p.Letters.Put(ctx, p.letters); err != nil {
		return fmt.Errorf("keep letters of window %s: %w", x.window, err)
	}
	return nil
}

// judge says what the error of a Write means: nil, where all that failed are records that are
// refused for good, which are letters now.
func (x *sending) judge(p *part, err error) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		return fmt.Errorf("send window %s: %w", x.window, err)
	}
	var passing error
	for _, f := range partly.Failed {
		if k := tidemill.KindOf(f.Err); k != tidemill.Validation && k != tidemill.Business {
			passing = f.Err
			continue
		}
		m := p.messages[f.Index]
		p.refused = append(p.refused, refusal{m.ID, f.Err})
		p.letters = append(p.letters, x.letter(m.ID, m.Type, p.bodies[f.Index], f.Err))
		p.count.Delivered--
		p.count.Dead++
	}
	switch {
	case passing != nil && len(partly.Failed) < len(p.messages): // some could be sent: it is not everything that is away
		return tidemill.Fail(tidemill.Partner, "send window %s: %d of %d records: %w", x.window, len(partly.Failed), len(p.messages), passing)
	case passing != nil:
		return fmt.Errorf("send window %s: %w", x.window, passing)
	case x.s.p.Out.Whole():
		return fmt.Errorf("send window %s: %w", x.window, err)
	}
	return nil
}

// results sends what processors have to say about the batch.
func (x *sending) results(ctx context.Context, results []process.Result) error {
	if x.s.o.Topics.Results == "" || len(results) == 0 {
		return nil
	}
	p := &part{}
	for i, r := range results {
		p.messages = append(p.messages, &tidemill.Message{ID: fmt.Sprintf("%s/result/%d", x.window, i), Type: "result", To: x.s.o.Topics.Results, Key: []byte(r.Batch), Payload: r.Value})
		p.bodies = append(p.bodies, r.Value)
	}
	return x.write(ctx, p)
}
