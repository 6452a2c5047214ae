//go:build !embedded

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/internal/postgresdb"
)

type postgresCmd struct {
	Grants  postgresGrantsCmd  `cmd:"" help:"Print what an administrator runs once for two roles: one owns the tables, the program runs as the other."`
	Migrate postgresMigrateCmd `cmd:"" help:"Make the tables, or bring them to this version, and start nothing."`
}

type postgresGrantsCmd struct {
	command.Settings
	Owner string `help:"Role that owns the tables." default:"tidemill_owner" placeholder:"ROLE"`
	Role  string `help:"Role that the program runs as." default:"tidemill" placeholder:"ROLE"`
}

// Help is shown by tidemill postgres grants --help.
func (c *postgresGrantsCmd) Help() string {
	return `The schema is that of postgres.url (schema=, else public). Nothing is changed: look at the statements, then run them in the database:

  tidemill postgres grants | psql DATABASE

They can be run again.`
}

func (c *postgresGrantsCmd) Run(e command.Env) error {
	cfg, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	schema := ""
	if u, err := url.Parse(string(cfg.Postgres.URL)); err == nil {
		schema = u.Query().Get("schema")
	}
	text, err := postgresdb.Grants(schema, c.Owner, c.Role)
	if err != nil {
		return command.UsageError{Err: err}
	}
	_, err = fmt.Fprint(e.Out, text)
	return err
}

type postgresMigrateCmd struct{ command.Settings }

// Help is shown by tidemill postgres migrate --help.
func (c *postgresMigrateCmd) Help() string {
	return `Run it before the first start, and before a new version, as the role that owns the tables:

  DATABASE_URL=postgres://tidemill_owner@127.0.0.1:5432/app tidemill postgres migrate

Instances of the version before go on meanwhile. Whatever else the configuration names is opened too, but for the data folder.`
}

func (c *postgresMigrateCmd) Run(ctx context.Context, e command.Env) (err error) {
	cfg, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	if cfg.Postgres.URL == "" {
		return errors.New("postgres.url (DATABASE_URL) is not set: there is nothing to prepare")
	}
	if cfg.Data, err = os.MkdirTemp("", "tidemill-migrate-"); err != nil { // an instance may run on the folder
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Data)) }()
	in, err := e.Open(ctx, e, cfg, nil, tidemill.NewSecret("unused"))
	if err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Out, "The tables are those of this version.")
	return err
}
