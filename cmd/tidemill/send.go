package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

type sendCmd struct {
	remote
	File    string `arg:"" optional:"" help:"Events in the native format, one JSON object a line. Default, or -: standard input." type:"path"`
	Project string `help:"Project, by name or id. May be left out where there is one." placeholder:"NAME"`
	Quiet   bool   `help:"No progress bar." short:"q"`
}

// Help is shown by tidemill send --help.
func (c *sendCmd) Help() string {
	return `An event needs a name and a distinct id; the rest may be left out:

  {"event": "signed_up", "distinct_id": "user-1", "properties": {"plan": "free"}}
  {"event": "$identify", "distinct_id": "user-1", "anonymous_id": "anon-7", "user_properties": {"email": "a@example.com"}}

What it prints as accepted is durable. Events that carry an "event_id" can be sent again without harm.`
}

// sendBatch is how many bytes of events go into one request.
const sendBatch = 1 << 20

func (c *sendCmd) Run(ctx context.Context, e env) error {
	in, size := e.in, int64(-1)
	if c.File != "" && c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		if s, err := f.Stat(); err == nil {
			size = s.Size()
		}
		in = f
	}
	bar := io.Writer(io.Discard)
	if f, ok := e.err.(*os.File); ok && !c.Quiet && !c.JSON && term.IsTerminal(int(f.Fd())) {
		b := progressbar.NewOptions64(size, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription("sending"),
			progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish())
		defer b.Finish()
		bar = b
	}
	return c.ask(ctx, e, func(a *client) error {
		accepted, refused, err := c.all(ctx, a, bufio.NewReaderSize(in, sendBatch), bar)
		if c.JSON {
			if perr := printJSON(e.out, map[string]any{"accepted": accepted, "refused": refused}); perr != nil {
				return perr
			}
		} else {
			_, _ = fmt.Fprintf(e.out, "%d events accepted, %d refused.\n", accepted, len(refused))
			for _, r := range refused[:min(len(refused), 10)] {
				_, _ = fmt.Fprintln(e.err, "refused:", printable(r))
			}
		}
		if err == nil && len(refused) > 0 {
			err = fmt.Errorf("%d events were refused", len(refused))
		}
		return err
	})
}

// all sends every line, many in a request.
func (c *sendCmd) all(ctx context.Context, a *client, in *bufio.Reader, bar io.Writer) (accepted int, refused []string, err error) {
	refused = []string{}
	var batch bytes.Buffer
	flush := func() error {
		if batch.Len() == 0 {
			return nil
		}
		resp, err := a.do(ctx, http.MethodPost, "events", query("project", c.Project), bytes.NewReader(batch.Bytes()))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var got struct {
			Accepted int
			Refused  []string
		}
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			return err
		}
		accepted, refused = accepted+got.Accepted, append(refused, got.Refused...)
		_, _ = bar.Write(batch.Bytes())
		batch.Reset()
		return nil
	}
	for {
		line, err := in.ReadBytes('\n')
		batch.Write(line)
		if err == io.EOF {
			return accepted, refused, flush()
		}
		if err != nil {
			return accepted, refused, err
		}
		if batch.Len() >= sendBatch {
			if err := flush(); err != nil {
				return accepted, refused, err
			}
		}
	}
}
