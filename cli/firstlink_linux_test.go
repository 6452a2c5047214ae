package cli

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a new one: what is written to its end is read from it.
func terminal(t *testing.T) (at, end *os.File) {
	t.Helper()
	at, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(at.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(at.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		end, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = at.Close(), end.Close() })
	return at, end
}

// started is what tidemill run says until it is ready. Its standard output is out, and its log a file, or
// with a log in JSON out too. It runs until end.
func started(t *testing.T, dir string, from io.Reader, out *os.File, json bool) (said, log string, end func()) {
	t.Helper()
	path, err := exec.LookPath("tidemill")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	cmd := exec.Command(path, "run", "analytics", "--data", dir, "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, t.TempDir()
	if cmd.Stdout, cmd.Stderr = out, file; json {
		cmd.Env, cmd.Stderr = append(cmd.Env, "TIDEMILL_LOG_FORMAT=json"), out
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _, _ = cmd.Process.Signal(syscall.SIGTERM), cmd.Wait() })
	t.Cleanup(end)
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if said += lines.Text() + "\n"; strings.Contains(lines.Text(), "ready") {
			break
		}
	}
	b, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return said, string(b), end
}

var linkSaid = regexp.MustCompile(`console +(http://\S+/console/login)#([a-z2-7]{52}) \(lets you in once, within 10 minutes`)

func TestTheStartOnATerminalShowsALinkThatLetsInOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	at, end := terminal(t)
	said, log, _ := started(t, dir, at, end, false)
	link := linkSaid.FindStringSubmatch(said)
	if link == nil {
		t.Fatalf("it says %q", said)
	}
	if strings.Contains(log, link[2]) {
		t.Errorf("the link is in the log: %s", log)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, link[1], strings.NewReader(url.Values{"link": {link[2]}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = a.Body.Close(); a.StatusCode != want {
			t.Errorf("the link is answered %d, want %d", a.StatusCode, want)
		}
	}
}

func TestTheStartShowsALinkOnATerminalAloneAndToNobodyWhoCanLogIn(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	none := func(why string, from io.Reader, out *os.File, json bool) {
		t.Helper()
		said, log, end := started(t, data, from, out, json)
		if strings.Contains(said+log, "#") || !strings.Contains(said, "ready") {
			t.Errorf("%s it says %s\n%s", why, said, log)
		}
		end()
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = from.Close(), out.Close() })
	at, end := terminal(t)
	none("to a file", from, out, false)
	none("as records", at, end, true)
	add := exec.Command("tidemill", "user", "add", "ada", "--role", "admin", "--data", data)
	add.Stdin = strings.NewReader("open sesame, please\n")
	add.Env, add.Dir = []string{"PATH=" + os.Getenv("PATH")}, t.TempDir()
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at, end = terminal(t)
	none("where there is a user", at, end, false)
}
