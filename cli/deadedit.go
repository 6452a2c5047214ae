package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
)

type deadEditCmd struct {
	command.Remote
	api.OneDead
	File string `arg:"" optional:"" help:"The new payload, byte for byte. Default, or -: standard input." type:"path"`
}

// Help is shown by tidemill dead edit --help.
func (c *deadEditCmd) Help() string {
	return `A replay sends the new payload. The payload as received is kept through every edit; dead show shows both.

  tidemill dead show 17 --payload >event.json
  $EDITOR event.json
  tidemill dead edit 17 event.json
  tidemill dead replay --seq 17`
}

func (c *deadEditCmd) Run(ctx context.Context, e command.Env) error {
	payload, err := readPayload(e, c.File)
	if err != nil {
		return err
	}
	return command.Show(ctx, e, c, api.EditDead, &api.DeadEdit{OneDead: c.OneDead, Body: payload}, func(_ *command.Client, l *api.DeadLetter) error {
		_, err := fmt.Fprintf(e.Out, "Dead letter %d is edited: %d bytes. `tidemill dead replay --seq %d` sends it.\n", l.Seq, len(payload), l.Seq)
		return err
	})
}

// maxPayload is as much as the API takes.
const maxPayload = 4 << 20

// readPayload reads what is to be a payload, whole. Nothing is a slip, and refused.
func readPayload(e command.Env, file string) ([]byte, error) {
	in := e.In
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else if command.Terminal(e.In) {
		return nil, command.UsageError{Err: errors.New("give the new payload in a file, or on standard input")}
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPayload+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the new payload: %w", err)
	case len(b) > maxPayload:
		return nil, fmt.Errorf("the new payload is larger than %d MiB", maxPayload>>20)
	case len(b) == 0:
		return nil, errors.New("the new payload is empty")
	}
	return b, nil
}
