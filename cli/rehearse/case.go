// Package rehearse tests what a configuration decides: it runs the events of cases through the
// rehearsals of systems, which have no effect, and compares what would become of them with what is
// expected, or with what would become of them under another configuration.
package rehearse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/connect/system"
)

// caseFile is the file of a case beside its input.
const caseFile = "case.json"

// A Case is a folder with the input of one system, and a file that says what is expected.
type Case struct {
	Folder string
	System string
	Events []system.Incoming
	Places []string // of the events: file and line
	Given
	Expects bool // Given was read
}

// Given is the content of a case's file.
type Given struct {
	At     time.Time         `json:"at"`             // when the events come in
	With   map[string]string `json:"with,omitempty"` // what requests say beside
	Events []Expected        `json:"events"`
}

// Expected is what becomes of an event.
type Expected struct {
	Ends    map[string]string          `json:"ends"`              // by place; all of them
	Outputs map[string]json.RawMessage `json:"outputs,omitempty"` // by place; those that matter
}

// Cases finds the cases in a folder, itself included, in the order of their names. All that is wrong
// with them is in the error.
func Cases(folder string, table system.Table) (all []*Case, err error) {
	var errs []error
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		c, err := read(path, table)
		switch {
		case err != nil:
			errs = append(errs, err)
		case c != nil:
			all = append(all, c)
		}
		return nil
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no case: a case is a folder with a file of events that is named after a system, such as %s.json", folder, table[0].Name)
	}
	return all, nil
}

// read reads the case in a folder; nil: there is none.
func read(folder string, table system.Table) (*Case, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	c, input := &Case{Folder: folder}, ""
	for _, f := range entries {
		name, ext, _ := strings.Cut(f.Name(), ".")
		switch {
		case f.IsDir():
		case f.Name() == caseFile:
			c.Expects = true
		case slices.Contains(table.Names(), name) && ext != "" && input != "":
			return nil, fmt.Errorf("%s: it has %s and %s: a case has one file of events", folder, filepath.Base(input), f.Name())
		case slices.Contains(table.Names(), name) && ext != "":
			c.System, input = name, filepath.Join(folder, f.Name())
		}
	}
	if input == "" {
		if c.Expects {
			return nil, fmt.Errorf("%s: there is no file of events beside it, which is named after one of the systems %s, such as %s.json", filepath.Join(folder, caseFile), strings.Join(table.Names(), ", "), table[0].Name)
		}
		return nil, nil
	}
	if c.Expects {
		if err := c.given(filepath.Join(folder, caseFile)); err != nil {
			return nil, err
		}
	}
	return c, c.input(input)
}

// given reads the file of a case.
func (c *Case) given(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = jsonv2.Unmarshal(b, &c.Given, jsonv2.RejectUnknownMembers(true))
	at := int64(0)
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = syntax.ByteOffset, fmt.Errorf("it is no JSON: %w", syntax.Err)
	} else if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		at = wrong.ByteOffset
		if err = fmt.Errorf("%s: want a %s", wrong.JSONPointer, wrong.GoType); errors.Is(wrong, jsonv2.ErrUnknownName) {
			err = fmt.Errorf("there is no %s; there is at, with, and events with ends and outputs", wrong.JSONPointer.LastToken())
		}
	}
	if err != nil {
		return fmt.Errorf("%s, line %d: %w", path, 1+bytes.Count(b[:min(int(at), len(b))], []byte("\n")), err)
	}
	return nil
}

// input reads the events of a case: of .json, .jsonl and .ndjson each JSON value, byte for byte, of any
// other file all its bytes as one.
func (c *Case) input(path string) error {
	switch filepath.Ext(path) {
	case ".json", ".jsonl", ".ndjson":
	default:
		b, err := os.ReadFile(path)
		c.Events, c.Places = []system.Incoming{{Body: b, With: c.With}}, []string{path}
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var errs []error
	err = command.ReadEvents(f, path, func(raw []byte, place string) error {
		c.Events = append(c.Events, system.Incoming{Body: bytes.Clone(raw), With: c.With})
		c.Places = append(c.Places, place)
		return nil
	}, func(place, why string) { errs = append(errs, fmt.Errorf("%s: %s", place, why)) })
	if err = errors.Join(append(errs, err)...); err == nil && len(c.Events) == 0 {
		return fmt.Errorf("%s: it has no event", path)
	}
	return err
}

// Record writes what became of the events as what is expected.
func (c *Case) Record(became [][]system.End) error {
	c.Given.Events = nil
	for _, ends := range became {
		e := Expected{Ends: map[string]string{}}
		for _, end := range ends {
			e.Ends[end.At] = end.End
			if end.Output == nil {
				continue
			}
			if e.Outputs == nil {
				e.Outputs = map[string]json.RawMessage{}
			}
			e.Outputs[end.At] = end.Output
		}
		c.Given.Events = append(c.Given.Events, e)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c.Given); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Folder, caseFile), b.Bytes(), 0o644)
}
