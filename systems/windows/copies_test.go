package windows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/tidemill/tidemill"
)

// remembers is a sink, and dead letters, that remember.
type remembers struct {
	err     error
	written []string
	kept    []string
}

func (r *remembers) Write(_ context.Context, batch []*tidemill.Message) error {
	for _, m := range batch {
		r.written = append(r.written, fmt.Sprintf("%s %s %s", m.To, m.Key, m.Payload))
		for _, h := range m.Header {
			r.written = append(r.written, fmt.Sprintf("%s=%s", h.Name, h.Value))
		}
	}
	return r.err
}

func (r *remembers) Put(_ context.Context, letters []tidemill.DeadLetter) error {
	for _, l := range letters {
		r.kept = append(r.kept, l.Message.ID)
	}
	return nil
}

func (r *remembers) Has(_ context.Context, _ string, _ []string, marks []tidemill.Mark) ([]bool, error) {
	return make([]bool, len(marks)), nil
}

func TestACopyOfALetterSaysItsCause(t *testing.T) {
	r := &remembers{}
	c := copying{DeadLetters: r, to: r, topic: "refused"}
	letter := tidemill.DeadLetter{Kind: tidemill.Validation, Cause: "document 7: 400 mapper_parsing_exception: no such place", Message: &tidemill.Message{
		ID: "m", To: "processor-event", Key: []byte("7"), Payload: []byte(`{"a":1}`), Mark: tidemill.Mark{Shard: 3, Lo: 41},
		Header: []tidemill.Field{{Name: []byte("trace"), Value: []byte("x")}}}}
	if err := c.Put(t.Context(), []tidemill.DeadLetter{letter}); err != nil {
		t.Fatal(err)
	}
	want := []string{`refused 7 {"a":1}`, "trace=x", "__connect.errors.topic=processor-event", "__connect.errors.partition=3", "__connect.errors.offset=41",
		"__connect.errors.stage=TASK_PUT", "__connect.errors.exception.class.name=mapper_parsing_exception", "__connect.errors.exception.message=" + letter.Cause}
	if fmt.Sprint(r.written) != fmt.Sprint(want) || fmt.Sprint(r.kept) != "[m]" {
		t.Errorf("written %q, kept %q", r.written, r.kept)
	}
	letter.Cause = "it has no day"
	if m := copyOf(&letter, "refused"); string(m.Get(headerClass)) != "validation" {
		t.Errorf("without an exception the class is %q", m.Get(headerClass))
	}
}

func TestNoLetterIsKeptWithoutItsCopy(t *testing.T) {
	r := &remembers{err: errors.New("away")}
	c := copying{DeadLetters: r, to: r, topic: "refused"}
	if err := c.Put(t.Context(), []tidemill.DeadLetter{{Message: &tidemill.Message{ID: "m"}}}); !errors.Is(err, r.err) || len(r.kept) > 0 {
		t.Errorf("%v, kept %q", err, r.kept)
	}
}

// A Partial would tell the keeper of dead letters that the others are kept.
func TestACopyThatFailsIsNoLetterThatIsKept(t *testing.T) {
	letters := []tidemill.DeadLetter{{Message: &tidemill.Message{ID: "a"}}, {Message: &tidemill.Message{ID: "b"}}}
	for kind, kept := range map[tidemill.Kind]string{tidemill.Transient: "[]", tidemill.Validation: "[a b]"} {
		r := &remembers{err: &tidemill.Partial{Failed: []tidemill.Failed{{Index: 1, Err: tidemill.Fail(kind, "no")}}}}
		c := copying{DeadLetters: r, to: r, topic: "refused", log: slog.New(slog.DiscardHandler)}
		err := c.Put(t.Context(), letters)
		if _, partly := errors.AsType[*tidemill.Partial](err); partly || (err == nil) != (kind == tidemill.Validation) || fmt.Sprint(r.kept) != kept {
			t.Errorf("a copy that fails (%v): %v, kept %q", kind, err, r.kept)
		}
	}
}
