//go:build install

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestPackageOfDebian installs the package on this machine, runs it as its user, upgrades, removes
// and purges it. The machine must have no tidemill of its own: nothing is touched if it has one.
func TestPackageOfDebian(t *testing.T) {
	if _, err := os.Stat(marker); err == nil { // a test that was killed
		cleanUp()
	}
	for _, path := range []string{"/etc/tidemill", "/var/lib/tidemill", "/usr/bin/tidemill"} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Fatalf("%s is there: this machine has a tidemill of its own", path)
		}
	}
	if _, err := user.Lookup("tidemill"); err == nil {
		t.Fatal("there is a user tidemill")
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cleanUp)
	first, second := shared(t), newer(t)
	file := func(r *release) string { return r.name("linux_" + host.arch + ".deb") }

	if out := does(t, "dpkg", "-i", file(first)); !strings.Contains(out, "systemctl enable --now tidemill") {
		t.Errorf("dpkg -i says no next step:\n%s", out)
	}
	owned(t, "/etc/tidemill/tidemill.env", "root root 600")
	owned(t, "/etc/tidemill/tidemill.yaml", "root tidemill 640")
	owned(t, "/var/lib/tidemill", "tidemill tidemill 700")
	does(t, "systemd-analyze", "verify", "/usr/lib/systemd/system/tidemill.service")
	if out := does(t, "man", "-w", "tidemill-dead-list"); !strings.Contains(out, "/usr/share/man/man1/") {
		t.Errorf("man -w = %s", out)
	}
	accepts(t, 1)

	const edited = "/etc/tidemill/tidemill.env"
	if err := os.WriteFile(edited, []byte("TIDEMILL_LOG_FORMAT=text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	does(t, "dpkg", "-i", file(second))
	if out := does(t, "tidemill", "--version"); out != "tidemill 0.2.0\n" {
		t.Errorf("after the upgrade it is %s", out)
	}
	if text, err := os.ReadFile(edited); err != nil || string(text) != "TIDEMILL_LOG_FORMAT=text\n" {
		t.Errorf("the upgrade made %q of the configuration (%v)", text, err)
	}
	accepts(t, 2) // the event of before is still there

	does(t, "dpkg", "-r", "tidemill")
	there(t, edited, true)
	there(t, "/usr/bin/tidemill", false)
	if out := does(t, "dpkg", "-P", "tidemill"); !strings.Contains(out, "The data stays in /var/lib/tidemill") {
		t.Errorf("dpkg -P does not say what stays:\n%s", out)
	}
	there(t, "/etc/tidemill", false)
	there(t, "/usr/lib/systemd/system/tidemill.service", false)
	there(t, "/var/lib/tidemill/tidemill.db", true)
}

// newer has the packages of the version after, and nothing else.
func newer(t *testing.T) *release {
	t.Helper()
	r := *shared(t)
	r.version, r.out = "0.2.0", filepath.Join(t.TempDir(), "dist")
	if err := r.stage(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if err := r.packages(host); err != nil {
		t.Fatal(err)
	}
	return &r
}

// marker is there while the test uses the machine.
const marker = "/var/tmp/tidemill-package-test"

// cleanUp removes what the test has left, at any point of it.
func cleanUp() {
	_ = exec.Command("dpkg", "--purge", "tidemill").Run() // fails if it is not installed
	_ = os.RemoveAll("/var/lib/tidemill")
	_ = os.RemoveAll("/etc/tidemill")
	_ = exec.Command("userdel", "tidemill").Run() // fails if there is none
	_ = os.Remove(marker)
}

// accepts runs the installed program as the unit does, sends an event, and counts those that were
// ever accepted.
func accepts(t *testing.T, want int) {
	t.Helper()
	u, err := user.Lookup("tidemill")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	as := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/usr/bin/tidemill", args...)
		cmd.Dir, cmd.Env = "/var/lib/tidemill", []string{"TIDEMILL_DATA=/var/lib/tidemill", "TIDEMILL_CONFIG=/etc/tidemill/tidemill.yaml", "TIDEMILL_LISTEN=127.0.0.1:0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		cmd.Stderr = t.Output()
		return cmd
	}
	server := as("run")
	at := started(t, server)
	send := as("send", "--server", at)
	send.Stdin = strings.NewReader(`{"event": "installed", "distinct_id": "machine-1"}`)
	if out, err := send.Output(); err != nil || !strings.HasPrefix(string(out), "1 event accepted") {
		t.Errorf("send: %v\n%s", err, out)
	}
	out, err := as("audit", "--server", at).Output()
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), fmt.Sprintf("accepted %d ", want)) {
		t.Errorf("want %d accepted events: %v\n%s", want, err, out)
	}
	stopped(t, server)
}

func does(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func owned(t *testing.T, path, want string) {
	t.Helper()
	if got := strings.TrimSpace(does(t, "stat", "-c", "%U %G %a", path)); got != want {
		t.Errorf("%s is of %s, want %s", path, got, want)
	}
}

func there(t *testing.T, path string, want bool) {
	t.Helper()
	if _, err := os.Lstat(path); (err == nil) != want {
		t.Errorf("%s: is there %v, want %v", path, err == nil, want)
	}
}
