//go:build unix

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// terminal is a command that keeps running in its own terminal.
type terminal struct {
	command string
	pid     int
	out     string   // the file of its output
	shown   int      // lines of its output that were compared
	ended   bool     // by the page
	want    []string // its expected first output
}

// open runs a command in its own terminal and waits for its first output.
func (s *session) open(st step) error {
	term := &terminal{command: aside.ReplaceAllString(st.text, ""), out: filepath.Join(s.t.TempDir(), "terminal"), want: st.output}
	lines, err := s.do(fmt.Sprintf("%s </dev/null >%s 2>&1 &\necho $!", s.here(term.command), term.out))
	if err != nil {
		return err
	}
	if term.pid, err = strconv.Atoi(strings.TrimSpace(lines[len(lines)-1])); err != nil {
		return fmt.Errorf("start %s: %w", term.command, err)
	}
	s.terms = append(s.terms, term)
	want := term.want
	ctrlC := slices.Index(want, "^C")
	if ctrlC >= 0 {
		want = want[:ctrlC]
	}
	if !st.outputShown && strings.Contains(term.command, "tidemill run") {
		if err := s.ready(term); err != nil {
			return err
		}
	}
	differs := s.shows(term, want, st.marks)
	if key := ingestKey.FindString(read(term.out)); key != "" {
		if _, err := s.do("KEY=" + key + "; export KEY"); err != nil {
			return err
		}
	}
	if differs != nil {
		return differs
	}
	if ctrlC >= 0 {
		if err := s.end(term); err != nil {
			return err
		}
		return s.shows(term, term.want[ctrlC+1:], st.marks)
	}
	return nil
}

// saysReady is what an instance prints, in words or in its log, when it accepts requests.
var saysReady = regexp.MustCompile(`(?m)^ready|"msg":"ready"`)

// ready waits for an instance whose output the page does not show: the next command is for it.
func (s *session) ready(term *terminal) error {
	for deadline := time.Now().Add(patience); !saysReady.MatchString(read(term.out)); time.Sleep(pause) {
		if over := syscall.Kill(term.pid, 0) != nil; over || time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready:\n%s", term.command, term.last())
		}
	}
	return nil
}

// shows waits until a terminal has printed these lines after the compared ones.
func (s *session) shows(term *terminal, want []string, m marks) error {
	want = trimBlank(want)
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		all := slices.DeleteFunc(strings.Split(strings.TrimSuffix(s.there(read(term.out)), "\n"), "\n"), logRecord.MatchString)
		got := all[min(term.shown, len(all)):]
		n := len(got)
		if !slices.Contains(want, "…") && len(got) > 0 {
			n = min(len(trimBlank(got)), len(want)) + len(got) - len(trimLeading(got))
		}
		err := compare(want, got[:min(n, len(got))], m)
		if err == nil {
			term.shown += n
			return nil
		}
		if over := syscall.Kill(term.pid, 0) != nil; over || time.Now().After(deadline) {
			s.t.Logf("the terminal of %s ends with\n%s", term.command, term.last())
			return &difference{want, trimBlank(got), 0}
		}
	}
}

func trimLeading(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	return lines
}

// last is the last output of a terminal.
func (term *terminal) last() string { return indented(strings.Split(tail(read(term.out)), "\n")) }

func (s *session) prints(st step) error {
	term, err := s.find(st.name)
	if err != nil {
		return err
	}
	return s.shows(term, st.output, st.marks)
}

// find is the newest terminal with such a command.
func (s *session) find(command string) (*terminal, error) {
	for _, term := range slices.Backward(s.terms) {
		if !term.ended && strings.Contains(term.command, command) {
			return term, nil
		}
	}
	return nil, fmt.Errorf("nothing runs that is %q", command)
}

func (s *session) stop(command string) error {
	term, err := s.find(command)
	if err != nil {
		return err
	}
	return s.end(term)
}

// end is Ctrl-C in a terminal: the command must end without error.
func (s *session) end(term *terminal) error {
	if err := syscall.Kill(-term.pid, syscall.SIGINT); err != nil {
		return fmt.Errorf("%s ended by itself:\n%s", term.command, term.last())
	}
	term.ended = true
	if _, err := s.do(fmt.Sprintf("wait %d", term.pid)); err != nil {
		return fmt.Errorf("Ctrl-C in the terminal of %s: %w:\n%s", term.command, err, term.last())
	}
	return nil
}

// endAll ends the session: the newest terminal first.
func (s *session) endAll() error {
	for _, term := range slices.Backward(s.terms) {
		if term.ended {
			continue
		}
		if err := s.end(term); err != nil {
			return err
		}
	}
	return nil
}

// killed runs a command while another is killed.
func (s *session) killed(st step) error {
	term, err := s.find(st.kill)
	if err != nil {
		return err
	}
	after, err := time.ParseDuration(st.killAfter)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(after) // a fault at a moment, not a wait
		_ = syscall.Kill(-term.pid, syscall.SIGKILL)
	})
	term.ended = true
	out, _ := s.do(s.here(st.text)) // the page shows that it fails
	wg.Wait()
	if _, err := s.do(fmt.Sprintf("wait %d || true", term.pid)); err != nil {
		return err
	}
	return compare(st.output, out, st.marks)
}

func read(file string) string {
	b, _ := os.ReadFile(file)
	return string(b)
}

func tail(text string) string { return text[max(0, len(text)-4<<10):] }
