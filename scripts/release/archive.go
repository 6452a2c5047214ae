package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// entry is a file or a folder in an archive.
type entry struct {
	name  string // in the archive; a folder's ends with /
	file  string // on disk; empty: text
	text  []byte
	mode  fs.FileMode
	owner int
}

func (e *entry) bytes() ([]byte, error) {
	if e.file == "" {
		return e.text, nil
	}
	return os.ReadFile(e.file)
}

// archive packs the program of a target, with its pages and completions.
func (r *release) archive(t target) error {
	entries, err := r.entries(t)
	if err != nil {
		return err
	}
	if t.os == "windows" {
		return written(r.name(t.os+"_"+t.arch+".zip"), func(w io.Writer) error { return r.zip(w, entries) })
	}
	return written(r.name(t.os+"_"+t.arch+".tar.gz"), func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(r.tar(z, entries), z.Close())
	})
}

// entries are the files of an archive, in one folder, in order.
func (r *release) entries(t target) (all []entry, err error) {
	top := "tidemill_" + r.version + "_" + t.os + "_" + t.arch
	for _, file := range []string{"LICENSE", "README.md"} {
		all = append(all, entry{name: path.Join(top, file), file: file, mode: 0o644})
	}
	stage := os.DirFS(r.staged(t))
	err = fs.WalkDir(stage, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || t.os == "windows" && path.Dir(name) == "man" {
			return err
		}
		mode := fs.FileMode(0o644)
		if name == t.binary() {
			mode = 0o755
		}
		all = append(all, entry{name: path.Join(top, name), file: filepath.Join(r.staged(t), name), mode: mode})
		return nil
	})
	return all, err
}

func (r *release) tar(w io.Writer, entries []entry) error {
	out := tar.NewWriter(w)
	for _, e := range entries {
		text, err := e.bytes()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(text)), Uid: e.owner, Gid: e.owner, ModTime: r.date, Format: tar.FormatPAX}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}

func (r *release) zip(w io.Writer, entries []entry) error {
	out := zip.NewWriter(w)
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range entries {
		text, err := e.bytes()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(e.mode)
		to, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}

// written writes a file.
func written(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
