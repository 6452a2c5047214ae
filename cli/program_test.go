package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// programIn is a command in a folder, with no instance to be found.
func programIn(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("tidemill")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TIDEMILL_LISTEN=127.0.0.1:1")
	return cmd
}

// must runs a command to its end.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := programIn(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tidemill %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails runs a command that must not succeed.
func fails(t *testing.T, dir, want string, args ...string) {
	t.Helper()
	if out, err := programIn(t, dir, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("tidemill %s: %v, %s; want %q", strings.Join(args, " "), err, out, want)
	}
}
