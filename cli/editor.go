package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
)

// editPayload sends a new payload: that of a file or of standard input, or on a terminal what the
// person makes of the present one in their editor. That one alone is edited then: not what
// somebody else has made of it meanwhile.
func editPayload(ctx context.Context, e command.Env, c command.Asker, from newPayload, seen *api.Seen, read func(*command.Client) (payload []byte, etag string, err error), send func(*command.Client, []byte) error) error {
	if from != (newPayload{}) || !command.Terminal(e.In) {
		payload, err := readPayload(e, from)
		if err != nil {
			return err
		}
		return c.Ask(ctx, e, func(a *command.Client) error { return send(a, payload) })
	}
	editor := strings.Fields(cmp.Or(e.Getenv("VISUAL"), e.Getenv("EDITOR")))
	if len(editor) == 0 {
		return command.UsageError{Err: errors.New("give the new payload in a file or on standard input, or name your editor in EDITOR")}
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		was, etag, err := read(a)
		if err != nil {
			return err
		}
		seen.IfMatch = cmp.Or(seen.IfMatch, etag)
		return inEditor(ctx, e, editor, was, func(payload []byte) error { return send(a, payload) })
	})
}

// inEditor lets the person edit a payload, and sends what they made of it. What cannot be sent is
// kept in a file.
func inEditor(ctx context.Context, e command.Env, editor []string, was []byte, send func([]byte) error) (err error) {
	name := "tidemill-*.txt"
	if json.Valid(was) {
		name = "tidemill-*.json"
	}
	f, err := os.CreateTemp("", name)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(was); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, editor[0], append(editor[1:len(editor):len(editor)], f.Name())...)
	cmd.Stdin = e.In
	cmd.Stdout, _ = command.Under(e.Out).(io.Writer)
	cmd.Stderr, _ = command.Under(e.Err).(io.Writer)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("nothing was changed: the editor %s: %w", editor[0], err)
	}
	payload, err := readPayload(e, newPayload{File: f.Name()})
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(was, []byte("\n")) { // many editors end every file with one
		payload = bytes.TrimSuffix(payload, []byte("\n"))
	}
	if bytes.Equal(was, payload) {
		_, err := fmt.Fprintln(e.Err, "Nothing was changed.")
		return err
	}
	if err := send(payload); err != nil {
		keep = true
		return fmt.Errorf("%w; what you wrote is in %s", err, f.Name())
	}
	return nil
}
