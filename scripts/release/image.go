package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// runner is who runs in the image: nobody's number on usual systems.
const runner = 65532

// image makes one of several architectures: a layout of OCI's in one file.
func (r *release) image(targets []target) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		one, err := r.imageOf(t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}}})
	}
	dir := filepath.Join(r.stages(), "image")
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	var files []entry
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, entry{name: path, file: filepath.Join(dir, path), mode: 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	return written(r.name("image.tar"), func(w io.Writer) error { return r.tar(w, files) })
}

// localImage makes the image of this machine's architecture alone, for docker load.
func (r *release) localImage(ctx context.Context) error {
	t := target{"linux", runtime.GOARCH}
	defer os.RemoveAll(r.stages())
	if err := r.stage(ctx, t); err != nil {
		return err
	}
	one, err := r.imageOf(t)
	if err != nil {
		return err
	}
	tag, err := name.NewTag("tidemill:" + r.version)
	if err != nil {
		return err
	}
	file := filepath.Join(r.out, "image.tar")
	fmt.Printf("%s is in %s: docker load -i %[2]s\n", tag, file)
	return tarball.WriteToFile(file, tag, one)
}

// imageOf has the binary, certificates, a user, and folders of its own: no shell, no package, no root.
func (r *release) imageOf(t target) (v1.Image, error) {
	system, err := r.layer([]entry{
		{name: "data/", mode: 0o700, owner: runner},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", text: fmt.Appendf(nil, "tidemill:x:%d:\n", runner), mode: 0o644},
		{name: "etc/passwd", text: fmt.Appendf(nil, "tidemill:x:%d:%[1]d::/data:/sbin/nologin\n", runner), mode: 0o644},
		{name: "etc/ssl/certs/ca-certificates.crt", text: certificates(), mode: 0o644},
		{name: "tmp/", mode: 0o700, owner: runner},
	})
	if err != nil {
		return nil, err
	}
	program, err := r.layer([]entry{
		{name: "usr/local/bin/tidemill", file: filepath.Join(r.staged(t), t.binary()), mode: 0o755},
		{name: "usr/share/doc/tidemill/LICENSE", file: "LICENSE", mode: 0o644},
		{name: "usr/share/doc/tidemill/THIRD_PARTY_LICENSES", file: filepath.Join(r.staged(t), "THIRD_PARTY_LICENSES"), mode: 0o644},
	})
	if err != nil {
		return nil, err
	}
	one := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if one, err = mutate.AppendLayers(one, system, program); err != nil {
		return nil, err
	}
	file, err := one.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = t.os, t.arch, v1.Time{Time: r.date}, r.config()
	return mutate.ConfigFile(one, file)
}

func (r *release) config() v1.Config {
	return v1.Config{
		User: fmt.Sprintf("%d:%[1]d", runner), WorkingDir: "/data",
		Entrypoint: []string{"tidemill"}, Cmd: []string{"run"}, StopSignal: "SIGTERM",
		Env:          []string{"PATH=/usr/local/bin", "TIDEMILL_DATA=/data", "TIDEMILL_LISTEN=0.0.0.0:8484"},
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"8484/tcp": {}},
		// The process answers its API. The token is taken from TIDEMILL_TOKEN, which listening beyond
		// loopback requires anyway. Orchestrators with HTTP probes ask /livez and /readyz instead.
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "tidemill", "status", "--server", "http://127.0.0.1:8484"},
			Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "Tidemill",
			"org.opencontainers.image.description": "Takes events in, decides what each means, delivers it, and accounts for every one.",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/tidemill/tidemill",
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.commit,
			"org.opencontainers.image.created":     r.date.Format(time.RFC3339),
		},
	}
}

func (r *release) layer(entries []entry) (v1.Layer, error) {
	var packed bytes.Buffer
	if err := r.tar(&packed, entries); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

// certificates are those of the authorities that Mozilla trusts without a condition, which this form
// could not say.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return all.Bytes()
}
