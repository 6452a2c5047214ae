package cli

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type projectCmd struct {
	List   projectListCmd   `cmd:"" help:"List the projects."`
	Keys   projectKeysCmd   `cmd:"" help:"List the ingest keys of a project: what they are known by, not the keys."`
	Make   projectMakeCmd   `cmd:"" name:"make-key" help:"Make another ingest key for a project, and print it."`
	Revoke projectRevokeCmd `cmd:"" name:"revoke-key" help:"Revoke an ingest key of a project."`
}

type projectListCmd struct{ command.Remote }

func (c *projectListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "NAME\tID", None: "No projects."}
	return command.List(ctx, e, c, api.ListProjects, &operation.None{}, &t, func(p *api.Project) []string {
		return []string{p.Name, p.ID.String()}
	})
}

type projectKeysCmd struct {
	command.Remote
	api.OneProject
}

func (c *projectKeysCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "KEY\tFROM", None: "No keys: `tidemill project make-key " + command.Printable(c.Project) + "` makes one."}
	return command.List(ctx, e, c, api.ListKeys, &c.OneProject, &t, func(k *api.IngestKey) []string {
		if k.Configured {
			return []string{k.ID, "the configuration"}
		}
		return []string{k.ID, ""}
	})
}

type projectMakeCmd struct {
	command.Remote
	api.OneProject
}

func (c *projectMakeCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.MakeKey, &c.OneProject, func(_ *command.Client, k *api.MadeKey) error {
		_, _ = fmt.Fprintf(e.Err, "The key %s of %s. Nobody can see it later:\n", k.ID, command.Printable(c.Project))
		_, err := fmt.Fprintln(e.Out, k.Secret)
		return err
	})
}

type projectRevokeCmd struct {
	command.Remote
	api.OneKey
}

func (c *projectRevokeCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.RevokeKey, &c.OneKey, func(_ *command.Client, k *api.IngestKey) error {
		_, err := fmt.Fprintf(e.Out, "Revoked %s: it is refused within a minute.\n", k.ID)
		return err
	})
}
