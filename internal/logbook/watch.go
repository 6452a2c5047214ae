package logbook

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Open reads docs/logs.md of the module that a test is in.
func Open(t testing.TB) Book {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		page, err := os.ReadFile(filepath.Join(dir, "docs", "logs.md"))
		if err == nil {
			return Read(string(page))
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("there is no docs/logs.md above the folder of the test")
		}
		dir = up
	}
}

// Watch is a logger that fails a test at a record that is not as docs/logs.md says, and passes all to
// another; nil: to nobody.
func Watch(t testing.TB, log *slog.Logger) *slog.Logger {
	t.Helper()
	w := &watch{t: t, book: Open(t), to: slog.DiscardHandler}
	if log != nil {
		w.to = log.Handler()
	}
	return slog.New(w)
}

type watch struct {
	t    testing.TB
	book Book
	to   slog.Handler
	keys []string // of With
}

func (w *watch) Enabled(context.Context, slog.Level) bool { return true }

func (w *watch) Handle(ctx context.Context, r slog.Record) error {
	keys := slices.Clone(w.keys)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "" {
			keys = append(keys, a.Key)
		}
		return true
	})
	if wrong := w.book.Wrong(r.Level.String(), r.Message, keys); wrong != "" && w.t.Context().Err() == nil { // an ended test takes no word
		w.t.Errorf("the log: %s", wrong)
	}
	if !w.to.Enabled(ctx, r.Level) {
		return nil
	}
	return w.to.Handle(ctx, r)
}

func (w *watch) WithAttrs(as []slog.Attr) slog.Handler {
	keys := slices.Clone(w.keys)
	for _, a := range as {
		keys = append(keys, a.Key)
	}
	return &watch{w.t, w.book, w.to.WithAttrs(as), keys}
}

func (w *watch) WithGroup(name string) slog.Handler {
	w.t.Errorf("the log: the group %q: fields of docs/logs.md are in none", name)
	return &watch{w.t, w.book, w.to.WithGroup(name), w.keys}
}

// Line says how a line of the log, as text or JSON, is another than the page says. Lines that are no
// records, as the trace of a crash, are none.
func (b Book) Line(line string) (wrong string) {
	fields := map[string]string{}
	switch {
	case strings.HasPrefix(line, `{"time":`):
		var of map[string]any
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			return "a line is no JSON: " + line
		}
		for key, v := range of {
			fields[key], _ = v.(string)
		}
	case strings.HasPrefix(line, "time="):
		var ok bool
		if fields, ok = pairs(line); !ok {
			return "a line is no record: " + line
		}
	default:
		return ""
	}
	level, name := fields["level"], fields["msg"]
	for _, own := range []string{"time", "level", "msg"} {
		delete(fields, own)
	}
	return b.Wrong(level, name, slices.Sorted(maps.Keys(fields)))
}

// pairs reads a line as slog.TextHandler writes it.
func pairs(line string) (map[string]string, bool) {
	all := map[string]string{}
	for line != "" {
		key, rest, ok := strings.Cut(line, "=")
		if !ok {
			return nil, false
		}
		value := rest
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, false
			}
			if value, err = strconv.Unquote(quoted); err != nil {
				return nil, false
			}
			rest = rest[len(quoted):]
		} else {
			value, rest, _ = strings.Cut(rest, " ")
			rest = " " + rest
		}
		all[key] = value
		line = strings.TrimPrefix(rest, " ")
	}
	return all, true
}
