package cli

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/serve/api"
)

type windowAdoptCmd struct {
	aboutWindows
	api.Adoption
}

// Help is shown by tidemill window adopt --help.
func (c *windowAdoptCmd) Help() string {
	return `Stop the other program first. The records that it has collected and not delivered are in the Redis of the windows, under keys like active:batches, batch:events:… and data:event:…. Each record is moved, byte for byte, into the window of its batch id. A batch that was ready, or whose delivery had begun, is delivered at once; any other when its time is over.

The command can be repeated: a record that is put twice is one record.

  tidemill window adopt`
}

func (c *windowAdoptCmd) Run(ctx context.Context, e env) error {
	return show(ctx, e, c, api.AdoptWindows, &c.Adoption, func(_ *client, done *api.AdoptedWindows) error {
		if done.Batches == 0 {
			_, err := fmt.Fprintln(e.out, "Nothing to take over.")
			return err
		}
		text := fmt.Sprintf("%s of %s taken over.", count(done.Records, "record", "records"), count(done.Batches, "batch", "batches"))
		if done.Lost > 0 {
			text += fmt.Sprintf(" %s had no record any more: counted as dead.", count(done.Lost, "id", "ids"))
		}
		_, err := fmt.Fprintln(e.out, text)
		return err
	})
}
