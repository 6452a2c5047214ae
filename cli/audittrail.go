package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type auditTrailCmd struct {
	command.Remote
	api.TrailFilter
	Check bool `help:"Read all of it, and say whether something was changed or taken away. The exit status is 1 if so."`
}

// Help is shown by tidemill audit trail --help.
func (c *auditTrailCmd) Help() string {
	return `Each change by a person, a token or the command line is there with who made it, from where, when, and what came of it: also those that were refused or failed, and each login. An outcome of unknown says that the process ended before the change did. Entries are kept for 400 days, and a million of them.

  tidemill audit trail --since 7d --who ada
  tidemill audit trail --operation deleteDead --order newest -n 20
  tidemill audit trail --check`
}

func (c *auditTrailCmd) Run(ctx context.Context, e command.Env) error {
	if c.Check {
		return c.check(ctx, e)
	}
	t := command.Table{Head: "WHEN\tWHO\tVIA\tFROM\tOPERATION\tON\tOUTCOME\tDETAIL", None: "Nobody has changed anything."}
	return command.List(ctx, e, c, api.ListAuditTrail, &c.TrailFilter, &t, func(r *api.TrailEntry) []string {
		on := r.Thing
		if on == "" {
			on = r.Filter
		}
		return []string{command.Stamp(&r.At), r.Who, r.Via, r.From, r.Operation, on, r.Outcome, r.Detail}
	})
}

func (c *auditTrailCmd) check(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		got, err := command.Shown(ctx, e, c, a, api.CheckAuditTrail, &operation.None{}, func(r *api.TrailCheck) error {
			said := fmt.Sprintf("Nothing was changed in %s.\n", command.Count(r.Entries, "entry", "entries"))
			if !r.Whole {
				said = "The audit trail was changed:\n  " + strings.Join(r.Wrong, "\n  ") + "\n"
			}
			_, err := fmt.Fprint(e.Out, said)
			return err
		})
		if err == nil && !got.Whole {
			err = errUnbalanced
		}
		return err
	})
}
