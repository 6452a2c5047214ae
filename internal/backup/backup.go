// Package backup is the archive of a data folder: a tar in zstd, whose first entry is a manifest
// with the size and the SHA-256 of every file that follows.
//
// Write makes it of a folder in which nothing changes any more; Stage makes that folder of one in
// use. Read unpacks an archive, and refuses one that is cut, changed or of a newer format.
package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Format is the newest form of an archive that this program reads, and the one that it writes.
const Format = 1

// manifestFile is the first entry of an archive.
const manifestFile = "manifest.json"

// manifestMost is how many bytes a manifest may have.
const manifestMost = 16 << 20

var (
	// ErrNone says that it is no archive of a backup.
	ErrNone = errors.New("this is no backup of Tidemill")
	// ErrCut says that the end of an archive is missing.
	ErrCut = errors.New("the backup is cut: its end is missing; take another one")
	// ErrDamaged says that an archive has other bytes than were written.
	ErrDamaged = errors.New("the backup is damaged: take another one")
	// ErrNewer says that a newer version made it.
	ErrNewer = errors.New("a newer version of Tidemill made this backup: restore it with that version")
)

// Manifest says what is in an archive.
type Manifest struct {
	Format  int            `json:"format"`
	Version string         `json:"version"` // of the program that made it
	At      time.Time      `json:"at"`      // when its copy of the database was begun
	Systems []string       `json:"systems"` // that ran
	Schema  map[string]int `json:"schema"`  // versions of the tables of each component
	Files   []File         `json:"files"`   // in their order
	LeftOut []string       `json:"left_out,omitempty"`
	Servers []string       `json:"servers,omitempty"` // that have a part of the state, which is not in it
}

// File is a file of an archive.
type File struct {
	Name   string `json:"name"` // below the data folder, with slashes
	Size   int64  `json:"size"` // in bytes
	SHA256 string `json:"sha256"`
}

// Bytes is the size of all files together.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Write makes the archive of all files below a folder. It sets what m says of files.
func Write(ctx context.Context, out io.Writer, folder string, m Manifest) error {
	m.Format = Format
	if err := m.describe(ctx, folder); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	packed, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	defer packed.Close() // again: it gives its memory back
	all := tar.NewWriter(packed)
	add := func(name string, size int64, from io.Reader) error {
		if err := all.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: m.At, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err := io.Copy(all, &reader{ctx, from})
		return err
	}
	if err := add(manifestFile, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for _, f := range m.Files {
		err := opened(filepath.Join(folder, filepath.FromSlash(f.Name)), func(in *os.File) error { return add(f.Name, f.Size, in) })
		if err != nil {
			return fmt.Errorf("back up %s: %w", f.Name, err)
		}
	}
	return errors.Join(all.Close(), packed.Close())
}

// describe finds the files below a folder.
func (m *Manifest) describe(ctx context.Context, folder string) error {
	m.Files = []File{}
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		sum := sha256.New()
		var n int64
		err = opened(path, func(in *os.File) (err error) {
			n, err = io.Copy(sum, &reader{ctx, in})
			return err
		})
		m.Files = append(m.Files, File{filepath.ToSlash(name), n, hex.EncodeToString(sum.Sum(nil))})
		return err
	})
}

func opened(path string, do func(*os.File) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// reader ends with its context.
type reader struct {
	ctx  context.Context
	from io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}
