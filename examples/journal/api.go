package main

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// addNote is an operation. The CLI calls it by this value too.
var addNote = operation.Act[newNote, api.Counted]("addNote", "journal/notes", "Add a note. It answers when the note is durable.")

type newNote struct {
	Text string `query:"text" arg:"" help:"The note."`
}

// operations does them.
type operations struct {
	notes *notes
	add   func(context.Context, *tidemill.Message) error
}

func (o *operations) all() []operation.Handler {
	return []operation.Handler{listNotes.By(o.list), addNote.By(o.take)}
}

func (o *operations) take(ctx context.Context, q *newNote) (api.Counted, error) {
	return api.Counted{Count: 1}, answer.Answerable(o.add(ctx, &tidemill.Message{Payload: []byte(q.Text)}))
}
