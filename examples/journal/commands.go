package main

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/serve/api"
)

type journalCmd struct {
	Add  addCmd  `cmd:"" help:"Add a note."`
	List listCmd `cmd:"" help:"List the last notes."`
}

type about struct{ command.Remote }

// Ask opens the instance, runs do, and closes what was opened.
func (r *about) Ask(ctx context.Context, e command.Env, do func(*command.Client) error) error {
	r.About = name
	return r.Remote.Ask(ctx, e, do)
}

type addCmd struct {
	about
	newNote
}

func (c *addCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, addNote, &c.newNote, func(*command.Client, *api.Counted) error {
		_, err := fmt.Fprintln(e.Out, "The note is durable.")
		return err
	})
}

func commands() []system.Command {
	return []system.Command{{Name: name, Help: "Write notes, and read them.", Do: new(journalCmd)}}
}

func first(t *system.Trial) []string {
	return []string{t.Run("journal add %s", system.ShellWord("the kettle is on")), t.Run("journal list")}
}
