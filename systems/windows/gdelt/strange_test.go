//go:build unix

package gdelt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

// A folder that others write to may have links to foreign files, and pipes that never end.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	row := func(text string) []byte { return []byte("1000" + strings.Repeat("\t", 60) + text + "\n") }
	name := func(n int) string { return fmt.Sprintf("2025032315150%d.export.CSV", n) }
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, name(0)), row("mine"), 0o600),
		os.WriteFile(filepath.Join(elsewhere, name(1)), row("secret"), 0o600),
		os.Symlink(filepath.Join(elsewhere, name(1)), filepath.Join(dir, name(1))),
		os.Symlink(elsewhere, filepath.Join(dir, name(2))),
		unix.Mkfifo(filepath.Join(dir, name(3)), 0o600),
		os.Mkdir(filepath.Join(dir, name(4)), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := gdelt.NewFolder(dir, tableprogress.Memory(tableprogress.Options{}), letters(t), gdelt.Options{Quiet: -1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for range 3 {
		if err := s.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reading, err := s.Reading(t.Context())
	if err != nil || len(reading) != 1 || reading[0].Name != name(0) || s.Unread() != 3 {
		t.Errorf("it reads %v (%v), and not %d; want %s alone, and 3 not", reading, err, s.Unread(), name(0))
	}
	if strings.Count(log.String(), "are not read") != 1 || !strings.Contains(log.String(), "count=3") {
		t.Errorf("the log:\n%s", &log)
	}

	// One replaces a file that was listed and accepted.
	path := filepath.Join(dir, name(0))
	for what, put := range map[string]func() error{
		"a link": func() error { return os.Symlink(filepath.Join(elsewhere, name(1)), path) },
		"a pipe": func() error { return unix.Mkfifo(path, 0o600) },
	} {
		if err := errors.Join(os.Remove(path), put()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		into := make([]*tidemill.Message, 1)
		into[0] = new(tidemill.Message)
		got := make(chan error, 1)
		go func() {
			n, err := s.Receive(ctx, into)
			if n > 0 {
				err = fmt.Errorf("it hands out %s", into[0].Payload)
			}
			got <- err
		}()
		for {
			reading, err := s.Reading(t.Context())
			if err != nil || len(reading) != 1 {
				t.Fatalf("%s: %v %v", what, reading, err)
			}
			if strings.Contains(reading[0].Trouble, "no regular file") {
				break
			}
			select {
			case err := <-got:
				t.Fatalf("%s: Receive ended: %v", what, err)
			default:
			}
		}
		cancel()
		if err := <-got; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
