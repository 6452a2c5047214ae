package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type viewCmd struct {
	List   viewListCmd   `cmd:"" help:"List your saved views of the console, and those that others share."`
	Save   viewSaveCmd   `cmd:"" help:"Save a name for a page of the console, or change one."`
	Remove viewRemoveCmd `cmd:"" help:"Remove a saved view."`
}

type viewListCmd struct{ command.Remote }

// Help is shown by tidemill view list --help.
func (c *viewListCmd) Help() string {
	return `Yours are those of the name that this command comes in by: of a token, or of the API's own key, and not those of your login in a browser. Others are here if they are shared.

  tidemill view list
  tidemill view list --json`
}

func (c *viewListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "ID\tNAME\tSEEN BY\tSAVED BY\tSAVED\tADDRESS", None: "No saved views: `tidemill view save NAME ADDRESS` saves one."}
	return command.List(ctx, e, c, api.ListViews, &operation.Short{}, &t, func(v *api.View) []string {
		return []string{v.ID, v.Name, seenBy(v), v.Owner, command.Stamp(&v.Made), v.Address}
	})
}

// seenBy says who sees a view.
func seenBy(v *api.View) string {
	if v.Shared {
		return "everybody"
	}
	return "you"
}

type viewSaveCmd struct {
	command.Remote
	Name    string `arg:"" help:"A name for it, of 1 to 80 characters."`
	Address string `arg:"" help:"The page, as the browser shows its address."`
	Shared  bool   `help:"Share it with everybody who may look at the console. Needs the role operator."`
	ID      string `help:"Change your view of this id instead: its name, its address and who sees it." placeholder:"ID"`
}

// Help is shown by tidemill view save --help.
func (c *viewSaveCmd) Help() string {
	return `The address may be pasted from the browser: what stands before /console/ is left out. An age in it, such as since=1h, stays one.

  tidemill view save 'Refused by mail' '/console/dead?pipeline=s2s.mail&since=24h' --shared
  tidemill view save 'Failed jobs' 'https://ops.example.com/console/queues/ingest/jobs?state=failed'
  tidemill view save 'Refused by mail, last week' '/console/dead?pipeline=s2s.mail&since=7d' --shared --id 12`
}

func (c *viewSaveCmd) Run(ctx context.Context, e command.Env) error {
	if i := strings.Index(c.Address, "/console/"); i > 0 {
		c.Address = c.Address[i:]
	}
	said := func(v *api.View) error {
		_, err := fmt.Fprintf(e.Out, "Saved %s as %s, for %s: %s\n", command.Printable(v.Name), v.ID, seenBy(v), command.Printable(v.Address))
		return err
	}
	if c.ID == "" {
		return command.Show(ctx, e, c, api.SaveView, &api.NewView{ViewToSave: api.ViewToSave{Name: c.Name, Address: c.Address, Shared: c.Shared}}, func(_ *command.Client, v *api.View) error { return said(v) })
	}
	q := &api.ViewChange{ViewID: api.ViewID{ID: c.ID}, Seen: api.Seen{IfMatch: operation.Whatever}, OtherView: api.OtherView{Name: c.Name, Address: c.Address, Shared: fmt.Sprint(c.Shared)}}
	return command.Show(ctx, e, c, api.ChangeView, q, func(_ *command.Client, v *api.View) error { return said(v) })
}

type viewRemoveCmd struct {
	command.Remote
	api.OneView
}

func (c *viewRemoveCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.RemoveView, &c.OneView, func(_ *command.Client, v *api.View) error {
		_, err := fmt.Fprintf(e.Out, "Removed %s.\n", command.Printable(v.Name))
		return err
	})
}
