package bridge

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
)

// letters makes the engine's dead letters: the topic of the dead, and the store that keeps them
// too.
func (b *Bridge) letters() (tidemill.DeadLetters, error) {
	if b.o.Dead == "" {
		return pending{&b.stats.kept}, nil
	}
	t, err := parseTopic(b.o.Prefix, b.o.Dead)
	if err != nil {
		return nil, err
	}
	if t.text == "" {
		return nil, errors.New("bridge: the topic of the dead has no fields: receivers of it must know it")
	}
	return &deadTopic{b: b, topic: t.text}, nil
}

// deadTopic publishes the dead, and then keeps them. A dead letter that cannot be published
// leaves its entry pending: the entry comes again, and is tried again then. It is not kept
// before: Has would end the entry, and nobody would publish its letter any more. While letters
// cannot be kept, they are published again and again.
type deadTopic struct {
	b     *Bridge
	topic string
}

// Put implements tidemill.DeadLetters.
func (d *deadTopic) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	failed := d.publish(ctx, letters)
	if d.b.p.Keep != nil {
		var err error
		if failed, err = d.keep(ctx, letters, d.passing(ctx, failed)); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return &tidemill.Partial{Failed: failed}
	}
	return nil
}

// publish writes the letters to the topic, and returns those that failed.
func (d *deadTopic) publish(ctx context.Context, letters []tidemill.DeadLetter) []tidemill.Failed {
	slab := make([]tidemill.Message, len(letters))
	batch := make([]*tidemill.Message, len(letters))
	for i := range letters {
		slab[i] = tidemill.Message{ID: letters[i].Message.ID, To: d.topic, Payload: d.b.appendLetter(nil, &letters[i])}
		batch[i] = &slab[i]
	}
	ctx, cancel := context.WithTimeout(ctx, d.b.o.Processing)
	defer cancel()
	err := d.b.p.Sink.Write(ctx, batch)
	if err == nil {
		return nil
	}
	d.b.stats.mqtt.Add(1)
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
		return partly.Failed
	}
	return all(len(letters), err).Failed
}

// passing are the failures that can pass. A letter that the broker refuses for good, such as one
// that is too large for it, is kept without a message.
func (d *deadTopic) passing(ctx context.Context, failed []tidemill.Failed) []tidemill.Failed {
	return slices.DeleteFunc(failed, func(f tidemill.Failed) bool {
		if k := tidemill.KindOf(f.Err); k != tidemill.Validation && k != tidemill.Business {
			return false
		}
		// Logged when the broker refuses a dead letter for good; the letter itself is kept.
		// To do: correct what the error names, as the broker's largest packet.
		d.b.o.Log.WarnContext(ctx, "a dead letter is kept without a message: the broker refuses it", "topic", d.topic, "error", f.Err)
		return true
	})
}

// keep keeps the letters, except the failed ones, which were not published. It returns those that
// were not published or not kept.
func (d *deadTopic) keep(ctx context.Context, letters []tidemill.DeadLetter, failed []tidemill.Failed) ([]tidemill.Failed, error) {
	unpublished := make([]bool, len(letters))
	for _, f := range failed {
		unpublished[f.Index] = true
	}
	var published []tidemill.DeadLetter
	var at []int // of each in letters
	for i := range letters {
		if !unpublished[i] {
			published, at = append(published, letters[i]), append(at, i)
		}
	}
	if len(published) == 0 {
		return failed, nil
	}
	err := d.b.p.Keep.Put(ctx, published)
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		return failed, err
	}
	for _, f := range partly.Failed {
		failed = append(failed, tidemill.Failed{Index: at[f.Index], Err: f.Err})
	}
	return failed, nil
}

// Has implements tidemill.DeadLetters. A topic cannot be asked: an entry whose settlement was
// lost is published to the topic of the dead again.
func (d *deadTopic) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	if keep := d.b.p.Keep; keep != nil {
		return keep.Has(ctx, pipeline, ids, marks)
	}
	return make([]bool, len(ids)), nil
}

// pending is used without a topic of the dead: dead entries stay pending, and are counted.
type pending struct{ kept *atomic.Uint64 }

var errNoTopic = errors.New("there is no topic of the dead: the entry stays pending")

// Put implements tidemill.DeadLetters.
func (p pending) Put(_ context.Context, letters []tidemill.DeadLetter) error {
	p.kept.Add(uint64(len(letters)))
	return all(len(letters), errNoTopic)
}

func (pending) Has(_ context.Context, _ string, ids []string, _ []tidemill.Mark) ([]bool, error) {
	return make([]bool, len(ids)), nil
}

// all says that each of n messages failed.
func all(n int, err error) *tidemill.Partial {
	p := &tidemill.Partial{}
	for i := range n {
		p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: err})
	}
	return p
}

// appendLetter appends a message for the topic of the dead:
//
//	{"original_message":"<data as text>","error":"…","timestamp":"<RFC 3339>","message_id":"<entry id>","attempts":n}
func (b *Bridge) appendLetter(dst []byte, l *tidemill.DeadLetter) []byte {
	dst = append(dst, `{"original_message":`...)
	dst = appendText(dst, appendData(nil, l.Message))
	dst = append(dst, `,"error":`...)
	dst = appendText(dst, l.Cause)
	dst = append(dst, `,"timestamp":"`...)
	dst = l.At.UTC().AppendFormat(dst, time.RFC3339)
	dst = append(dst, `","message_id":`...)
	dst = appendText(dst, l.Message.ID)
	dst = append(dst, `,"attempts":`...)
	dst = strconv.AppendInt(dst, int64(min(l.Tries, b.o.attempts())), 10)
	return append(dst, '}')
}
