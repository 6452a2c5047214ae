package main

import (
	"context"
	"fmt"
)

type windowAdoptCmd struct {
	aboutWindows
	Prefix  string `help:"What the names of its keys begin with, before active:batches and the others. Default: nothing." placeholder:"TEXT"`
	Project string `help:"Project of the batches, by name or id. Default: windows.project of the configuration." placeholder:"NAME"`
}

// Help is shown by tidemill window adopt --help.
func (c *windowAdoptCmd) Help() string {
	return `Stop the other program first. What it has collected and not yet delivered lies in the Redis of the windows, under keys such as active:batches, batch:events:… and data:event:…; each record is put, byte for byte, into the window of its batch id, and deleted where it was. A batch that was ready is delivered at once, and so is one that it had begun to deliver; another when its time would have been over.

Doing it again does no harm: what was put twice is one record.

  tidemill window adopt`
}

func (c *windowAdoptCmd) Run(ctx context.Context, e env) error {
	return c.ask(ctx, e, func(a *client) error {
		var done struct {
			Batches int `json:"batches"`
			Records int `json:"records"`
			Lost    int `json:"lost"`
		}
		if err := a.post(ctx, "windows/adopt", query("prefix", c.Prefix, "project", c.Project), &done); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.out, done)
		}
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
