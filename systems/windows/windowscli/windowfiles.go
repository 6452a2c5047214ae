package windowscli

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

type windowFilesCmd struct{ aboutWindows }

// Help is shown by tidemill window files --help.
func (c *windowFilesCmd) Help() string {
	return `It shows the files whose rows are not all done, and why one cannot be read: it was removed or changed before all of it was stored. Put it back as it was, and reading goes on; or give it up. Refused files are dead letters; a replay reads them again.

  tidemill window files
  tidemill dead list --pipeline windows-files-url
  tidemill window give-up 20250323151500.export.CSV.zip`
}

func (c *windowFilesCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, windowsapi.ListFiles, &operation.None{}, func(_ *command.Client, got *windowsapi.Feeds) error {
		if len(got.Feeds) == 0 {
			_, err := fmt.Fprintln(e.Out, "No files are read here: windows.files of the configuration says where they are.")
			return err
		}
		t := command.Table{Out: e.Out, Head: "FILE\tBATCH\tROWS\tPENDING\tTROUBLE", None: "No file is being read."}
		var err error
		for _, f := range got.Feeds {
			for _, one := range f.Files {
				if err == nil {
					err = t.Row(one.Name, one.Batch, fmt.Sprint(one.Rows), fmt.Sprint(one.Pending), command.Short(one.Trouble, 100))
				}
			}
		}
		if err := t.End(err); err != nil {
			return err
		}
		for _, f := range got.Feeds {
			text := fmt.Sprintf("%s, %s: %s read, %d refused, %d rows", f.Feed, command.Printable(f.From), command.Count(int(f.Done), "file", "files"), f.Broken, f.Rows)
			if f.Idless > 0 {
				text += "; " + command.Count(int(f.Idless), "row", "rows") + " without an id skipped"
			}
			if f.Lost > 0 {
				text += fmt.Sprintf("; %d given up", f.Lost)
			}
			if f.Unread > 0 {
				text += "; " + command.Count(f.Unread, "link", "links") + " (or other things that are not files) not read: put the files themselves there"
			}
			if f.Broken > 0 {
				text += "; those refused are dead letters: `tidemill dead list --pipeline " + f.Feed + "`"
			}
			if _, err := fmt.Fprintln(e.Out, text+"."); err != nil {
				return err
			}
		}
		return nil
	})
}

type windowGiveUpCmd struct {
	aboutWindows
	windowsapi.FileToGiveUp
}

// Help is shown by tidemill window give-up --help.
func (c *windowGiveUpCmd) Help() string {
	return `A file that was removed or changed before all of its rows were stored waits to be put back. If you give it up, its rows that are not done are lost, and the audit says so from then on. A file that can be read cannot be given up.`
}

func (c *windowGiveUpCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, windowsapi.GiveUpFile, &c.FileToGiveUp, func(_ *command.Client, done *windowsapi.GivenUpFile) error {
		text := "%s is given up: %s lost.\n"
		if c.DryRun {
			text = "%s would be given up: %s would be lost.\n"
		}
		_, err := fmt.Fprintf(e.Out, text, command.Printable(done.File), command.Count(int(done.Lost), "row", "rows"))
		return err
	})
}
