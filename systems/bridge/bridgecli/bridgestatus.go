package bridgecli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

type bridgeStatusCmd struct{ command.Remote }

// Help is shown by tidemill bridge status --help.
func (c *bridgeStatusCmd) Help() string {
	return `LENGTH is how many entries the stream has; of these PENDING were handed out and have not ended, and of those DELAYED failed and are published again later. What was published and acknowledged is counted by the instance that answers, since it started.

  tidemill explain ID --system bridge   where one entry is
  tidemill dead list --pipeline bridge  entries that were given up`
}

func (c *bridgeStatusCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, bridgeapi.GetBridge, &operation.None{}, func(_ *command.Client, b *bridgeapi.Bridge) error { return printBridge(e.Out, b) })
}

func printBridge(out io.Writer, b *bridgeapi.Bridge) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	or := func(text, none string) string {
		if text == "" {
			return none
		}
		return command.Printable(text)
	}
	_, _ = fmt.Fprintf(w, "state\t%s\nstream\t%s\nlength\t%d\npending\t%d\ndelayed\t%d\noldest\t%s\n", b.State, or(b.Stream, "embedded"), b.Length, b.Pending, b.Delayed, command.Stamp(b.Oldest))
	for _, c := range b.Consumers {
		_, _ = fmt.Fprintf(w, "consumer\t%s: %d pending, idle for %s\n", command.Printable(c.Name), c.Pending, command.Roughly(time.Duration(c.Idle*float64(time.Second))))
	}
	_, _ = fmt.Fprintf(w, "published\t%d, to %s\nacknowledged\t%d, on %s\nrefused\t%d\ndead\t%d, to %s\n",
		b.Published, command.Printable(b.Topic), b.Acknowledged, or(b.AckTopic, "no topic: the broker's acknowledgement is enough"), b.Refused, b.Dead, or(b.DeadTopic, "no topic"))
	if b.Unanswered > 0 {
		_, _ = fmt.Fprintf(w, "not answered\t%d published three times or more: tidemill explain %s --system bridge\n", b.Unanswered, command.Printable(b.Example))
	}
	return w.Flush()
}
