package windows

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// part is what became of one page: messages to be sent, dead letters, and how many of its
// records were sent, skipped and given up.
type part struct {
	messages []*tidemill.Message
	bodies   [][]byte // of messages, as they are stored
	letters  []tidemill.DeadLetter
	refused  []refusal // of messages
	count    tidemill.Count
	memory   []*tidemill.Message // for messages
	bytes    []byte              // their keys and payloads, one behind the other
	spans    []tidemill.Span     // of the messages that are followed
}

// keptBytes is how much memory of a part is kept for reuse: several pages, as processing makes
// records longer.
const keptBytes = 8 * window.PageBytes

// refusal is a message that is refused whenever it is sent.
type refusal struct {
	id  string
	err error
}

func (p *part) reset() {
	for _, m := range p.messages {
		*m = tidemill.Message{} // a message that is not reused soon keeps no memory
	}
	clear(p.bodies)
	if p.bytes = p.bytes[:0]; cap(p.bytes) > keptBytes {
		p.bytes = nil
	}
	p.messages, p.bodies, p.letters, p.refused, p.count, p.spans = p.messages[:0], p.bodies[:0], nil, nil, tidemill.Count{}, p.spans[:0]
}

// add makes the message of an outgoing record.
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
	m, from := p.memory[n], len(p.bytes)
	p.bytes = it.Record.AppendKey(p.bytes)
	key := len(p.bytes)
	p.bytes = it.Record.AppendOut(p.bytes)
	to := len(p.bytes)
	*m = tidemill.Message{ID: x.sent(id), Type: r.Kind, To: x.s.o.Topics.of(it.Kind), Key: p.bytes[from:key:key], Payload: p.bytes[key:to:to], Header: x.header}
	if r.Trace != "" && x.s.o.Tracer != nil {
		p.follow(x, r, m)
	}
	p.messages, p.bodies = append(p.messages, m), append(p.bodies, r.Body)
	p.count.Delivered++
}

// die makes the dead letter of a record.
func (p *part) die(x *sending, r *window.Record, err error) {
	p.letters = append(p.letters, x.letter(x.idOf(r), r.Kind, r.Body, r.Trace, err))
	p.count.Dead++
	if x.s.o.Tracer != nil {
		x.died(x.idOf(r), r.Kind, r.Trace, err)
	}
}

// sending sends one window's parts to their topics, one after the other.
type sending struct {
	s        *System
	task     *flow.Task      // the window's; for its lane
	of       *tidemill.Trace // the window's; nil: it is not followed
	delivery Delivery
	window   string // as operators see it
	name     string // of the window in the names of messages, and of dead letters
	again    string // behind the window in the names of the messages of a replay
	batch    record.Batch
	project  string           // of the batch; empty: it has none
	header   []tidemill.Field // of what is sent
	refused  map[string]error
	count    tidemill.Count // of the parts that have arrived

	now    *part      // the part being sent; nil: none
	answer chan error // of now
}

// sending makes the sending of the window with this id, of a batch. Names of messages begin
// with the project's id if the project is not Options.Project. So do those of batch ids that
// look like that: no two projects share a name.
func (s *System) sending(id string, batch record.Batch) *sending {
	x := &sending{s: s, window: batch.ID() + id[len(batch.String()):], name: id, batch: batch}
	if project := batch.Project(); project != (uuid.UUID{}) {
		x.project = project.String()
	}
	if batch.Project() == s.o.Project && record.ParseBatch(batch.ID()).Project() == (uuid.UUID{}) {
		x.name = x.window
	} else if x.project != "" && batch.Project() != s.o.Project {
		x.header = []tidemill.Field{{Name: []byte(record.ProjectHeader), Value: []byte(x.project)}}
	}
	return x
}

// idOf names a record's message. The name is the same whenever the window comes again, and
// differs for each record of it. The qualifier goes before the id. The id may have slashes but
// begins with a number and not with one: with the qualifier behind, sentence 1 of the document
// /a would be the document /a/1.
func (x *sending) idOf(r *window.Record) string {
	if r.Qualifier != "" {
		return x.name + "/" + r.Kind + "/" + r.Qualifier + "/" + r.ID
	}
	return x.name + "/" + r.Kind + "/" + r.ID
}

// sent is the name under which a record's message goes to its topic. A replay is sent once
// more, also to a topic that knows the earlier message by its name: processors may have
// changed.
func (x *sending) sent(id string) string { return x.name + x.again + id[len(x.name):] }

// idOfSent is the inverse of sent: dead letters are of the record, however often it is sent.
func (x *sending) idOfSent(sent string) string {
	return x.name + sent[len(x.name)+len(x.again):]
}

