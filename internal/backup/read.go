package backup

import (
	"archive/tar"
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

	"github.com/klauspost/compress/zstd"
)

// Read unpacks an archive into a folder, which is there and empty: files for their owner alone.
// begin sees the manifest before anything is written, and may refuse it; nil: nobody does. Nil means
// that every file is there with the bytes that were backed up; after an error the folder holds
// something that is of no use: ErrNone, ErrNewer, ErrCut, ErrDamaged, or why it cannot be written.
func Read(ctx context.Context, in io.Reader, folder string, begin func(*Manifest) error) (*Manifest, error) {
	packed, err := zstd.NewReader(&reader{ctx, in}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	all := tar.NewReader(packed)
	m, err := readManifest(all)
	if err != nil {
		return nil, err
	}
	if begin != nil {
		if err := begin(m); err != nil {
			return m, err
		}
	}
	to, err := os.OpenRoot(folder)
	if err != nil {
		return m, err
	}
	defer to.Close()
	for _, f := range m.Files {
		h, err := all.Next()
		if err != nil {
			return m, why(err)
		}
		if h.Name != f.Name || h.Size != f.Size || h.Typeflag != tar.TypeReg {
			return m, fmt.Errorf("%w (%q is not where its manifest has it)", ErrDamaged, f.Name)
		}
		if err := unpack(all, to, f); err != nil {
			return m, err
		}
	}
	if _, err := all.Next(); !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w (there is more in it than its manifest has)", ErrDamaged)
	}
	if _, err := io.Copy(io.Discard, packed); err != nil { // to its checksum
		return m, why(err)
	}
	return m, nil
}

func readManifest(all *tar.Reader) (*Manifest, error) {
	h, err := all.Next()
	switch {
	case errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, io.EOF) || err == nil && h.Name != manifestFile:
		return nil, ErrNone
	case err != nil:
		return nil, why(err)
	case h.Size > manifestMost:
		return nil, fmt.Errorf("%w (its manifest has %d bytes)", ErrDamaged, h.Size)
	}
	text, err := io.ReadAll(all)
	if err != nil {
		return nil, why(err)
	}
	var of struct { // in every format
		Format  int    `json:"format"`
		Version string `json:"version"`
	}
	m := new(Manifest)
	if err = json.Unmarshal(text, &of); err == nil && of.Format > Format {
		return nil, fmt.Errorf("%w: %s", ErrNewer, of.Version)
	}
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (its manifest: %w)", ErrDamaged, err)
	}
	return m, nil
}

// unpack writes one file, and compares it with what the manifest says of it.
func unpack(in io.Reader, to *os.Root, f File) (err error) {
	name := filepath.FromSlash(f.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%w (%q is no name of a file)", ErrDamaged, f.Name)
	}
	if err := to.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w (%q is there twice)", ErrDamaged, f.Name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	writing := &tell{to: out}
	if _, err := io.Copy(io.MultiWriter(writing, sum), in); err != nil {
		if writing.err != nil {
			return fmt.Errorf("unpack %s: %w", f.Name, err)
		}
		return why(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w (%s has another SHA-256 than its manifest has)", ErrDamaged, f.Name)
	}
	return nil
}

// tell knows whether it was the writing that failed.
type tell struct {
	to  io.Writer
	err error
}

func (t *tell) Write(b []byte) (n int, err error) {
	n, t.err = t.to.Write(b)
	return n, t.err
}

// why is what an error of reading says of an archive.
func why(err error) error {
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return ErrCut
	case errors.Is(err, fs.ErrClosed) || asPath(err):
		return err // it cannot be read
	}
	return fmt.Errorf("%w (%w)", ErrDamaged, err)
}

func asPath(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}
