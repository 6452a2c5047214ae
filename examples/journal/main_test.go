package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/golden"
	"github.com/tidemill/tidemill/serve/api/apitest"
)

// TestMain is the program itself where a test has it run.
func TestMain(m *testing.M) {
	if os.Getenv("JOURNAL_IS_RUN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheDocumentIsThatOfTheOperations(t *testing.T) {
	golden.Same(t, "openapi.json", apitest.Document(t, new(operations).all(), nil))
}

// program runs the program in folders of a test's own.
type program struct {
	*testing.T
	dir string
}

func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "JOURNAL_IS_RUN=1", "TIDEMILL_DATA="+filepath.Join(p.dir, "data"))
	return cmd
}

// wants runs a command and wants this to be in what it prints.
func (p *program) wants(command string, parts ...string) {
	p.Helper()
	out, err := p.command(p.Context(), strings.Split(command, "|")...).CombinedOutput()
	for _, part := range parts {
		if !bytes.Contains(out, []byte(part)) {
			p.Errorf("%s: %v, without %q:\n%s", command, err, part, out)
		}
	}
}

// start runs the journal, and returns where it listens and the key that it made.
func (p *program) start(ctx context.Context) (url, key string, wait func() error) {
	p.Helper()
	cmd := p.command(ctx, "run", name, "--listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	var said strings.Builder
	for in := bufio.NewScanner(out); in.Scan(); {
		said.WriteString(in.Text() + "\n")
		if strings.HasPrefix(in.Text(), "ready.") {
			break
		}
	}
	found := regexp.MustCompile(`(?s)listening +(http://\S+).*\n +(tm_\S+)\n.*journal add 'the kettle is on'`).FindStringSubmatch(said.String())
	if found == nil {
		p.Fatalf("it says no address, key or first note:\n%s", &said)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return found[1], found[2], cmd.Wait
}

// TestASystemOfItsOwn tries all that a system brings to a program.
func TestASystemOfItsOwn(t *testing.T) {
	p := &program{t, t.TempDir()}
	p.wants("init|tidemill.yaml", "")
	if b, err := os.ReadFile(filepath.Join(p.dir, "tidemill.yaml")); err != nil || !bytes.Contains(b, []byte("#longest: 280")) || !bytes.Contains(b, []byte("JOURNAL_FILE")) {
		t.Errorf("the settings are not in the file of init: %v", err)
	}
	p.wants("--help", "Of journal:", "journal list")
	ctx, stop := context.WithCancel(t.Context())
	url, key, wait := p.start(ctx)
	server := "|--server|" + url

	p.wants("journal|add|the kettle is on"+server, "The note is durable.")
	for text, status := range map[string]int{"it boils": 202, strings.Repeat("long ", 100): 202, "": 202} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", key)
		a, err := http.DefaultClient.Do(r)
		if err != nil || a.StatusCode != status {
			t.Errorf("a note of %d letters is answered %v, %v; want %d", len(text), a, err, status)
		}
	}
	p.settles(server)
	p.wants("journal|list"+server, "the kettle is on", "it boils")
	p.wants("journal|list|-n|1|--json"+server, `{"text":`)
	p.wants("dead|list"+server, "a note of 500 letters", "a note is one line")
	p.wants("queue|list"+server, name)
	p.wants("doctor"+server, "journal file")
	p.wants("status"+server, name, replays)
	p.wants("audit"+server, "The books balance: every accepted note is accounted for.")
	p.get(url+"/metrics", "journal_notes_written_total 2", `tidemill_books_accepted{pipeline="journal"} 4`, `journal_notes_taken_total{`)
	p.get(url+"/api/v1/openapi.json", `"addNote"`, `"replayDead"`)
	stop()
	if err := wait(); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	p.wants("journal|list", "the kettle is on") // its data are opened where nothing runs
}

// settles waits until no note is in flight.
func (p *program) settles(server string) {
	p.Helper()
	for range 100 {
		out, _ := p.command(p.Context(), strings.Split("audit|journal|--json"+server, "|")...).Output()
		if bytes.Contains(out, []byte(`"accepted":4`)) && bytes.Contains(out, []byte(`"in_flight":0`)) {
			return
		}
		time.Sleep(50 * time.Millisecond) // another process
	}
	p.Fatal("notes are in flight for ever")
}

// get wants an answer to have this.
func (p *program) get(url string, parts ...string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, url, nil)
	if err != nil {
		p.Fatal(err)
	}
	if token, err := os.ReadFile(filepath.Join(p.dir, "data", "api.token")); err == nil {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	for _, part := range parts {
		if err != nil || !bytes.Contains(b, []byte(part)) {
			p.Errorf("%s answers %d, %v, without %q:\n%.3000s", url, a.StatusCode, err, part, b)
		}
	}
}
