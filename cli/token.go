package cli

import (
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
)

type tokenCmd struct{ command.Settings }

// Help is shown by tidemill token --help.
func (c *tokenCmd) Help() string {
	return `The token comes from the configuration (admin.key, TIDEMILL_TOKEN) or from the file api.token in the data folder. The other commands find it by themselves; this one is for programs that use the API:

  curl -H "Authorization: Bearer $(tidemill token)" http://127.0.0.1:8484/api/v1/status

For a new token: stop the instance, remove the file, and start it again.`
}

func (c *tokenCmd) Run(e command.Env) error {
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
