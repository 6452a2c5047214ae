package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestInJSONAllOutputIsJSON runs an instance through its whole life, with senders whose keys
// nobody knows, and through starts that fail.
func TestInJSONAllOutputIsJSON(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("tidemill")
	if err != nil {
		t.Fatal(err)
	}
	begin := func(args ...string) (*exec.Cmd, *bytes.Buffer, *bufio.Scanner) {
		cmd := exec.Command(path, append([]string{"run", "--data", t.TempDir()}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TIDEMILL_LOG_FORMAT=json"}
		var out bytes.Buffer
		cmd.Stdout = &out
		cmd.Dir = t.TempDir()
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, &out, bufio.NewScanner(pipe)
	}
	// next reads records up to one that says msg; empty: all that there are.
	next := func(lines *bufio.Scanner, msg string) (all []map[string]any) {
		for lines.Scan() {
			r := map[string]any{}
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r["msg"] == nil || r["level"] == nil {
				t.Fatalf("%q is no record: %v", lines.Text(), err)
			}
			if strings.Contains(lines.Text(), "canary") || strings.Contains(lines.Text(), "tm_") {
				t.Errorf("a key is in the log: %s", lines.Text())
			}
			if all = append(all, r); r["msg"] == msg {
				return all
			}
		}
		if msg != "" {
			t.Fatalf("it never said %q: %v", msg, all)
		}
		return all
	}
	said := func(all []map[string]any, msg string) (n int) {
		for _, r := range all {
			if strings.Contains(r["msg"].(string), msg) {
				n++
			}
		}
		return n
	}
	for name, args := range map[string][]string{
		"with a key": {"analytics", "delivery", "crm", "windows", "--listen", "127.0.0.1:0", "--project", "shop=canary-key-0123456789"},
		"without":    {"--listen", "127.0.0.1:0"},
	} {
		cmd, out, lines := begin(args...)
		first := next(lines, "ready")
		address := ""
		for _, r := range first {
			if r["msg"] == "listening" {
				address = r["address"].(string)
			}
		}
		if said(first, "starting") != 1 || address == "" || (said(first, "there is no project") == 1) != (name == "without") {
			t.Errorf("%s: it starts with %v", name, first)
		}
		for range 12 { // most of them before they are slowed down
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/batch", strings.NewReader(`{"events":[]}`))
			req.Header.Set("x-api-key", "canary-of-nobody")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Fatalf("an unknown key is answered %s", resp.Status)
			}
		}
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if s == syscall.SIGHUP {
				first = append(first, next(lines, "configuration reloaded")...)
			}
		}
		all := append(first, next(lines, "")...)
		if said(all, "requests were refused") != 1 || said(all, "stopping") != 1 || said(all, "stopped") != 1 {
			t.Errorf("%s: it says %v", name, all)
		}
		if err := cmd.Wait(); err != nil || out.Len() > 0 {
			t.Errorf("%s: %v; on standard output: %s", name, err, out)
		}
	}
	for want, args := range map[string][]string{
		"the configuration is wrong": {"--listen", "nowhere"},
		"ended with an error":        {"--listen", "127.0.0.1:0", "--data", os.DevNull + "/none"},
	} {
		cmd, out, lines := begin(args...)
		if all := next(lines, ""); said(all, want) != 1 {
			t.Errorf("run %v: %v", args, all)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 || out.Len() > 0 {
			t.Errorf("run %v: %v; on standard output: %s", args, err, out)
		}
	}
}
