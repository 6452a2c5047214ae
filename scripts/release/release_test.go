package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// host is the one target that the tests build: this machine's processor.
var host = target{"linux", runtime.GOARCH}

const commit, date = "c0ffee0123456789", "2026-11-26T10:00:00+01:00"

// root is the repository.
var root = sync.OnceValue(func() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
})

// makeRelease makes a release of the host's target, seen from a copy of the repository.
func makeRelease(t *testing.T, from, out, version string) *release {
	t.Helper()
	t.Chdir(from)
	r, err := parse([]string{"-version", version, "-commit", commit, "-date", date, "-out", out, "-targets", host.os + "/" + host.arch})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// made is a release that most tests share. TestMain deletes it.
var made struct {
	once    sync.Once
	dir     string
	release *release
}

func TestMain(m *testing.M) {
	status := m.Run()
	_ = os.RemoveAll(made.dir) // a temporary folder
	os.Exit(status)
}

func shared(t *testing.T) *release {
	t.Helper()
	dir := root()
	made.once.Do(func() {
		var err error
		if made.dir, err = os.MkdirTemp("", "release-"); err != nil {
			t.Fatal(err)
		}
		made.release = makeRelease(t, dir, filepath.Join(made.dir, "dist"), "0.1.0")
	})
	if made.release == nil {
		t.Fatal("the release was not made")
	}
	t.Chdir(dir)
	return made.release
}

// TestTheSameCommitMakesTheSameBytes makes the release again from a copy elsewhere, whose files are
// newer, and where it is another time of the day. Only the signature differs: each has its own key.
func TestTheSameCommitMakesTheSameBytes(t *testing.T) {
	first := shared(t)
	elsewhere := filepath.Join(t.TempDir(), "another", "place")
	copied(t, root(), elsewhere)
	t.Setenv("TZ", "Asia/Kathmandu")
	if !testing.Short() { // nothing that the first has compiled
		t.Setenv("GOCACHE", t.TempDir())
	}
	second := makeRelease(t, elsewhere, filepath.Join(t.TempDir(), "dist"), "0.1.0")
	one, err := os.ReadFile(filepath.Join(first.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(second.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, other) || bytes.Count(one, []byte("\n")) != 5 {
		t.Errorf("the sums are\n%sand\n%s", one, other)
	}
}

// copied copies what git knows, and what it could know.
func copied(t *testing.T, from, to string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchive(t *testing.T) {
	r := shared(t)
	packed, err := os.Open(r.name(host.os + "_" + host.arch + ".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	files := unpackedTar(t, z)
	top := "tidemill_0.1.0_" + host.os + "_" + host.arch + "/"
	for _, name := range []string{"LICENSE", "README.md", "THIRD_PARTY_LICENSES", "tidemill", "man/tidemill.1", "man/tidemill-dead-list.1", "completions/tidemill.bash", "completions/_tidemill", "completions/tidemill.fish"} {
		if len(files[top+name]) == 0 {
			t.Errorf("the archive has no %s", name)
		}
	}
	if n := bytes.Count(files[top+"THIRD_PARTY_LICENSES"], []byte("\n==== ")); n < 40 {
		t.Errorf("%d licences", n)
	}
	isStatic(t, files[top+"tidemill"])
	program := filepath.Join(t.TempDir(), "tidemill")
	if err := os.WriteFile(program, files[top+"tidemill"], 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
	var is struct{ Version, Commit, Date, Go string }
	if err != nil || json.Unmarshal(out, &is) != nil || is.Version != "0.1.0" || is.Commit != commit || is.Date != "2026-11-26T09:00:00Z" || is.Go != runtime.Version() {
		t.Errorf("version --json = %s (%v)", out, err)
	}
}

// unpackedTar are the files of an archive; folders end with /, and have no text.
func unpackedTar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = text
	}
}

// isStatic checks that a program is for the host's processor, and needs no other file to run.
func isStatic(t *testing.T, program []byte) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[host.arch]; f.Machine != want {
		t.Errorf("it is for %v, want %v", f.Machine, want)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Error("it is linked to libraries")
	}
}

// TestSignature checks what somebody who downloads a release checks.
func TestSignature(t *testing.T) {
	r := shared(t)
	sums, err := os.ReadFile(filepath.Join(r.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	check := func(text []byte) error {
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", "allowed_signers", "-I", "tidemill", "-n", "file", "-s", sumsFile+".sig")
		cmd.Dir, cmd.Stdin = r.out, bytes.NewReader(text)
		return cmd.Run()
	}
	if err := check(sums); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if check(append(sums, "0  another\n"...)) == nil {
		t.Error("sums that were changed pass")
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "-c", "--strict", sumsFile)
	cmd.Dir = r.out
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 5 {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
}

// TestBillOfMaterials reads what the SBOM says is in the binary.
func TestBillOfMaterials(t *testing.T) {
	r := shared(t)
	text, err := os.ReadFile(r.name(host.os + "_" + host.arch + ".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(bom.Components, func(c struct{ Name string }) bool { return c.Name == name })
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Version != "0.1.0" || !has("std") || !has("modernc.org/sqlite") {
		t.Errorf("the SBOM is\n%s", text)
	}
}

// TestAReleaseIsNamed: README, Compose and Helm name the release that is next.
func TestAReleaseIsNamed(t *testing.T) {
	t.Chdir(root())
	chart, err := os.ReadFile(filepath.FromSlash("deploy/helm/tidemill/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(chart), "appVersion: ")
	version, _, _ := strings.Cut(rest, "\n")
	if err := (&release{version: version}).named(); err != nil {
		t.Error(err)
	}
	if (&release{version: version + "9"}).named() == nil {
		t.Error("another version passes")
	}
}

func TestFormula(t *testing.T) {
	r := &release{version: "1.2.3", out: t.TempDir()}
	for _, name := range []string{"darwin_arm64", "darwin_amd64", "linux_arm64", "linux_amd64"} {
		if err := os.WriteFile(r.name(name+".tar.gz"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.formula(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "tidemill.rb"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := sumOf(r.name("linux_arm64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "tidemill_#{version}_linux_arm64.tar.gz\"\n      sha256 \"" + sum + "\""; !strings.Contains(string(text), want) || !strings.Contains(string(text), `version "1.2.3"`) {
		t.Errorf("the formula has no %q:\n%s", want, text)
	}
}

func TestArgumentsThatAreWrong(t *testing.T) {
	for _, args := range []string{"", "nonsense", "build", "build -version v1 -commit c -date 2026-11-26T00:00:00Z", "build -version 1 -commit c -date today", "build -version 1 -commit c -date 2026-11-26T00:00:00Z -targets linux", "push file"} {
		if run(t.Context(), strings.Fields(args)) == nil {
			t.Errorf("release %s is taken", args)
		}
	}
}
