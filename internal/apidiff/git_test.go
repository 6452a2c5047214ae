package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const description = "serve/api/openapi.json"

// repository is one of git, in a folder of the test.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r repository) git(args ...string) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_COMMITTER_DATE=2027-01-01T09:00:00Z", "GIT_AUTHOR_DATE=2027-01-01T09:00:00Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// write changes the description where it is checked out.
func (r repository) write(text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, filepath.FromSlash(description))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// commit makes one of what is there, with tags.
func (r repository) commit(tags ...string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "a change")
	for _, tag := range tags {
		r.git("tag", tag)
	}
}

// compared is what comparing says, and why it fails: everything, as text.
func (r repository) compared() string {
	var out bytes.Buffer
	err := compare(&out, r.dir, description, today)
	if err != nil {
		return err.Error()
	}
	return out.String()
}

// without is the description without an operation.
func without(t *testing.T, id string) string {
	return changed(t, said, `"`+id+`"`, `"`+id+`Other"`)
}

func TestTheDescriptionIsComparedWithThatOfTheLastRelease(t *testing.T) {
	r := newRepository(t)
	r.write(said)
	r.commit()
	if got := r.compared(); got != "apidiff: there is no release yet: the API was compared with nothing\n" {
		t.Errorf("without a release: %q", got)
	}
	r.write(without(t, "listDead"))
	r.commit("v0.1.0", "v0.9.0", "v0.11.0-rc.1", "nightly")
	r.write(said)
	r.commit("v0.10.0")
	if got := r.compared(); got != "" {
		t.Errorf("at a release: %q", got)
	}
	r.git("checkout", "-q", "-b", "elsewhere")
	r.write(without(t, "getDead"))
	r.commit("v7.0.0")
	r.git("checkout", "-q", "main")
	r.commit("v0.2.0")
	r.write(changed(t, said, `"/api/v1/old":`, `"/api/v1/new": {"get": {"operationId": "getNew"}}, "/api/v1/old":`))
	if got := r.compared(); got != "" {
		t.Errorf("with one more: %q", got)
	}
	r.write(changed(t, without(t, "getDead"), `"default": "event"`, `"default": "mention"`))
	got := r.compared()
	for _, want := range []string{"clients of v0.10.0 notice 2 changes:\n  getDead: GET /api/v1/dead/{letter} is gone, and", "\n  listDead: the parameter family (query) is mention", "GoingAway"} {
		if !strings.Contains(got, want) {
			t.Errorf("with a break that is not even committed: %q has no %q", got, want)
		}
	}
	r.write(changed(t, said, `"x-cost": "normal"`, `"x-deprecated": "2026-12-31", "x-sunset": "2027-07-01"`))
	if got := r.compared(); !strings.Contains(got, "the release of 2027-01-01 did not say so") {
		t.Errorf("with the time of the release: %q", got)
	}
	r.write("{")
	if got := r.compared(); !strings.HasPrefix(got, description+": ") {
		t.Errorf("with a description that is none: %q", got)
	}
}

func TestAReleaseWithoutADescriptionIsComparedWithNothing(t *testing.T) {
	r := newRepository(t)
	r.commit("v0.1.0")
	r.write(said)
	if got := r.compared(); got != "apidiff: v0.1.0 has no serve/api/openapi.json: the API was compared with nothing\n" {
		t.Errorf("%q", got)
	}
}

func TestACloneWithoutHistorySaysSo(t *testing.T) {
	r := newRepository(t)
	r.write(said)
	r.commit("v1.0.0")
	r.write(without(t, "listDead"))
	r.commit()
	shallow := repository{t, filepath.Join(t.TempDir(), "clone")}
	r.git("clone", "-q", "--depth", "1", "file://"+filepath.ToSlash(r.dir), shallow.dir)
	if got := shallow.compared(); got != "apidiff: no release is known in this clone, which is shallow: the API was compared with nothing\n" {
		t.Errorf("%q", got)
	}
	if got := (repository{t, t.TempDir()}).compared(); !strings.HasPrefix(got, "git tag: ") {
		t.Errorf("where there is no repository: %q", got)
	}
}