// letter is the dead letter of a record, as an intake would bring it.
func (x *sending) letter(id, kind string, body []byte, trace string, err error) tidemill.DeadLetter {
	header := x.s.o.Header
	if header == "" {
		header = record.BatchHeader
	}
	fields := []tidemill.Field{{Name: []byte(header), Value: []byte(x.batch.ID())}}
	if trace != "" {
		fields = append(fields, tidemill.Field{Name: []byte(tidemill.Traceparent), Value: []byte(trace)})
	}
	return tidemill.DeadLetter{Pipeline: Delivered, Kind: tidemill.KindOf(err), Cause: err.Error(), Tries: 1, At: x.s.o.Now(), Message: &tidemill.Message{
		ID: id, Tenant: x.project, Type: kind, Payload: body, Header: fields}}
}

// send sends a part while the next is made; wait returns its error.
func (x *sending) send(ctx context.Context, p *part) {
	x.now, x.answer = p, make(chan error, 1)
	answer := x.answer
	go func() { answer <- x.write(ctx, p) }()
}

// wait waits for the part that is being sent.
func (x *sending) wait() error {
	if x.now == nil {
		return nil
	}
	p := x.now
	x.now = nil
	err := <-x.answer
	x.remember(p)
	if err == nil {
		x.count.Delivered += p.count.Delivered
		x.count.Skipped += p.count.Skipped
		x.count.Dead += p.count.Dead
	}
	return err
}

// remember notes which messages of a part were refused.
func (x *sending) remember(p *part) {
	for _, r := range p.refused {
		x.refused[r.id] = r.err
	}
}

// write makes a part durable: its dead letters, and its messages.
func (x *sending) write(ctx context.Context, p *part) (err error) {
	if len(p.spans) > 0 {
		defer func() { x.followed(p, err) }()
	}
	if len(p.messages) > 0 {
		if err := x.delivery.Write(ctx, p.messages); err != nil {
			if err = x.judge(ctx, p, err); err != nil {
				return err
			}
		}
	}
	if len(p.letters) == 0 {
		return nil
	}
	if err := x.s.p.DeadLetters.Put(ctx, p.letters); err != nil {
		return fmt.Errorf("keep letters of window %s: %w", x.window, err)
	}
	return nil
}

// judge says what the error of a Write means: nil if every failed record was refused for good
// and is a dead letter now.
func (x *sending) judge(ctx context.Context, p *part, err error) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		return fmt.Errorf("send window %s: %w", x.window, err)
	}
	var passing, told error // what passes, and what says that a topic is full, or refuses us and not the record
	for _, f := range partly.Failed {
		switch tidemill.KindOf(f.Err) {
		case tidemill.Validation, tidemill.Business:
			m := p.messages[f.Index]
			id := x.idOfSent(m.ID)
			p.refused = append(p.refused, refusal{id, f.Err})
			trace := string(m.Get(tidemill.Traceparent))
			p.letters = append(p.letters, x.letter(id, m.Type, p.bodies[f.Index], trace, f.Err))
			p.count.Delivered--
			p.count.Dead++
			if t, _ := tidemill.TraceOf(m); x.s.o.Tracer != nil && !t.Sampled {
				x.died(id, m.Type, trace, f.Err)
			}
		case tidemill.RateLimit, tidemill.Credentials:
			told = f.Err
		default:
			passing = f.Err
		}
	}
	switch {
	case passing != nil && (len(partly.Failed) < len(p.messages) || x.s.answers(ctx)): // not everything is down
		return tidemill.Fail(tidemill.Partner, "send window %s: %d of %d records: %w", x.window, len(partly.Failed), len(p.messages), passing)
	case passing != nil:
		return fmt.Errorf("send window %s: %w", x.window, passing)
	case told != nil: // waiting for that counts no try
		return fmt.Errorf("send window %s: %d of %d records: %w", x.window, len(partly.Failed), len(p.messages), told)
	case x.s.p.Out.Whole():
		return fmt.Errorf("send window %s: %w", x.window, err)
	}
	return nil
}

// results sends the processors' results of the batch. A result that its topic refuses for good
// becomes a dead letter, as a record does.
func (x *sending) results(ctx context.Context, results []process.Result) error {
	if x.s.o.Topics.Results == "" {
		for _, r := range results {
			// Logged for each result of a processor, where `windows.topics.results` names no topic for
			// them.
			x.s.o.Log.InfoContext(ctx, "a processor has something to say about a batch", "batch", r.Batch, "project", x.project, "processor", r.Processor, "result", string(r.Value))
		}
		return nil
	}
	const kind = "result"
	p := &part{}
	for i, r := range results {
		id := fmt.Sprintf("%s/%s/%d", x.name, kind, i)
		if err := x.refused[id]; err != nil {
			p.letters = append(p.letters, x.letter(id, kind, r.Value, "", err))
			continue
		}
		p.messages = append(p.messages, &tidemill.Message{ID: x.sent(id), Type: kind, To: x.s.o.Topics.Results, Key: []byte(r.Batch), Payload: r.Value, Header: x.header})
		p.bodies = append(p.bodies, r.Value)
	}
	defer x.remember(p)
	return x.write(ctx, p)
}
