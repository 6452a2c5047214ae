package windowscli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

type windowSendCmd struct {
	aboutWindows
	Files   []string `arg:"" optional:"" name:"file" help:"Files of records: one JSON object a line, one after another, or arrays; or GDELT files, known by their names. Default, or -: standard input." type:"path"`
	Batch   string   `help:"Batch id: its records belong together. Default for a GDELT file: the batch id in its name." placeholder:"ID"`
	Kind    string   `help:"What the records are: event or mention. The name of a GDELT file says it." enum:",event,mention" default:"" placeholder:"event|mention"`
	Project string   `help:"Project of the batch, by name or id. Default: windows.project of the configuration." placeholder:"NAME"`
	Expect  int      `help:"How many records the batch will have, all kinds together: its window closes when they are there." placeholder:"N"`
	Quiet   bool     `help:"No progress." short:"q"`
}

// Help is shown by tidemill window send --help.
func (c *windowSendCmd) Help() string {
	return `A record has a globalEventId, and any other field of GDELT's events and mentions; unknown fields are ignored:

  {"globalEventId": 1234567890, "day": 20250323, "actor1Name": "PROTESTER", "numMentions": 10}
  {"globalEventId": 1234567890, "mentionTimeDate": 20250323151500, "mentionIdentifier": "https://example.com/a", "sentenceId": 3}

  tidemill window send events.ndjson --batch 20250323151500 --kind event
  tidemill window send 20250323151500.export.CSV.zip 20250323151500.mentions.CSV
  producer | tidemill window send --batch today --kind mention

Records counted as stored are durable, and are delivered when the window is over; tidemill window close BATCH closes it at once. The same records can be sent again without harm: within a window they replace themselves. A refused record does not stop the others; the exit status is then 1. A damaged GDELT file is not sent at all.`
}

const (
	windowBatchBytes   = 1 << 20 // of records in one request
	windowBatchRecords = 1000    // of one request
)

// recordFile is a file of records that was looked at.
type recordFile struct {
	name  string
	path  string      // empty: standard input
	gdelt *gdelt.Name // nil: JSON
	batch string
	kind  string
}

func (c *windowSendCmd) Run(ctx context.Context, e command.Env) error {
	if c.Expect < 0 {
		return command.UsageError{Err: fmt.Errorf("--expect wants a number of records, not %d", c.Expect)}
	}
	names := c.Files
	if len(names) == 0 {
		names = []string{"-"}
	}
	var files []recordFile
	rows := 0                    // below 0: nobody knows
	for _, name := range names { // all are looked at before anything is sent
		f, n, err := c.look(e, name)
		if err != nil {
			return err
		}
		if files = append(files, f); f.gdelt == nil {
			rows = -1
		} else if rows >= 0 {
			rows += n
		}
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		s := windowSending{to: a, project: c.Project, expect: c.Expect, sum: windowSent{Reasons: []string{}}, progress: command.NewProgress(e, c.Quiet || c.JSON, "records", rows)}
		var err error
		for i := range files {
			err = errors.Join(err, s.file(ctx, e, &files[i]))
			if s.cut || ctx.Err() != nil {
				break
			}
		}
		s.progress.End()
		return errors.Join(s.print(e, c.JSON), err, s.failure())
	})
}

// look says what a file is, and how many rows of GDELT it has. One that cannot be sent as a
// whole is refused.
func (c *windowSendCmd) look(e command.Env, name string) (f recordFile, rows int, err error) {
	f = recordFile{name: name, path: name, batch: c.Batch, kind: c.Kind}
	if name == "-" {
		f.name, f.path = "standard input", ""
	} else if info, err := os.Stat(name); err != nil {
		return f, 0, err
	} else if info.IsDir() {
		return f, 0, fmt.Errorf("%s is a folder: name the files in it, or let `tidemill run` read it: windows.files.folder of the configuration", name)
	}
	if n, ok := gdelt.ParseName(filepath.Base(name)); ok && f.path != "" {
		if c.Kind != "" && c.Kind != n.Kind.String() {
			return f, 0, command.UsageError{Err: fmt.Errorf("%s has records of kind %s, says its name: leave --kind out", name, n.Kind)}
		}
		found, err := gdelt.Check(name, n, gdelt.Limits{})
		if err != nil {
			return f, 0, fmt.Errorf("%s: %w", name, err)
		}
		if found.Idless > 0 {
			_, _ = fmt.Fprintf(e.Err, "%s: %s no id and cannot be sent.\n", name, command.Count(int(found.Idless), "row has", "rows have"))
		}
		if f.gdelt, f.kind = &n, n.Kind.String(); f.batch == "" {
			f.batch = n.Batch
		}
		rows = int(found.Rows)
	}
	switch err := record.CheckBatchID(f.batch); {
	case f.batch == "":
		return f, 0, command.UsageError{Err: fmt.Errorf("say which batch the records of %s belong to: --batch ID", f.name)}
	case err != nil:
		return f, 0, command.UsageError{Err: fmt.Errorf("--batch: %w", err)}
	case f.kind == "":
		return f, 0, command.UsageError{Err: fmt.Errorf("say what the records of %s are: --kind event or --kind mention", f.name)}
	}
	return f, rows, nil
}

