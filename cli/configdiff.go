package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/cli/rehearse"
	"github.com/tidemill/tidemill/connect/system"
)

type configDiffCmd struct {
	Old    string            `arg:"" help:"The configuration file in force." type:"existingfile"`
	New    string            `arg:"" help:"The one to compare with it." type:"existingfile"`
	Events string            `required:"" help:"File of events, a JSON value each; - reads standard input." placeholder:"FILE"`
	System string            `help:"The system of the events, of ${systems}. Default: the one that the files configure."`
	With   map[string]string `help:"What requests say beside their events, such as gpc=true; can be repeated." placeholder:"NAME=VALUE"`
	JSON   bool              `help:"Print JSON: a line for each event that is different, and one at the end."`
}

// Help is shown by tidemill config diff --help.
func (c *configDiffCmd) Help() string {
	return `Each event is run through both configurations, as tidemill config test does: no server is contacted, and nothing is sent. What would become of it otherwise, or would be sent otherwise, is printed:

  tidemill config diff tidemill.yaml next.yaml --events events.jsonl
  tail -n 10000 sent.jsonl | tidemill config diff tidemill.yaml next.yaml --events -

The exit status is 0 if no event is treated otherwise, 1 if some are, and 2 if they could not be compared. Rules that look at other events (windows, duplicates) look at 1,000 at a time.`
}

// diffed is how many events are rehearsed together.
const diffed = 1000

// uncomparable makes the exit status 2.
type uncomparable struct{ error }

func (u uncomparable) Unwrap() error { return u.error }

func (c *configDiffCmd) Run(ctx context.Context, e command.Env) error {
	d := &differ{c: c, e: e}
	err := d.run(ctx)
	switch {
	case err != nil:
		return uncomparable{err}
	case d.out.Changed > 0:
		return errDifferent
	}
	return nil
}

// differ compares what two configurations do with events.
type differ struct {
	c        *configDiffCmd
	e        command.Env
	old, new system.Rehearsal
	events   []system.Incoming
	places   []string
	out      struct {
		Events  int `json:"events"`
		Changed int `json:"changed"`
	}
}

func (d *differ) run(ctx context.Context) error {
	if err := d.rehearsals(); err != nil {
		return err
	}
	in, name := d.e.In, "standard input"
	if d.c.Events != "-" {
		f, err := os.Open(d.c.Events)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in, name = io.Reader(f), d.c.Events
	}
	var bad error
	err := command.ReadEvents(in, name, func(raw []byte, place string) error {
		if bad != nil {
			return bad
		}
		d.events, d.places = append(d.events, system.Incoming{Body: bytes.Clone(raw), With: d.c.With}), append(d.places, place)
		if len(d.events) < diffed {
			return nil
		}
		return d.compare(ctx)
	}, func(place, why string) {
		if bad == nil {
			bad = fmt.Errorf("%s: %s", place, why)
		}
	})
	if err == nil {
		err = bad
	}
	if err == nil {
		err = d.compare(ctx)
	}
	if err != nil {
		return err
	}
	if d.c.JSON {
		return command.PrintJSON(d.e.Out, d.out)
	}
	said := "No event of %d would be treated otherwise.\n"
	if d.out.Changed > 0 {
		said = fmt.Sprintf("%d", d.out.Changed) + " of %d events would be treated otherwise.\n"
	}
	_, err = fmt.Fprintf(d.e.Out, said, d.out.Events)
	return err
}

// rehearsals are those of both files. Their events come in at one time.
func (d *differ) rehearsals() error {
	name, now := d.c.System, time.Now()
	for i, file := range []string{d.c.Old, d.c.New} {
		s := command.Settings{Config: file}
		cfg, err := s.LoadToLook(d.e)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if name == "" {
			all := d.e.Table.Configured(cfg)
			if len(all) != 1 {
				return command.UsageError{Err: fmt.Errorf("%s configures %d systems: say with --system which one the events are of", file, len(all))}
			}
			name = all[0]
		}
		r, err := rehearse.Rehearsal(d.e.Table, name, cfg, now)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if i == 0 {
			d.old = r
		} else {
			d.new = r
		}
	}
	return nil
}

// compare compares what becomes of the events that were read.
func (d *differ) compare(ctx context.Context) error {
	if len(d.events) == 0 {
		return nil
	}
	before, err := d.old(ctx, d.events)
	after, err2 := d.new(ctx, d.events)
	if err = errors.Join(err, err2); err != nil {
		return fmt.Errorf("of the events from %s on: %w", d.places[0], err)
	}
	for i := range d.events {
		var all []rehearse.Difference
		if err := rehearse.Differences(before[i], after[i], func(one rehearse.Difference) { all = append(all, one) }); err != nil {
			return fmt.Errorf("%s: %w", d.places[i], err)
		}
		if err := d.print(d.places[i], all); err != nil {
			return err
		}
	}
	d.out.Events += len(d.events)
	d.events, d.places = d.events[:0], d.places[:0]
	return nil
}

// changed is how one event is treated otherwise.
type changed struct {
	Place       string  `json:"place"`
	Differences []other `json:"differences"`
}

// other is a difference under the new configuration.
type other struct {
	At   string `json:"at"`
	Path string `json:"path,omitempty"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

func (d *differ) print(place string, all []rehearse.Difference) error {
	if len(all) == 0 {
		return nil
	}
	d.out.Changed++
	out := changed{Place: place}
	for _, one := range all {
		out.Differences = append(out.Differences, other{one.At, one.Path, one.Want, one.Is})
		if d.c.JSON {
			continue
		}
		if _, err := fmt.Fprintf(d.e.Out, "%s: %s: %s, would be %s\n", place, one.Where(), one.Want, one.Is); err != nil {
			return err
		}
	}
	if d.c.JSON {
		return command.PrintJSON(d.e.Out, out)
	}
	return nil
}
