package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems"
)

// hidden is a text with one of each sort of character that cannot be seen.
const hidden = "a\u202eb\u202ac\u2066d\u2069e\u200ef\u061cg\u200bh\u200di\u2060j\ufeffk\u00adl\u180em\u2028n\u2029o\u009bp\U000E0041q\u115fr\u3164s\u034ft\U000E0101u\x1bv\x7fw"

func TestWhatCannotBeSeenIsShown(t *testing.T) {
	for text, want := range map[string]string{
		hidden: "a<U+202E>b<U+202A>c<U+2066>d<U+2069>e<U+200E>f<U+061C>g<U+200B>h<U+200D>i<U+2060>j<U+FEFF>k<U+00AD>l<U+180E>m<U+2028>n<U+2029>o<U+009B>p<U+E0041>q<U+115F>r<U+3164>s<U+034F>t<U+E0101>u<U+001B>v<U+007F>w",
		"Zoë e\u0301 日本 ❤\ufe0f العربية שלום \u00a0": "Zoë e\u0301 日本 ❤\ufe0f العربية שלום \u00a0",
		"👩\u200d🚀":         "👩<U+200D>🚀",
		"a\x9b2Jb\xff":     "a\uFFFD2Jb\uFFFD", // no text: a byte that steers some terminals
		"\u202e\u202d\xc2": "<U+202E><U+202D>\uFFFD",
	} {
		if got := command.Printable(text); got != want {
			t.Errorf("printable(%q) =\n%q, want\n%q", text, got, want)
		}
		var b bytes.Buffer
		w := command.OnScreen(&b)
		for _, c := range []byte(text) { // as it may come: a byte at a time
			if n, err := w.Write([]byte{c}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if _, err := w.Write([]byte("\t|\n")); err != nil || b.String() != want+"\t|\n" {
			t.Errorf("on a screen %q is\n%q, want\n%q (%v)", text, b.String(), want, err)
		}
	}
	if got := command.Printable("a\tb\nc"); got != "a<U+0009>b<U+000A>c" {
		t.Errorf("in one line: %q", got)
	}
}

// On a terminal JSON is escaped, and means the same.
func TestJSONOnAScreenMeansTheSame(t *testing.T) {
	said := "\U0001F680" + hidden
	var b bytes.Buffer
	plain, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	w := &command.Screen{To: &b, Show: command.JsonRune}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(b.String(), command.Unseen) {
		t.Errorf("it has what cannot be seen: %q", b.String())
	}
	var got string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got != said {
		t.Errorf("it means %q, want %q (%v)", got, said, err)
	}
}

// Whatever a command shows of what came from outside, in tables, in details, in errors of the
// API and in the log, nothing of it is left unseen.
func TestNoCommandPrintsWhatCannotBeSeen(t *testing.T) {
	s := newSession(t)
	l := letter(hidden)
	l.Pipeline, l.Cause, l.Row = hidden, hidden, []byte(`{"status":504,"body":"`+strings.ReplaceAll(strings.ReplaceAll(hidden, "\x1b", ""), "\x7f", "")+`"}`)
	l.Message.Type, l.Message.Tenant, l.Message.Payload = hidden, hidden, []byte(hidden)
	l.Message.Header = append(l.Message.Header, tidemill.Field{Name: []byte(hidden), Value: []byte(hidden)})
	s.die(l)
	f := queue.Failure{At: day, Kind: tidemill.Timeout, Cause: hidden}
	err := s.queues.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "j", Tenant: "shop", Type: hidden, Payload: []byte(hidden),
		Header: []tidemill.Field{{Name: []byte(queue.FailuresHeader), Value: f.Append(nil)}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line, status := range map[string]int{
		"dead list": 0, "dead show 1": 0, "queue list": 0, "queue jobs q": 0, "queue show q j": 0,
		"queue show q nix" + hidden: 1, "queue " + hidden: 2, "dead show " + hidden: 0,
		"dead list --pipeline x" + hidden: 0, "dead list --kind x" + hidden: 1,
	} {
		fields := strings.SplitN(strings.ReplaceAll(line, hidden, "HIDDEN"), " ", -1)
		for i := range fields {
			fields[i] = strings.ReplaceAll(fields[i], "HIDDEN", hidden)
		}
		var out, errs bytes.Buffer
		got := run(t.Context(), append(fields, "--server", s.url), command.Env{Table: systems.All(), In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
		all := out.String() + errs.String()
		if got != status {
			t.Errorf("%q: exit status %d, want %d\n%s", line, got, status, all)
		}
		if i := strings.IndexFunc(strings.NewReplacer("\n", "", "\t", "").Replace(all), command.Unseen); i >= 0 {
			t.Errorf("%q prints what cannot be seen:\n%q", line, all)
		}
		if status != 0 && !strings.Contains(strings.ToUpper(all), "202E") {
			t.Errorf("%q does not repeat it: %q", line, all)
		}
	}
	var errs bytes.Buffer
	e := command.Env{Table: systems.All(), Err: command.OnScreen(&errs)}
	command.Logger(config.Log{Level: "info", Format: "text"}, e, false).Warn(hidden, "what", hidden, hidden, 1)
	if got := strings.TrimSuffix(errs.String(), "\n"); strings.ContainsFunc(got, command.Unseen) || !strings.Contains(got, "202e") && !strings.Contains(got, "202E") {
		t.Errorf("the log: %q", got)
	}
}