// windowSent is what became of records.
type windowSent struct {
	Stored     int      `json:"stored"`
	Duplicates int      `json:"duplicates"`
	Refused    int      `json:"refused"`
	Reasons    []string `json:"reasons"` // why, of the first of them
}

// windowSending is the state of one tidemill window send.
type windowSending struct {
	to       *command.Client
	project  string // empty: that of the configuration
	expect   int
	progress *command.Progress
	from     *recordFile // whose records are in batch
	batch    command.Batch
	sum      windowSent
	cut      bool // nothing can be sent any more
}

// file sends the records of one file.
func (s *windowSending) file(ctx context.Context, e command.Env, f *recordFile) (err error) {
	s.from = f
	if f.gdelt != nil {
		err = s.rows(ctx, f)
	} else {
		in := e.In
		if f.path != "" {
			file, err := os.Open(f.path)
			if err != nil {
				return err
			}
			defer file.Close()
			in = file
		}
		err = command.ReadEvents(in, f.name, func(raw []byte, place string) error { return s.add(ctx, raw, place) }, s.refuse)
	}
	if !s.cut {
		err = errors.Join(err, s.flush(ctx))
	}
	return err
}

// rows sends the rows of a GDELT file.
func (s *windowSending) rows(ctx context.Context, f *recordFile) error {
	in, err := gdelt.Open(f.path, *f.gdelt, gdelt.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	defer in.Close()
	var line []byte
	for {
		switch err := in.Next(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", f.name, err)
		}
		line = in.AppendJSON(line[:0])
		if err := s.add(ctx, line, fmt.Sprintf("%s, line %d", f.name, in.Line())); err != nil {
			return err
		}
	}
}

// add takes a record, and sends those collected where there is no room for it.
func (s *windowSending) add(ctx context.Context, raw []byte, place string) error {
	if s.batch.Full(raw, windowBatchRecords, windowBatchBytes) {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.batch.Add(raw, place)
	return nil
}

// flush sends the records collected.
func (s *windowSending) flush(ctx context.Context) error {
	if len(s.batch.Places) == 0 {
		return nil
	}
	got, err := windowsapi.SendRecords.Call(ctx, &s.to.Client, &windowsapi.SentRecords{Batch: s.from.batch, Kind: s.from.kind, Project: s.project, Expect: s.expect, Body: s.batch.Array()})
	if err == nil && got.Stored+got.Duplicates+len(got.Refused) != len(s.batch.Places) {
		err = fmt.Errorf("%s answered for %d of %d records: %w", s.to.Base, got.Stored+got.Duplicates+len(got.Refused), len(s.batch.Places), operation.ErrStranger)
	}
	if err != nil {
		s.cut = true
		return fmt.Errorf("from %s on no record is known to be stored; send all again, stored ones are replaced: %w", s.batch.Places[0], err)
	}
	s.sum.Stored += got.Stored
	s.sum.Duplicates += got.Duplicates
	for _, r := range got.Refused {
		place := strconv.Itoa(r.Index)
		if r.Index >= 0 && r.Index < len(s.batch.Places) {
			place = s.batch.Places[r.Index]
		}
		s.refuse(place, r.Error)
	}
	s.progress.Set(s.sum.Stored + s.sum.Duplicates + s.sum.Refused)
	s.batch.Reset()
	return nil
}

func (s *windowSending) refuse(place, why string) {
	s.sum.Refused++
	command.KeepReason(&s.sum.Reasons, place+": "+why)
}

// failure is what is wrong with the whole where single records were refused.
func (s *windowSending) failure() error {
	if s.sum.Refused == 0 {
		return nil
	}
	return fmt.Errorf("%s refused; the others were not held up", command.Count(s.sum.Refused, "record was", "records were"))
}

// print says what became of the records.
func (s *windowSending) print(e command.Env, asJSON bool) error {
	if asJSON {
		return command.PrintJSON(e.Out, s.sum)
	}
	_, err := fmt.Fprintf(e.Out, "%s stored, %s, %d refused.\n", command.Count(s.sum.Stored, "record", "records"), command.Count(s.sum.Duplicates, "duplicate", "duplicates"), s.sum.Refused)
	command.PrintReasons(e, "refused:", s.sum.Reasons, s.sum.Refused)
	if !s.to.Live && s.sum.Stored > 0 {
		_, _ = fmt.Fprintln(e.Out, "Nothing runs: their windows wait for `tidemill run`.")
	}
	return err
}
