package gdelt

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/flate"

	"github.com/tidemill/tidemill/internal/ownfile"
)

// File is an open file of rows.
type File struct {
	*Reader
	Size int64     // of the file as stored
	Mod  time.Time // in whole milliseconds

	f        *os.File
	unpacked io.Closer
	sum      hash.Hash64
	plain    io.Reader // what is left to be summed of an unpacked file
}

// maxDirectory is how many bytes of a zip may be read before its one file: its directory.
const maxDirectory = 1 << 20

// Open opens a file, plain or zipped, by its name n. A *Damage says what is wrong with it.
func Open(path string, n Name, l Limits) (_ *File, err error) { return openBy(os.Open, path, n, l) }

// opener opens a file to read it.
type opener func(path string) (*os.File, error)

// ours opens files of a folder that others write to: by now the name may be a link, or a pipe
// that never ends.
func ours(path string) (*os.File, error) {
	f, err := ownfile.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, ownfile.ErrNotOurs) {
		return nil, fmt.Errorf("%w: there is a link, or something else that is no regular file", fs.ErrNotExist)
	}
	return f, err
}

func openBy(open opener, path string, n Name, l Limits) (_ *File, err error) {
	l = l.withDefaults()
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	file := &File{f: f}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, damaged("it is no regular file")
	}
	file.Size, file.Mod = info.Size(), info.ModTime().Truncate(time.Millisecond)
	if !n.Zip {
		file.sum = xxhash.New()
		in := io.TeeReader(f, file.sum)
		file.Reader, file.plain = NewReader(n.Kind, in, l), in
		return file, nil
	}
	if file.Size > l.Zip {
		return nil, damaged("it has %d bytes, more than %d", file.Size, l.Zip)
	}
	in, err := unpack(f, file.Size)
	if err != nil {
		return nil, err
	}
	file.unpacked = in
	file.Reader = NewReader(n.Kind, damagedIn{in}, l)
	file.packed = true
	return file, nil
}

// unpack opens the one file in a zip.
func unpack(f *os.File, size int64) (io.ReadCloser, error) {
	budget := &budget{ReaderAt: f, left: maxDirectory}
	z, err := zip.NewReader(budget, size)
	if err != nil {
		return nil, badZip(err)
	}
	var found *zip.File
	for _, e := range z.File {
		switch {
		case e.FileInfo().IsDir():
		case found != nil:
			return nil, damaged("it packs more than one file")
		default:
			found = e
		}
	}
	if found == nil {
		return nil, damaged("it packs no file")
	}
	z.RegisterDecompressor(zip.Deflate, flate.NewReader)
	budget.left = 2*size + maxDirectory
	in, err := found.Open()
	if err != nil {
		return nil, badZip(err)
	}
	return in, nil
}

// budget bounds what is read, so that a directory of millions of files ends early.
type budget struct {
	io.ReaderAt
	left int64
}

var errBudget = errors.New("more is read than such a file can need")

func (b *budget) ReadAt(p []byte, off int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errBudget
	}
	return b.ReaderAt.ReadAt(p, off)
}

// damagedIn tells errors of packed bytes from errors of the disk.
type damagedIn struct{ io.Reader }

func (d damagedIn) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = badZip(err)
	}
	return n, err
}

func badZip(err error) error {
	if _, disk := errors.AsType[*os.PathError](err); disk {
		return err
	}
	why := strings.TrimPrefix(err.Error(), "zip: ")
	return damaged("it cannot be unpacked: %s", why)
}

// Sum reads the rest of the file and returns a checksum of it as stored.
func (f *File) Sum() (uint64, error) {
	if f.sum != nil {
		_, err := io.Copy(io.Discard, f.plain)
		return f.sum.Sum64(), err
	}
	sum := xxhash.New()
	_, err := io.Copy(sum, io.NewSectionReader(f.f, 0, f.Size))
	return sum.Sum64(), err
}

// Close closes the file.
func (f *File) Close() error {
	var err error
	if f.unpacked != nil {
		err = f.unpacked.Close()
	}
	return errors.Join(err, f.f.Close())
}

// Found is what Check found.
type Found struct {
	Size         int64
	Mod          time.Time
	Sum          uint64
	Rows, Idless uint64
}

// Check reads a whole file and says what is in it, so that no row of a broken file is ever
// handed out. A *Damage says what is wrong with it; Found has its size and time then, too.
func Check(path string, n Name, l Limits) (Found, error) { return checkBy(os.Open, path, n, l) }

func checkBy(open opener, path string, n Name, l Limits) (found Found, err error) {
	if info, err := os.Lstat(path); err == nil {
		found.Size, found.Mod = info.Size(), info.ModTime().Truncate(time.Millisecond)
	}
	f, err := openBy(open, path, n, l)
	if err != nil {
		return found, err
	}
	defer func() { _ = f.Close() }()
	found.Size, found.Mod = f.Size, f.Mod
	for err == nil {
		err = f.Next()
	}
	if !errors.Is(err, io.EOF) {
		return found, err
	}
	found.Rows, found.Idless = f.Rows(), f.Idless()
	if found.Rows == 0 && found.Idless > 0 {
		return found, damaged("none of its %d rows begins with an id: are the columns separated by tabs?", found.Idless)
	}
	if found.Sum, err = f.Sum(); err != nil {
		return found, fmt.Errorf("sum the bytes of %s: %w", path, err)
	}
	// The file may have been written to meanwhile.
	info, err := f.f.Stat()
	if err == nil && (info.Size() != found.Size || !info.ModTime().Truncate(time.Millisecond).Equal(found.Mod)) {
		err = errGrowing
	}
	return found, err
}

var errGrowing = errors.New("the file is still being written")
