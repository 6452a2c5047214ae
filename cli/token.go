package cli

import (
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
)

type tokenCmd struct {
	Show   tokenShowCmd   `cmd:"" default:"withargs" help:"Print the API's own token, for programs that use the API."`
	Make   tokenMakeCmd   `cmd:"" help:"Make a token with a role and an end, and print it."`
	List   tokenListCmd   `cmd:"" help:"List the tokens that were made."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token that was made."`
}

type tokenShowCmd struct{ command.Settings }

// Help is shown by tidemill token show --help.
func (c *tokenShowCmd) Help() string {
	return `The token comes from the configuration (admin.key, TIDEMILL_TOKEN) or from the file api.token in the data folder. The other commands find it by themselves; this one is for programs that use the API:

  curl -H "Authorization: Bearer $(tidemill token)" http://127.0.0.1:8484/api/v1/status

For a new token: stop the instance, remove the file, and start it again.`
}

func (c *tokenShowCmd) Run(e command.Env) error {
	cfg, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	a := new(command.Client)
	if err := a.Know("", cfg); err != nil {
		return err
	}
	if a.None != nil {
		return fmt.Errorf("%w: the first `tidemill run` makes one there; or say where with --data", a.None)
	}
	_, err = fmt.Fprintln(e.Out, a.Token)
	return err
}
