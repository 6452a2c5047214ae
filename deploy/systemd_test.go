//go:build linux

package deploy_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/test/process"
)

// TestTheUnitRunsEverySystemInSystemd starts a real systemd, as the first process of namespaces of
// its own, with the unit as it is shipped: user, limits, filters of system calls and all. Each
// system is configured in /etc/tidemill, started, sent an event, and stopped in order. It is left out
// where a machine lets no second systemd run.
func TestTheUnitRunsEverySystemInSystemd(t *testing.T) {
	testenv.Need(t)
	d := newSystemd(t)
	port := testenv.FreePort(t)
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(partner.Close)
	there := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port})
	there.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // it is starting
	for _, system := range systems.All().Names() {
		t.Run(system, func(t *testing.T) {
			d := &systemd{T: t, folder: d.folder, pid: d.pid}
			w := serviced(t, system, "SHOP_KEY", "PARTNER_TOKEN", "CLUB_KEY")
			w.env["TIDEMILL_LISTEN"], w.env["TIDEMILL_BRIDGE_BROKER_LISTEN"] = "127.0.0.1:"+port, "127.0.0.1:"+testenv.FreePort(t)
			w.env["TIDEMILL_WINDOWS_WINDOW"], w.env["TIDEMILL_WINDOWS_SWEEP"] = "300ms", "50ms"
			text, err := os.ReadFile(w.file)
			if err != nil {
				t.Fatal(err)
			}
			d.configure(w.env, strings.Replace(string(text), "endpoint: https://partner.example.com/events", fmt.Sprintf("endpoint: %s\n      allowHttp: true\n      allowPrivate: [127.0.0.0/8]", partner.URL), 1)+
				"\nprojects: [{name: shop, key: "+key+"}]\n")
			d.systemctl("start", "tidemill")
			await(t, there, "tidemill_build_info")
			if system != "bridge" { // which reads it at its start
				d.systemctl("reload", "tidemill")
			}
			send(t, there, firsts[system])
			await(t, there, firsts[system].through)
			d.systemctl("stop", "tidemill")
			if state := d.systemctl("show", "tidemill", "-p", "Result,ExecMainStatus,NRestarts"); state != "NRestarts=0\nExecMainStatus=0\nResult=success\n" && state != "Result=success\nNRestarts=0\nExecMainStatus=0\n" {
				t.Errorf("it ended with %s", state)
			}
		})
	}
}

// systemd is one that runs, in namespaces of its own.
type systemd struct {
	*testing.T
	folder string
	pid    int // of it, as this process sees it
	output strings.Builder
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	for _, needed := range []string{"unshare", "nsenter", "useradd", "/lib/systemd/systemd"} {
		if _, err := exec.LookPath(needed); err != nil || os.Getuid() != 0 {
			t.Skip("it takes root, systemd and util-linux")
		}
	}
	binary, err := process.Binary()
	if err != nil {
		t.Fatal(err)
	}
	d := &systemd{T: t, folder: t.TempDir()}
	for _, target := range []string{"default", "sysinit", "basic", "shutdown", "multi-user", "network-online"} {
		d.write("units/"+target+".target", "[Unit]\nDefaultDependencies=no\n")
	}
	unit, err := os.ReadFile("systemd/tidemill.service")
	if err != nil {
		t.Fatal(err)
	}
	d.write("units/tidemill.service", string(unit))
	d.configure(nil, "")
	if err := os.Symlink(binary, filepath.Join(d.folder, "tidemill")); err != nil {
		t.Fatal(err)
	}
	d.groups()
	cmd := exec.Command("sh", "testdata/systemd.sh", d.folder)
	cmd.Stdout, cmd.Stderr = &d.output, &d.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // with it its child, and with that all in its namespaces
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(d.output.String())
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // nobody tells of another's namespace
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		if d.pid, err = strconv.Atoi(strings.TrimSpace(string(children))); err == nil {
			if out, err := d.run("is-system-running"); err == nil {
				return d
			} else if time.Now().After(end) {
				t.Skipf("this machine lets no second systemd run: %v\n%s\n%s", err, out, d.output.String())
			}
		} else if time.Now().After(end) {
			t.Skipf("this machine lets no second systemd run: %s", d.output.String())
		}
	}
}

// write writes a file of the folder.
func (d *systemd) write(name, text string) {
	d.Helper()
	path := filepath.Join(d.folder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		d.Fatal(err)
	}
}

// configure writes what /etc/tidemill has.
func (d *systemd) configure(env map[string]string, text string) {
	d.Helper()
	var lines strings.Builder
	for name, value := range env {
		fmt.Fprintf(&lines, "%s=%s\n", name, value)
	}
	d.write("etc/tidemill.env", lines.String())
	d.write("etc/tidemill.yaml", text)
}

// groups makes a control group in each hierarchy of the machine, for all that this systemd starts.
func (d *systemd) groups() {
	d.Helper()
	const root = "/sys/fs/cgroup"
	parents := []string{root}
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		if parents, err = filepath.Glob(root + "/*"); err != nil {
			d.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(d.folder, "groups"), 0o755); err != nil {
		d.Fatal(err)
	}
	name := testenv.Name("tidemill-test-")
	for i, parent := range parents {
		info, err := os.Lstat(parent)
		if _, has := os.Stat(parent + "/cgroup.procs"); errors.Join(err, has) != nil || info.Mode()&fs.ModeSymlink != 0 {
			continue // another name of a hierarchy, or an empty folder
		}
		group := filepath.Join(parent, name)
		if err := os.Mkdir(group, 0o755); err != nil {
			d.Skip("no control group can be made here: ", err)
		}
		if err := os.Symlink(group, filepath.Join(d.folder, "groups", strconv.Itoa(i))); err != nil {
			d.Fatal(err)
		}
		for _, set := range []string{"cpuset.cpus", "cpuset.mems"} { // of the first version, empty at first
			if of, err := os.ReadFile(filepath.Join(parent, set)); err == nil && len(parents) > 1 {
				_ = os.WriteFile(filepath.Join(group, set), of, 0o644)
			}
		}
		d.Cleanup(func() { d.remove(group) })
	}
}

// remove removes a control group and those in it, once their processes are gone.
func (d *systemd) remove(group string) {
	var all []string
	_ = filepath.WalkDir(group, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for i := len(all) - 1; i >= 0; i-- {
		for end := time.Now().Add(5 * time.Second); os.Remove(all[i]) != nil; time.Sleep(10 * time.Millisecond) { // the kernel tells nobody
			if time.Now().After(end) {
				d.Errorf("the control group %s stays", all[i])
				break
			}
		}
	}
}

// run runs systemctl beside this systemd.
func (d *systemd) run(args ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(d.pid), "-m", "-p", "-C", "systemctl"}, args...)...).CombinedOutput()
	return string(out), err
}

// systemctl does so, and it has to succeed.
func (d *systemd) systemctl(args ...string) string {
	d.Helper()
	out, err := d.run(args...)
	if err != nil {
		status, _ := d.run("status", "tidemill", "--no-pager")
		d.Fatalf("systemctl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, status)
	}
	return out
}
