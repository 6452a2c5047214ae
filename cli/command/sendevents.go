package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

const (
	batchBytes  = 1 << 20 // of events in one request
	batchEvents = 500     // of one request
)

// EventsIn are the files of events that a command sends.
type EventsIn struct {
	Files []string `arg:"" optional:"" name:"file" help:"Files of events: one JSON object a line, one after another, or arrays. Default, or -: standard input." type:"path"`
	Quiet bool     `help:"No progress." short:"q"`
}

// Send sends the events by an operation that answers with a result for each.
func (c *EventsIn) Send(ctx context.Context, e Env, to *Remote, by operation.Operation[api.EventsBody, api.EventResults]) error {
	files := c.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, f := range files { // all are looked at before anything is sent
		s, err := os.Stat(f)
		switch {
		case f == "-":
		case err != nil:
			return err
		case s.IsDir():
			return fmt.Errorf("%s is a folder: name the files in it", f)
		}
	}
	return to.Ask(ctx, e, func(a *Client) error {
		s := eventSending{to: a, by: by, progress: NewProgress(e, c.Quiet || to.JSON, "events", -1), sum: eventsSent{Reasons: []string{}}}
		var err error
		for _, f := range files {
			err = errors.Join(err, s.file(ctx, e, f))
			if s.cut || ctx.Err() != nil {
				break
			}
		}
		if !s.cut {
			err = errors.Join(err, s.flush(ctx))
		}
		s.progress.End()
		return errors.Join(s.print(e, to.JSON), err, s.failure())
	})
}

// eventsSent is what became of events.
type eventsSent struct {
	Accepted   int      `json:"accepted"`
	Duplicates int      `json:"duplicates"`
	Rejected   int      `json:"rejected"`
	Reasons    []string `json:"reasons"` // why, of the first of them
}

// eventSending is the state of sending events.
type eventSending struct {
	to       *Client
	by       operation.Operation[api.EventsBody, api.EventResults]
	progress *Progress
	batch    Batch
	sum      eventsSent
	cut      bool // nothing can be sent any more
}

// file sends the events of one file.
func (s *eventSending) file(ctx context.Context, e Env, name string) error {
	in := e.In
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return ReadEvents(in, name, func(raw []byte, place string) error { return s.add(ctx, raw, place) }, s.reject)
}

// add takes an event, and sends those collected where there is no room for it.
func (s *eventSending) add(ctx context.Context, raw []byte, place string) error {
	if s.batch.Full(raw, batchEvents, batchBytes) {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.batch.Add(raw, place)
	return nil
}

// flush sends the events collected.
func (s *eventSending) flush(ctx context.Context) error {
	if len(s.batch.Places) == 0 {
		return nil
	}
	got, err := s.by.Call(ctx, &s.to.Client, &api.EventsBody{Body: s.batch.Array()})
	if err == nil && len(got.Results) != len(s.batch.Places) {
		err = fmt.Errorf("%s answered for %d of %d events: %w", s.to.Base, len(got.Results), len(s.batch.Places), operation.ErrStranger)
	}
	if err != nil {
		s.cut = true
		return fmt.Errorf("from %s on no event is known to be accepted; send all again, known ones are duplicates: %w", s.batch.Places[0], err)
	}
	for i, r := range got.Results {
		switch r.Status {
		case "accepted":
			s.sum.Accepted++
		case "duplicate":
			s.sum.Duplicates++
		default:
			s.reject(s.batch.Places[i], whyRejected(&r))
		}
	}
	s.progress.Set(s.sum.Accepted + s.sum.Duplicates + s.sum.Rejected)
	s.batch.Reset()
	return nil
}

// whyRejected is what is wrong with an event.
func whyRejected(r *api.EventResult) string {
	var all []string
	if r.ID != "" {
		all = append(all, "event "+r.ID)
	}
	if r.Error == nil {
		r.Error = new(api.EventError)
	}
	for _, p := range r.Error.Problems {
		all = append(all, strings.TrimSpace(p.Path+" "+p.Message)+" (allowed: "+p.Allowed+")")
	}
	if len(r.Error.Problems) == 0 {
		all = append(all, r.Error.Code)
	}
	return strings.Join(all, ": ")
}

func (s *eventSending) reject(place, why string) {
	s.sum.Rejected++
	KeepReason(&s.sum.Reasons, place+": "+why)
}

// failure is what is wrong with the whole where single events were rejected.
func (s *eventSending) failure() error {
	if s.sum.Rejected == 0 {
		return nil
	}
	return fmt.Errorf("%s rejected; the others were not held up", Count(s.sum.Rejected, "event was", "events were"))
}

// print says what became of the events.
func (s *eventSending) print(e Env, asJSON bool) error {
	if asJSON {
		return PrintJSON(e.Out, s.sum)
	}
	_, err := fmt.Fprintf(e.Out, "%s accepted, %s, %d rejected.\n", Count(s.sum.Accepted, "event", "events"), Count(s.sum.Duplicates, "duplicate", "duplicates"), s.sum.Rejected)
	PrintReasons(e, "rejected:", s.sum.Reasons, s.sum.Rejected)
	if !s.to.Live && s.sum.Accepted > 0 {
		_, _ = fmt.Fprintln(e.Out, "Nothing runs: they wait for `tidemill run`.")
	}
	return err
}
