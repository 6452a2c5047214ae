package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// build makes all files of the release.
func (r *release) build(ctx context.Context) error {
	if r.key != "" {
		if err := r.named(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	var images []target
	for _, t := range r.targets {
		began := time.Now()
		if err := r.stage(ctx, t); err != nil {
			return fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
		}
		if err := r.archive(t); err != nil {
			return fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
		}
		if t.os == "linux" {
			images = append(images, t)
			if err := r.packages(t); err != nil {
				return fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
			}
		}
		fmt.Printf("%s/%s: %v\n", t.os, t.arch, time.Since(began).Round(time.Second))
	}
	if len(images) > 0 {
		if err := r.image(images); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	if len(r.targets) == strings.Count(everything, ",")+1 {
		if err := r.formula(); err != nil {
			return fmt.Errorf("formula: %w", err)
		}
	}
	if err := os.RemoveAll(r.stages()); err != nil {
		return err
	}
	return r.sign(ctx)
}

// named checks that what is deployed with a release names its version.
func (r *release) named() error {
	for file, want := range map[string]string{
		"README.md":                       "/v" + r.version + "/tidemill_" + r.version + "_",
		"deploy/compose/compose.yaml":     "${TIDEMILL_VERSION:-" + r.version + "}",
		"deploy/helm/tidemill/Chart.yaml": "appVersion: " + r.version + "\n",
	} {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), want) {
			return fmt.Errorf("%s names another version than %s: it has no %q", file, r.version, want)
		}
	}
	return nil
}

// name is that of a file of the release.
func (r *release) name(rest string) string {
	return filepath.Join(r.out, "tidemill_"+r.version+"_"+rest)
}

func (r *release) stages() string         { return filepath.Join(r.out, "stage") }
func (r *release) staged(t target) string { return filepath.Join(r.stages(), t.os+"_"+t.arch) }

// binary is the program of a target, in its stage.
func (t target) binary() string {
	if t.os == "windows" {
		return "tidemill.exe"
	}
	return "tidemill"
}

// stage makes a folder of all that the archive and the packages of a target have.
func (r *release) stage(ctx context.Context, t target) error {
	dir := r.staged(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	binary := filepath.Join(dir, t.binary())
	flags := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.date.Format(time.RFC3339))
	if err := r.tool(ctx, t, "build", "-p", "1", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary, "./cmd/tidemill"); err != nil {
		return err
	}
	here := target{}
	if err := r.tool(ctx, here, "run", "./scripts/manpages", "-version", r.version, "-date", r.date.Format(time.RFC3339), dir); err != nil {
		return err
	}
	if err := r.licences(ctx, t, filepath.Join(dir, "THIRD_PARTY_LICENSES")); err != nil {
		return err
	}
	return r.tool(ctx, here, "tool", "-modfile=scripts/release/go.mod", "cyclonedx-gomod", "bin", "-json", "-std", "-noserial", "-notimestamp",
		"-version", r.version, "-output", r.name(t.os+"_"+t.arch+".cdx.json"), binary)
}

// tool runs go, for a target if one is named.
func (r *release) tool(ctx context.Context, t target, args ...string) error {
	cmd := goCommand(ctx, t, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}

func goCommand(ctx context.Context, t target, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if t.os != "" {
		cmd.Env = append(cmd.Env, "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0")
	}
	return cmd
}
