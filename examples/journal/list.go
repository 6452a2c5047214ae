package main

import (
	"cmp"
	"context"
	"iter"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
)

var listNotes = operation.List[notesFilter, note]("listNotes", "journal/notes", "List the last notes, the newest last.")

type notesFilter struct {
	Max int `query:"max" help:"At most this many. Default: 20." short:"n" placeholder:"N"`
}

// note is a note that was written.
type note struct {
	Text string `json:"text"`
}

func (o *operations) list(_ context.Context, q *notesFilter) (iter.Seq2[note, error], error) {
	all, err := o.notes.last(cmp.Or(q.Max, 20))
	return answer.Listed(all, func(text *string) note { return note{*text} }), err
}

type listCmd struct {
	about
	notesFilter
}

func (c *listCmd) Run(ctx context.Context, e command.Env) error {
	return command.List(ctx, e, c, listNotes, &c.notesFilter, &command.Table{Head: "NOTE", None: "No notes."}, func(n *note) []string {
		return []string{command.Short(n.Text, 120)}
	})
}
