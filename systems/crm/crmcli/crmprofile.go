package crmcli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

type crmProfileCmd struct {
	command.Remote
	crmapi.OneProfile
}

// Help is shown by tidemill crm profile --help.
func (c *crmProfileCmd) Help() string {
	return `A profile is found by one of its identities.

  tidemill crm profile club-7 --email ann@example.com
  tidemill crm profile club-7 --external-id m-1 --json`
}

func (c *crmProfileCmd) Run(ctx context.Context, e command.Env) error {
	given := 0
	for _, s := range []string{c.External, c.Email, c.Phone} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return command.UsageError{Err: errors.New("say whose profile: one of --external-id, --email and --phone")}
	}
	return command.Show(ctx, e, c, crmapi.GetProfile, &c.OneProfile, func(_ *command.Client, p *crmapi.Profile) error {
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "profile\t%s\ntenant\t%s\ncreated\t%s\nupdated\t%s\n", p.ID, command.Printable(p.Tenant), p.Created.Format(time.RFC3339), p.Updated.Format(time.RFC3339))
		for _, i := range p.Identities {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", i.Kind, command.Printable(i.Value))
		}
		for _, name := range command.Sorted(p.Attributes) {
			_, _ = fmt.Fprintf(w, "attribute\t%s = %s\n", command.Printable(name), command.Printable(string(p.Attributes[name])))
		}
		return w.Flush()
	})
}
