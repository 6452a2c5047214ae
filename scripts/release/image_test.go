package main

import (
	"bufio"
	"context"
	"encoding/pem"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// theImage is the one of the host's processor in a release.
func theImage(t *testing.T, r *release) v1.Image {
	t.Helper()
	index, end, err := opened(r.name("image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Manifests) != 1 || all.Manifests[0].Platform.String() != host.os+"/"+host.arch {
		t.Fatalf("the index has %+v", all.Manifests)
	}
	one, err := index.Image(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// files of an image, from all its layers.
func filesOf(t *testing.T, one v1.Image) map[string][]byte {
	t.Helper()
	layers, err := one.Layers()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, l := range layers {
		text, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		for name, b := range unpackedTar(t, text) {
			all[name] = b
		}
	}
	return all
}

func TestImageHasNoShellAndNoRoot(t *testing.T) {
	one := theImage(t, shared(t))
	files := filesOf(t, one)
	for _, name := range []string{"data/", "etc/", "etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "tmp/", "usr/local/bin/tidemill", "usr/share/doc/tidemill/LICENSE", "usr/share/doc/tidemill/THIRD_PARTY_LICENSES"} {
		if _, ok := files[name]; !ok {
			t.Errorf("the image has no %s", name)
		}
	}
	if len(files) != 9 {
		t.Errorf("the image has %d files and folders, want 9", len(files))
	}
	isStatic(t, files["usr/local/bin/tidemill"])
	if block, rest := pem.Decode(files["etc/ssl/certs/ca-certificates.crt"]); block == nil || len(rest) < 50_000 {
		t.Error("the certificates cannot be read, or are few")
	}
	file, err := one.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "65532:65532" || file.Architecture != host.arch || c.Healthcheck == nil || c.Labels["org.opencontainers.image.version"] != "0.1.0" || c.Labels["org.opencontainers.image.revision"] != commit {
		t.Errorf("the image is configured as %+v", file)
	}
}

// TestImageRuns runs the image's program on the image's files alone, as its user, and asks for its
// health as the image says.
func TestImageRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("a program gets another root folder only from root")
	}
	one := theImage(t, shared(t))
	file, err := one.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lay(t, dir, filesOf(t, one))
	env := append(file.Config.Env, "TIDEMILL_TOKEN=a-token-of-a-test-of-the-image", "TIDEMILL_LISTEN=127.0.0.1:0")
	inside := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/usr/local/bin/tidemill", args...)
		cmd.Dir, cmd.Env = file.Config.WorkingDir, env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: runner, Gid: runner}}
		cmd.Stderr = t.Output()
		return cmd
	}
	server := inside(t.Context(), file.Config.Cmd...)
	at := started(t, server)
	check := append([]string(nil), file.Config.Healthcheck.Test[2:]...)
	check[len(check)-1] = at
	if out, err := inside(t.Context(), check...).Output(); err != nil || !strings.HasPrefix(string(out), "tidemill 0.1.0 at "+at) {
		t.Errorf("%s: %v\n%s", check, err, out)
	}
	stopped(t, server)
	if _, err := os.Stat(filepath.Join(dir, "data", "tidemill.db")); err != nil {
		t.Error(err)
	}
}

// lay lays an image's files out in a folder.
func lay(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			if err := os.WriteFile(at, text, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, own := range []string{"data", "tmp"} {
		at := filepath.Join(dir, own)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at, runner, runner); err != nil {
			t.Fatal(err)
		}
	}
}

// started starts a tidemill, and returns where it listens.
func started(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "listening"); ok {
			at = strings.TrimSpace(found)
		}
		if strings.HasPrefix(lines.Text(), "ready.") && at != "" {
			go func() { // until it ends
				for lines.Scan() {
				}
			}()
			return at
		}
	}
	t.Fatalf("it ended before it was ready: %v", cmd.Wait())
	return ""
}

func stopped(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestPush(t *testing.T) {
	r := shared(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(t.Output(), "", 0))))
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/tidemill/tidemill"
	if err := push(t.Context(), r.name("image.tar"), []string{to + ":0.1.0", to + ":latest"}); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{":0.1.0", ":latest"} {
		ref, err := name.ParseReference(to + tag)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: host.os, Architecture: host.arch}))
		if err != nil {
			t.Fatal(err)
		}
		digest, err := got.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := theImage(t, r).Digest(); err != nil || digest != want {
			t.Errorf("%s is %s, want %s (%v)", tag, digest, want, err)
		}
	}
}
