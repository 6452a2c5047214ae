package main

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
	return `Stop the other program first. What it has collected and not yet delivered lies in the Redis of the windows, under keys such as active:batches, batch:events:… and data:event:…; each record is put, byte for byte, into the window of its batch id, and deleted where it was. A batch that was ready is delivered at once, and so is one that it had begun to deliver; another when its time would have been over.

Doing it again does no harm: what was put twice is one record.

  tidemill window adopt`
}

func (c *windowAdoptCmd) Run(ctx context.Context, e env) error {
	return show(ctx, e, c, api.AdoptWindows, &c.Adoption, func(_ *client, done *api.AdoptedWindows) error {
		if done.Batches == 0 {
			_, err := fmt.Fprintln(e.out, "There is nothing to take over.")
			return err
		}
		text := fmt.Sprintf("%s of %s taken over.", count(done.Records, "record", "records"), count(done.Batches, "batch", "batches"))
		if done.Lost > 0 {
			text += fmt.Sprintf(" %s had no bytes any more: they are booked as dead.", count(done.Lost, "id", "ids"))
		}
		_, err := fmt.Fprintln(e.out, text)
		return err
	})
}
