package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type deadEditCmd struct {
	command.Remote
	api.OneDead
	api.Seen
	newPayload
}

// Help is shown by tidemill dead edit --help.
func (c *deadEditCmd) Help() string {
	return `A replay sends the new payload. The payload as received is kept through every edit; dead show shows both.

` + editHelp + `
  tidemill dead edit 17
  tidemill dead replay --seq 17

  tidemill dead show 17 --json >dead.json
  jq -j .payload dead.json | mend >event.json
  tidemill dead edit 17 event.json --if-match $(jq -r .etag dead.json)`
}

func (c *deadEditCmd) Run(ctx context.Context, e command.Env) error {
	read := func(a *command.Client) ([]byte, string, error) {
		l, err := api.GetDead.Call(ctx, &a.Client, &c.OneDead)
		if err != nil {
			return nil, "", err
		}
		was, err := command.PayloadOf(l.Payload, l.PayloadBase64)
		return was, l.ETag, err
	}
	return editPayload(ctx, e, c, c.newPayload, &c.Seen, read, func(a *command.Client, payload []byte) error {
		_, err := command.Shown(ctx, e, c, a, api.EditDead, &api.DeadEdit{OneDead: c.OneDead, Seen: c.Seen.OrWhatever(), NewPayload: c.of(payload)}, func(l *api.DeadLetter) error {
			_, err := fmt.Fprintf(e.Out, "Dead letter %d is edited: %d bytes. `tidemill dead replay --seq %d` sends it.\n", l.Seq, len(payload), l.Seq)
			return err
		})
		return err
	})
}

// editHelp says how edits do not overwrite each other.
const editHelp = `On a terminal your editor shows the payload. If somebody else edits it meanwhile, your edit is refused, and what you wrote is kept in a file. An edit with a file or by standard input is made whatever is there, as if you had said --if-match "*"; with the etag that show --json prints only if nobody has changed what you read.
`

// maxPayload is as much as the API takes.
const maxPayload = 4 << 20

// newPayload is where the new payload of an edit is from.
type newPayload struct {
	File  string `arg:"" optional:"" help:"The new payload, byte for byte. Default on a terminal: the editor that EDITOR names. Default elsewhere, or -: standard input." type:"path"`
	Empty bool   `help:"The new payload is empty: it is read from nowhere."`
}

// of is a new payload as the API takes it.
func (n newPayload) of(payload []byte) operation.NewPayload {
	return operation.NewPayload{Empty: n.Empty, Body: payload}
}

// readPayload reads what is to be a payload, whole. Nothing is a slip, and refused, unless that was said.
func readPayload(e command.Env, from newPayload) ([]byte, error) {
	if from.Empty && from.File != "" {
		return nil, command.UsageError{Err: errors.New("--empty and a file contradict each other")}
	}
	if from.Empty {
		return nil, nil
	}
	in := e.In
	if from.File != "" && from.File != "-" {
		f, err := os.Open(from.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPayload+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the new payload: %w", err)
	case len(b) > maxPayload:
		return nil, fmt.Errorf("the new payload is larger than %d MiB", maxPayload>>20)
	case len(b) == 0:
		return nil, errors.New("the new payload is empty, and nothing was changed: --empty says that it is to be so")
	}
	return b, nil
}
