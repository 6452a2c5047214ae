package windows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"

	"github.com/tidemill/tidemill"
)

// copying are dead letters that are also written to a topic, for other readers. A dead letter
// that is put again, because its settlement was lost or it died once more, is there twice.
type copying struct {
	tidemill.DeadLetters
	to    tidemill.Sink
	topic string
	log   *slog.Logger
}

// Put implements tidemill.DeadLetters. It writes the copies first, so that every kept dead
// letter has a copy, unless the topic refuses it for good.
func (c copying) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	batch := make([]*tidemill.Message, len(letters))
	for i := range letters {
		batch[i] = copyOf(&letters[i], c.topic)
	}
	if err := c.copied(ctx, c.to.Write(ctx, batch)); err != nil {
		return fmt.Errorf("write dead letters to the topic %s: %w", c.topic, err)
	}
	return c.DeadLetters.Put(ctx, letters)
}

// copied is what the error of a Write means for the dead letters. It is nil if all that can
// ever be copied were copied. It is never a Partial, which would say that the others are kept.
func (c copying) copied(ctx context.Context, err error) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		return err
	}
	for _, f := range partly.Failed {
		if k := tidemill.KindOf(f.Err); k != tidemill.Validation && k != tidemill.Business {
			return f.Err
		}
		// Logged when the topic of copies refuses a dead letter for good; the letter itself is kept.
		// To do: correct what the error names, as the topic's largest message.
		c.log.WarnContext(ctx, "a dead letter is kept without a copy: its topic refuses it", "topic", c.topic, "error", f.Err)
	}
	return nil
}

// Headers of a copy: the names under which Kafka Connect tells the cause.
const (
	headerTopic     = "__connect.errors.topic"
	headerPartition = "__connect.errors.partition"
	headerOffset    = "__connect.errors.offset"
	headerStage     = "__connect.errors.stage"
	headerClass     = "__connect.errors.exception.class.name"
	headerMessage   = "__connect.errors.exception.message"
)

// exception is how servers name their complaint about a document, within its cause.
var exception = regexp.MustCompile(`\b[a-z_]+_exception\b`)

// copyOf is a dead letter as a message: the record as it was, and its cause.
func copyOf(l *tidemill.DeadLetter, topic string) *tidemill.Message {
	class := exception.FindString(l.Cause)
	if class == "" {
		class = l.Kind.String()
	}
	m := &tidemill.Message{ID: l.Message.ID, Type: l.Message.Type, To: topic, Key: l.Message.Key, Payload: l.Message.Payload}
	m.Header = append(m.Header, l.Message.Header...)
	for _, h := range []struct{ name, value string }{
		{headerTopic, l.Message.To},
		{headerPartition, strconv.FormatUint(uint64(l.Message.Mark.Shard), 10)},
		{headerOffset, strconv.FormatUint(l.Message.Mark.Lo, 10)},
		{headerStage, "TASK_PUT"},
		{headerClass, class},
		{headerMessage, l.Cause},
	} {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(h.name), Value: []byte(h.value)})
	}
	return m
}
