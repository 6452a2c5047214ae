package main

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// notes are the rules: what a note is, and how it is written. They know neither queue nor HTTP.
type notes struct {
	path    string
	longest int
	written func(n int)

	mu sync.Mutex // guards the file
}

// steps are what is done with a batch of notes.
func (n *notes) steps() flow.Steps[string] {
	return flow.Steps[string]{Decode: n.decode, Stages: []flow.Stage[string]{{Name: "write", Do: n.write, Repeat: true}}}
}

// decode refuses what is no note: it becomes a dead letter at once.
func (n *notes) decode(m *tidemill.Message, text *string) error {
	*text = strings.TrimSpace(string(m.Payload))
	switch letters := utf8.RuneCount(m.Payload); {
	case *text == "" || strings.ContainsAny(*text, "\r\n"):
		return tidemill.Fail(tidemill.Validation, "a note is one line of text")
	case letters > n.longest:
		return tidemill.Fail(tidemill.Validation, "a note of %d letters; %d are allowed", letters, n.longest)
	}
	return nil
}

// write writes a batch with one call, and keeps it on disk before the notes are delivered. A note may be
// there twice after a crash between the two.
func (n *notes) write(_ context.Context, batch []*flow.Item[string]) error {
	var b strings.Builder
	for _, it := range batch {
		b.WriteString(it.Value + "\n")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f, err := os.OpenFile(n.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(b.String())
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		n.written(len(batch))
	}
	return err
}

// last are the last notes, at most so many.
func (n *notes) last(most int) (all []string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, err := os.Open(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if all = append(all, in.Text()); len(all) > most {
			all = all[1:]
		}
	}
	return all, nil
}
