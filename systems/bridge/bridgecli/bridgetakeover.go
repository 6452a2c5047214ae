package bridgecli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

type bridgeTakeOverCmd struct {
	command.Remote
	Consumer string `arg:"" help:"The consumer, as bridge status names it."`
	DryRun   bool   `help:"Show what it has, and take over nothing."`
}

// Help is shown by tidemill bridge take-over --help.
func (c *bridgeTakeOverCmd) Help() string {
	return `The instance that answers publishes at once what the consumer had, and does not wait until its lease is over. A consumer whose process runs, or ended less than a lease ago, is refused. A program of others that reads the group and still works goes on with what it has: it is published twice.

  tidemill bridge status
  tidemill bridge take-over NAME --dry-run`
}

func (c *bridgeTakeOverCmd) Run(ctx context.Context, e command.Env) error {
	q := &bridgeapi.OneConsumer{Consumer: c.Consumer}
	if c.DryRun {
		return command.Show(ctx, e, c, bridgeapi.GetConsumer, q, func(_ *command.Client, had *bridgeapi.Consumer) error {
			return printConsumer(e, had)
		})
	}
	return command.Show(ctx, e, c, bridgeapi.TakeOver, q, func(_ *command.Client, t *bridgeapi.TakenOver) error {
		_, err := fmt.Fprintf(e.Out, "%s of %s taken over\n", command.Count(t.Taken, "entry", "entries"), command.Printable(c.Consumer))
		return err
	})
}

func printConsumer(e command.Env, c *bridgeapi.Consumer) error {
	since := func(seconds float64) string { return command.Roughly(time.Duration(seconds * float64(time.Second))) }
	stands := "nobody goes by its name: its entries can be taken over"
	if c.Held > 0 {
		stands = "a process goes by its name, or did less than a lease ago: nothing is taken over for another " + since(c.Held)
	}
	_, _ = fmt.Fprintf(e.Out, "%s: %s pending, idle for %s; %s\n", command.Printable(c.Name), command.Count(int(c.Pending), "entry", "entries"), since(c.Idle), stands)
	t := command.Table{Out: e.Out, Head: "ENTRY\tIDLE\tHANDED OUT", None: "It has nothing."}
	for _, n := range c.Entries {
		if err := t.Row(n.ID, since(n.Idle), strconv.Itoa(n.Handed)); err != nil {
			return err
		}
	}
	return t.End(nil)
}
