package analyticscli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
)

type sendCmd struct {
	command.Remote
	File string `arg:"" optional:"" help:"Events in the native format, one JSON object a line. Default, or -: standard input." type:"path"`
	api.InProject
	Quiet bool `help:"No progress." short:"q"`
}

// Help is shown by tidemill send --help.
func (c *sendCmd) Help() string {
	return `An event needs a name and a distinct id; the rest is optional:

  {"event": "signed_up", "distinct_id": "user-1", "properties": {"plan": "free"}}
  {"event": "$identify", "distinct_id": "user-1", "anonymous_id": "anon-7", "user_properties": {"email": "a@example.com"}}

  tidemill send events.ndjson
  producer | tidemill send --project shop

Events counted as accepted are durable. Events with an "event_id" (a UUID) can be sent again without harm: known ones are duplicates and change nothing. A refused event does not stop the others; the exit status is then 1.`
}

func (c *sendCmd) Run(ctx context.Context, e command.Env) error {
	in := e.In
	if c.File != "" && c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		s := sending{to: a, project: c.InProject, progress: command.NewProgress(e, c.Quiet || c.JSON, "events", -1), sum: analyticsapi.Sent{Reasons: []string{}}}
		err := s.all(ctx, bufio.NewReaderSize(in, command.SendBatch))
		s.progress.End()
		if c.JSON {
			if perr := command.PrintJSON(e.Out, s.sum); perr != nil {
				return perr
			}
		} else {
			s.print(e)
		}
		if err == nil && s.sum.Refused > 0 {
			err = fmt.Errorf("%s refused; the others are accepted", command.Count(s.sum.Refused, "event was", "events were"))
		}
		return err
	})
}

// sending is the state of one tidemill send.
type sending struct {
	to       *command.Client
	project  api.InProject
	progress *command.Progress
	batch    bytes.Buffer
	sum      analyticsapi.Sent
}

// print says what became of the events.
func (s *sending) print(e command.Env) {
	_, _ = fmt.Fprintf(e.Out, "%s accepted, %s, %d refused.\n", command.Count(s.sum.Accepted, "event", "events"), command.Count(s.sum.Duplicates, "duplicate", "duplicates"), s.sum.Refused)
	command.PrintReasons(e, "refused:", s.sum.Reasons, s.sum.Refused)
	if !s.to.Live && s.sum.Accepted > 0 {
		_, _ = fmt.Fprintln(e.Out, "Nothing runs: they wait for `tidemill run`.")
	}
}

// all sends every line, many in a request.
func (s *sending) all(ctx context.Context, in *bufio.Reader) error {
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			s.refuse(fmt.Sprintf("line %d is longer than 1 MiB", n))
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			line = nil
		}
		if s.batch.Len()+len(line) > command.SendBatch {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
		s.batch.Write(line)
		if errors.Is(err, io.EOF) {
			return s.flush(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("read line %d: %w", n, err), s.flush(ctx))
		}
	}
}

// flush sends the lines collected.
func (s *sending) flush(ctx context.Context) error {
	if s.batch.Len() == 0 {
		return nil
	}
	got, err := analyticsapi.SendEvents.Call(ctx, &s.to.Client, &analyticsapi.SentEvents{InProject: s.project, Body: bytes.NewReader(s.batch.Bytes())})
	if said, ok := errors.AsType[*operation.Problem](err); ok && said.Done != nil {
		err = errors.Join(err, json.Unmarshal(said.Done, &got))
	}
	s.sum.Accepted += got.Accepted
	s.sum.Duplicates += got.Duplicates
	for _, r := range got.Reasons {
		s.refuse(r)
	}
	s.sum.Refused += got.Refused - len(got.Reasons) // those without a reason
	s.progress.Set(s.sum.Accepted + s.sum.Duplicates + s.sum.Refused)
	s.batch.Reset()
	return err
}

func (s *sending) refuse(why string) {
	s.sum.Refused++
	command.KeepReason(&s.sum.Reasons, why)
}
