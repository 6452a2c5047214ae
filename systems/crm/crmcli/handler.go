package crmcli

import (
	"context"

	"github.com/tidemill/tidemill/cli/command"
)

type handlerCmd struct {
	List   handlerListCmd   `cmd:"" help:"List the handlers, and where each is described."`
	Show   handlerShowCmd   `cmd:"" help:"Show how a handler is described."`
	Add    handlerAddCmd    `cmd:"" help:"Make a handler, in the database of the instances."`
	Change handlerChangeCmd `cmd:"" help:"Change a handler that the database describes."`
	Remove handlerRemoveCmd `cmd:"" help:"Remove a handler that the database describes."`
}

type handlerListCmd struct{ command.ListDescribed }

func (c *handlerListCmd) Run(ctx context.Context, e command.Env) error {
	return c.List(ctx, e, "handler")
}

type handlerShowCmd struct{ command.ShowDescribed }

func (c *handlerShowCmd) Run(ctx context.Context, e command.Env) error {
	return c.Show(ctx, e, "handler")
}

type handlerAddCmd struct{ command.AddDescribed }

// Help is shown by tidemill handler add --help.
func (c *handlerAddCmd) Help() string {
	return `The settings are those of crm.handlers in the file: tidemill config reference crm.handlers. Secrets are not kept in the database: secrets_env and headers_env name the variables, which each instance needs.

  tidemill handler add app app.yaml --check
  tidemill handler add city --set 'types=[member.*]' --set 'attributes=[{attribute: city, from: payload.city}]'`
}

func (c *handlerAddCmd) Run(ctx context.Context, e command.Env) error {
	return c.Add(ctx, e, "handler")
}

type handlerChangeCmd struct{ command.ChangeDescribed }

func (c *handlerChangeCmd) Run(ctx context.Context, e command.Env) error {
	return c.Change(ctx, e, "handler")
}

type handlerRemoveCmd struct{ command.RemoveDescribed }

func (c *handlerRemoveCmd) Run(ctx context.Context, e command.Env) error {
	return c.Remove(ctx, e, "handler")
}
