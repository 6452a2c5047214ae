package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type reloadCmd struct {
	command.Remote
	Check bool `help:"Only say what would change."`
}

// Help is shown by tidemill reload --help.
func (c *reloadCmd) Help() string {
	return `The instance reads its file, its environment as it was at the start, and its flags again, and applies what has changed while it runs: partners, sites, keys, handlers, processors, limits, the log's level. No event is lost, and what has begun ends as it began. It is all or nothing: where anything is wrong, it says what, and everything stays as it was.

What needs a restart is listed and stays as it was; the exit status is 3 then. tidemill config reference says of each setting whether a reload applies it. SIGHUP does the same, and the log says what came of it.

  tidemill reload --check
  tidemill reload`
}

// errRestart makes the exit status of reload 3 without another message.
var errRestart = errors.New("something needs a restart")

func (c *reloadCmd) Run(ctx context.Context, e command.Env) error {
	op, title := api.ReloadConfig, "Applied:"
	if c.Check {
		op, title = api.PreviewReload, "A reload applies:"
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		done, err := command.Shown(ctx, e, c, a, op, &operation.None{}, func(r *api.Reload) error {
			if len(r.Applied)+len(r.Restart) == 0 {
				_, err := fmt.Fprintln(e.Out, "Nothing changes.")
				return err
			}
			return errors.Join(command.PrintChanges(e.Out, title, r.Applied), command.PrintChanges(e.Out, "Needs a restart, and stays as it is:", r.Restart))
		})
		if err == nil && len(done.Restart) > 0 {
			err = errRestart
		}
		return err
	})
}
