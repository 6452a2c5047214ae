package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// sumsFile has the SHA-256 of every other file, as sha256sum -c reads it.
const sumsFile = "SHA256SUMS"

// sign writes the sums of all files, and a signature of them that ssh-keygen -Y verify checks.
func (r *release) sign(ctx context.Context) error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		sum, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, f.Name())
	}
	file := filepath.Join(r.out, sumsFile)
	if err := os.WriteFile(file, sums.Bytes(), 0o644); err != nil {
		return err
	}
	key := r.key
	if key == "" {
		dir, err := os.MkdirTemp("", "release-key-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		key = filepath.Join(dir, "key")
		if err := keygen(ctx, "-q", "-t", "ed25519", "-N", "", "-C", "throw-away key of a trial", "-f", key); err != nil {
			return err
		}
		fmt.Println("signed with a key that is thrown away: this is no release")
	}
	if err := keygen(ctx, "-q", "-Y", "sign", "-f", key, "-n", "file", file); err != nil {
		return err
	}
	public, err := exec.CommandContext(ctx, "ssh-keygen", "-y", "-f", key).Output()
	if err != nil {
		return fmt.Errorf("ssh-keygen -y: %w", err)
	}
	return os.WriteFile(filepath.Join(r.out, "allowed_signers"), append([]byte("tidemill namespaces=\"file\" "), public...), 0o644)
}

func keygen(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ssh-keygen", args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ssh-keygen: %w", err)
	}
	return nil
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
