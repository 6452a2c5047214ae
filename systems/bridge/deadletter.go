package bridge

import (
	"context"
	"errors"
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

// deadTopic publishes the dead. A dead letter that cannot be published leaves its entry
// pending: the entry comes again, and is tried again then.
type deadTopic struct {
	b     *Bridge
	topic string
}

// Put implements tidemill.DeadLetters.
func (d *deadTopic) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	if keep := d.b.p.Keep; keep != nil {
		if err := keep.Put(ctx, letters); err != nil {
			return err
		}
	}
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
	if _, ok := errors.AsType[*tidemill.Partial](err); ok {
		return err
	}
	return all(len(letters), err)
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
func all(n int, err error) error {
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
