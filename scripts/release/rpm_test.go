package main

import (
	"os"
	"testing"

	rpmutils "github.com/sassoftware/go-rpmutils"
)

// TestPackageOfRedHat reads the package as rpm does.
func TestPackageOfRedHat(t *testing.T) {
	r := shared(t)
	f, err := os.Open(r.name("linux_" + host.arch + ".rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rpm, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := rpm.Header.GetNEVRA(); err != nil || is.Name != "tidemill" || is.Version != "0.1.0" {
		t.Errorf("it is %v (%v)", is, err)
	}
	files, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, f := range files {
		owners[f.Name()] = f.UserName() + " " + f.GroupName()
	}
	for name, want := range map[string]string{"/usr/bin/tidemill": "root root", "/etc/tidemill/tidemill.yaml": "root tidemill", "/var/lib/tidemill": "tidemill tidemill", "/usr/share/zsh/site-functions/_tidemill": "root root", "/usr/share/man/man1/tidemill.1": "root root"} {
		if owners[name] != want {
			t.Errorf("%s is of %q, want %q", name, owners[name], want)
		}
	}
	for _, tag := range []int{rpmutils.PREIN, rpmutils.POSTIN, rpmutils.PREUN, rpmutils.POSTUN} {
		if script, err := rpm.Header.GetString(tag); err != nil || script == "" {
			t.Errorf("it has no script %d (%v)", tag, err)
		}
	}
}
