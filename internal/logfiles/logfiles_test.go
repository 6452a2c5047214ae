package logfiles_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/logfiles"
)

// clock can be set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) days(n int)     { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.AddDate(0, 0, n) }

func open(t *testing.T, o logfiles.Options) *logfiles.Files {
	t.Helper()
	f, err := logfiles.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func in(t *testing.T, folder string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func lines(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		all = append(all, line)
	}
	return all
}

func TestEachLevelHasItsFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	c := &clock{at: time.Date(2026, 1, 15, 23, 0, 0, 0, time.UTC)}
	f := open(t, logfiles.Options{Folder: folder, Level: slog.LevelDebug, Keep: logfiles.Default(), Now: c.now})
	log := slog.New(f).With("system", "crm").WithGroup("event")
	log.Debug("a", "id", 1)
	log.Info("b", "id", 2)
	log.Warn("c", "id", 3)
	log.Error("d", "id", 4)
	log.Log(t.Context(), slog.LevelDebug-4, "below the level")
	log.Log(t.Context(), slog.LevelError+8, "fatal", "id", 5)
	want := []string{"debug-2026-01-15.log", "error-2026-01-15.log", "info-2026-01-15.log", "warn-2026-01-15.log"}
	if got := in(t, folder); !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
	for i, level := range []string{"debug", "info", "warn"} {
		l := lines(t, filepath.Join(folder, level+"-2026-01-15.log"))
		if len(l) != 1 || l[0]["system"] != "crm" || l[0]["event"].(map[string]any)["id"] != float64(i+1) {
			t.Errorf("%s: %v", level, l)
		}
	}
	if l := lines(t, filepath.Join(folder, "error-2026-01-15.log")); len(l) != 2 || l[1]["msg"] != "fatal" {
		t.Errorf("errors: %v", l)
	}
	if s, err := os.Stat(filepath.Join(folder, want[0])); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", s.Mode(), err)
	}
}

func TestEachLevelIsKeptForItsTime(t *testing.T) {
	folder := t.TempDir()
	c := &clock{at: time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)}
	f := open(t, logfiles.Options{Folder: folder, Level: slog.LevelDebug, Keep: logfiles.Default(), Now: c.now})
	log := slog.New(f)
	if err := os.WriteFile(filepath.Join(folder, "error-notes.log"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, day := range []struct {
		days int // since the first
		want string
	}{
		{7, "debug info warn error"}, {8, "info warn error"}, {30, "info warn error"}, {31, "warn error"},
		{90, "warn error"}, {91, "error"}, {365, "error"}, {366, ""},
	} {
		c.mu.Lock()
		c.at = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
		c.mu.Unlock()
		log.Debug("x")
		log.Info("x")
		log.Warn("x")
		log.Error("x")
		c.days(day.days)
		again := open(t, logfiles.Options{Folder: folder, Keep: logfiles.Default(), Now: c.now}) // sweeps
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, level := range []string{"debug", "info", "warn", "error"} {
			if _, err := os.Stat(filepath.Join(folder, level+"-2026-01-15.log")); err == nil {
				got = append(got, level)
			}
		}
		if s := strings.Join(got, " "); s != day.want {
			t.Errorf("after %d days there are %q, want %q", day.days, s, day.want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		f = open(t, logfiles.Options{Folder: folder, Level: slog.LevelDebug, Keep: logfiles.Default(), Now: c.now})
		log = slog.New(f)
	}
	if !slices.Contains(in(t, folder), "error-notes.log") {
		t.Error("a file that is none of the log's was removed")
	}
}

func TestOldFilesGoWhileNothingIsWritten(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f, err := logfiles.Open(logfiles.Options{Folder: folder, Level: slog.LevelDebug, Keep: logfiles.Default()})
		if err != nil {
			t.Fatal(err)
		}
		slog.New(f).Debug("x")
		first := in(t, folder)
		time.Sleep(7 * 24 * time.Hour)
		synctest.Wait()
		if got := in(t, folder); !slices.Equal(got, first) {
			t.Errorf("after 7 days there is %q", got)
		}
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if got := in(t, folder); len(got) > 0 {
			t.Errorf("after 8 days there is %q", got)
		}
		slog.New(f).Debug("and it goes on")
		if got := in(t, folder); len(got) != 1 || got[0] == first[0] {
			t.Errorf("then there is %q", got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFilesAreBounded(t *testing.T) {
	folder := t.TempDir()
	const most = 64 << 10
	f := open(t, logfiles.Options{Folder: folder, Keep: logfiles.Default(), Most: most})
	log := slog.New(f)
	text := strings.Repeat("x", 500)
	for n := range 1000 {
		log.Info(text, "n", n)
	}
	log.Error("kept")
	var sum int64
	newest := 0.0
	for _, name := range in(t, folder) {
		s, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "info-") {
			sum += s.Size()
			for _, l := range lines(t, filepath.Join(folder, name)) {
				newest = max(newest, l["n"].(float64))
			}
		}
	}
	if sum > most || sum < most/2 || newest != 999 {
		t.Errorf("%d bytes are kept, up to line %v; want about %d, up to the last", sum, newest, most)
	}
	if len(lines(t, filepath.Join(folder, "error-"+time.Now().UTC().Format(time.DateOnly)+".log"))) != 1 {
		t.Error("a level took the room of another")
	}
}

func TestItGoesOnWhereItWas(t *testing.T) {
	folder := t.TempDir()
	for range 3 {
		f := open(t, logfiles.Options{Folder: folder, Keep: logfiles.Default()})
		slog.New(f).Info("x")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		slog.New(f).Info("after the end")
	}
	if got := in(t, folder); len(got) != 1 || len(lines(t, filepath.Join(folder, got[0]))) != 3 {
		t.Errorf("files %q", got)
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	var mu sync.Mutex
	var told []error
	f := open(t, logfiles.Options{Folder: folder, Keep: logfiles.Default(), Failed: func(err error) { mu.Lock(); defer mu.Unlock(); told = append(told, err) }})
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	log := slog.New(f)
	log.Info("lost")
	log.Info("lost")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	log.Info("kept")
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 2 || !errors.Is(told[0], os.ErrNotExist) || told[1] != nil {
		t.Errorf("told %v, want once that it fails, and once that it does no more", told)
	}
	if _, err := logfiles.Open(logfiles.Options{Folder: folder}); err == nil {
		t.Error("files that are kept for no day were opened")
	}
}

func TestManyWriters(t *testing.T) {
	folder := t.TempDir()
	f := open(t, logfiles.Options{Folder: folder, Keep: logfiles.Default(), Most: 1 << 20})
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 200 {
				slog.New(f).Info("x")
			}
		})
	}
	g.Wait()
	n := 0
	for _, name := range in(t, folder) {
		n += len(lines(t, filepath.Join(folder, name)))
	}
	if n != 1600 {
		t.Errorf("%d lines, want 1600", n)
	}
}
