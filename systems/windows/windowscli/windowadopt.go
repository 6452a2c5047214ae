package windowscli

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

type windowAdoptCmd struct {
	aboutWindows
	windowsapi.Adoption
}

// Help is shown by tidemill window adopt --help.
func (c *windowAdoptCmd) Help() string {
	return `Stop the other program first. The records that it has collected and not delivered are in the Redis of the windows, under keys like active:batches, batch:events:… and data:event:…. Each record is moved, byte for byte, into the window of its batch id. A batch that was ready, or whose delivery had begun, is delivered at once; any other when its time is over.

The command can be repeated: a record that is put twice is one record.

  tidemill window adopt --dry-run
  tidemill window adopt`
}

func (c *windowAdoptCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, windowsapi.AdoptWindows, &c.Adoption, func(_ *command.Client, done *windowsapi.AdoptedWindows) error {
		if done.Batches == 0 {
			_, err := fmt.Fprintln(e.Out, "Nothing to take over.")
			return err
		}
		taken, lost := "%s of %s taken over.", " %s had no record any more: counted as dead."
		if c.DryRun {
			taken, lost = "%s of %s would be taken over.", " %s without a record would be counted as dead."
		}
		text := fmt.Sprintf(taken, command.Count(done.Records, "record", "records"), command.Count(done.Batches, "batch", "batches"))
		if done.Lost > 0 {
			text += fmt.Sprintf(lost, command.Count(done.Lost, "id", "ids"))
		}
		_, err := fmt.Fprintln(e.Out, text)
		return err
	})
}
