package logbook

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/golden"
)

var root = filepath.Join("..", "..")

// TestTheReference holds the records of the product to their rules, and docs/logs.md to the records.
func TestTheReference(t *testing.T) {
	all, wrong, err := Find(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
	used := map[string]bool{}
	for _, r := range all {
		for _, f := range r.Fields {
			used[f] = true
		}
	}
	for key := range known {
		if !used[key] {
			t.Errorf("no record has the field %q: take it out of keys.go", key)
		}
	}
	page, file := Page(all), filepath.Join(root, "docs", "logs.md")
	if !golden.Update() || !t.Failed() {
		golden.Same(t, file, []byte(page))
	}
	if book := Read(page); len(book) != len(all) {
		t.Errorf("the page has %d records that can be read, want %d", len(book), len(all))
	}
}

const planted = `package planted

import (
	"context"
	"log/slog"
)

func planted(ctx context.Context, log *slog.Logger, name string) {
`

func TestWhatARecordMustNotBeIsSeen(t *testing.T) {
	const said = "// Logged when it is.\n"
	const both = said + "// To do: nothing.\n"
	for _, c := range []struct{ code, want string }{
		{said + `log.Info("it is", "queue", name)`, ""},
		{said + `log.InfoContext(ctx, "it is", slog.Int("count", 1))`, ""},
		{said + `log.LogAttrs(ctx, slog.LevelDebug, "it is", slog.Int("count", 1))`, ""},
		{"// Words before.\n" + both + `log.Warn("it is")`, ""},
		{both + `log.With("system", name).Error("it is")`, ""},
		{said + `any(log).(interface{ Info(string, ...any) }).Info(name)`, "no literal"},
		{said + `log.Info("it is " + name)`, "no literal"},
		{said + `log.Info(name)`, "no literal"},
		{said + `log.Info("")`, "no literal"},
		{said + `log.LogAttrs(ctx, slog.Level(3), "it is")`, "no constant"},
		{`log.Info("it is")`, "no comment above says when"},
		{said + "\n" + `log.Info("it is")`, "no comment above says when"},
		{"// Written when it is.\n" + `log.Info("it is")`, "no comment above says when"},
		{said + `log.Warn("it is")`, "what to do"},
		{said + `log.ErrorContext(ctx, "it is")`, "what to do"},
		{both + `log.Info("it is")`, "only info"},
		{"// Logged when it is\n" + `log.Info("it is")`, "sentence"},
		{said + `log.Info("it is", "nonsense", 1)`, `"nonsense" is not known`},
		{said + `log.Info("it is", slog.Int("nonsense", 1))`, `"nonsense" is not known`},
		{said + `log.Info("it is", name, 1)`, "a key that is no literal"},
		{said + `log.Info("it is", []any{"count", 1}...)`, "a key that is no literal"},
		{said + `log.Info("it is", "count")`, "has no value"},
		{said + `log.Info("it is", "count", 1, "count", 2)`, "twice"},
		{`_ = log.With("count", 1)`, `"count" is not known`},
		{`f := log.Warn; f("it is")`, "passed on"},
		{`slog.Info("it is")`, "slog.Info"},
		{`_ = slog.Default()`, "slog.Default"},
		{`_ = slog.NewLogLogger(nil, 0)`, "slog.NewLogLogger"},
		{`_ = slog.Record{Message: name}`, "by hand"},
		{`_ = func(l *slog.Logger) {}`, "called l"},
		{`_ = errors.New(name).Error()`, ""},
		{`_ = kafka.Error(nil, "it is")`, ""},
	} {
		code := strings.Replace(planted, `"log/slog"`, `"log/slog"`+"\n\t\"errors\"\n\t\"x/kafka\"", 1) + c.code + "\n}\n"
		_, wrong, err := find("flow/planted.go", "planted.go", code)
		got := strings.Join(wrong, "; ")
		if err != nil || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, %v, want %q", c.code, got, err, c.want)
		}
	}
	if _, wrong, _ := find("nowhere/planted.go", "planted.go", planted+said+"log.Info(\"it is\")\n}\n"); len(wrong) != 1 || !strings.Contains(wrong[0], "of no part") {
		t.Errorf("a record of no part: %q", wrong)
	}
	for code, want := range map[string]string{`import "log"; func a() { log.Println("it is") }`: "package log", `import . "log/slog"`: "with a dot"} {
		if _, wrong, _ := find("flow/planted.go", "planted.go", "package planted; "+code); len(wrong) != 1 || !strings.Contains(wrong[0], want) {
			t.Errorf("%s: %q, want %q", code, wrong, want)
		}
	}
}

func TestOneNameIsWrittenInOnePlace(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b.go"} {
		if err := os.MkdirAll(filepath.Join(dir, "flow"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "flow", name), []byte(planted+"// Logged when it is.\nlog.Info(\"it is\")\n}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, wrong, err := Find(dir); err != nil || len(wrong) != 1 || !strings.Contains(wrong[0], "flow/b.go:10: \"it is\" is written at flow/a.go:10 too") {
		t.Errorf("%q, %v", wrong, err)
	}
}

// taker is a test that keeps what it is told.
type taker struct {
	testing.TB
	told []string
}

func (t *taker) Errorf(format string, args ...any) { t.told = append(t.told, format) }

func TestWhatIsWrittenIsHeldToThePage(t *testing.T) {
	for _, c := range []struct {
		log  func(*slog.Logger)
		want int
	}{
		{func(log *slog.Logger) { log.Info("ready", "took", time.Second) }, 0},
		{func(log *slog.Logger) { log.With("system", "api", "request", "r").Info("ready", "took", "a b=\"c\"") }, 0},
		{func(log *slog.Logger) { log.Info("stopping", slog.Attr{}, "why", "it ends") }, 0},
		{func(log *slog.Logger) { log.Warn("ready", "took", time.Second) }, 1},
		{func(log *slog.Logger) { log.Info("ready now", "took", time.Second) }, 1},
		{func(log *slog.Logger) { log.Info("ready", "count", 1) }, 1},
		{func(log *slog.Logger) { log.With("count", 1).Info("ready", "took", time.Second) }, 1},
	} {
		told := &taker{TB: t}
		var text, js bytes.Buffer
		c.log(Watch(told, slog.New(slog.NewMultiHandler(slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&js, nil)))))
		if len(told.told) != c.want {
			t.Errorf("%d are told, want %d: %s", len(told.told), c.want, &text)
		}
		for _, line := range []string{text.String(), js.String()} {
			if wrong := Open(t).Line(strings.TrimSuffix(line, "\n")); (wrong != "") != (c.want > 0) {
				t.Errorf("%s is %q, want wrong %v", line, wrong, c.want > 0)
			}
		}
	}
	if wrong := Open(t).Line("goroutine 1 [running]:"); wrong != "" {
		t.Error(wrong)
	}
}
