package request

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// MaxMembers is how many members a gzip body may have: real ones have one.
	MaxMembers = 16
	mib        = 1 << 20
	freeBytes  = mib // that inflating may make of anything, whatever the ratio
)

// Encodings are those that a protocol takes.
type Encodings uint8

// The encodings. A body may have one of them, once.
const (
	Gzip Encodings = iota
	All            // gzip, deflate, br and zstd
)

// Encoding is a request's Content-Encoding: empty for none.
func Encoding(r *http.Request, allowed Encodings) (string, *Problem) {
	said := r.Header["Content-Encoding"]
	if len(said) == 0 {
		return "", nil
	}
	enc := strings.ToLower(strings.TrimSpace(strings.Join(said, ",")))
	switch enc {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	case "deflate", "br", "zstd":
		if allowed == All {
			return enc, nil
		}
	}
	if allowed == All {
		return "", Unsupported("Content-Encoding %.60q: one of gzip, deflate, br and zstd is taken, once", enc)
	}
	return "", Unsupported("Content-Encoding %.60q: only gzip is taken, once", enc)
}

// Plain undoes the body's Content-Encoding, into at most limit bytes. A gzip body is known
// by its first bytes too, for clients that do not say it.
func (x *Body) Plain(allowed Encodings, limit int) *Problem {
	enc, p := Encoding(x.r, allowed)
	if p != nil {
		return p
	}
	if enc == "" && IsGzip(x.Bytes) {
		enc = "gzip"
	}
	if enc == "" {
		return nil
	}
	return x.Inflate(enc, limit)
}

// IsGzip says whether bytes begin as gzip does.
func IsGzip(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 }

// Enter waits for a place among those that inflate: only a few do so at once.
func (b *Bodies) Enter(ctx context.Context) (leave func(), p *Problem) {
	leave, err := b.inflaters.enter(ctx)
	if err != nil {
		return nil, Busy("gone", "the client is gone")
	}
	return leave, nil
}

// Most is what inflating may make of so many bytes, where limit is the most that a body
// may have.
func (b *Bodies) Most(sent, limit int) int { return min(limit, freeBytes+sent*b.o.Ratio) }

// Inflate puts what the body stands for in its place. The encoding is one that Encoding
// returns, and not empty.
func (x *Body) Inflate(enc string, limit int) *Problem {
	release, p := x.of.Enter(x.r.Context())
	if p != nil {
		return p
	}
	defer release()
	in := bytes.NewReader(x.Bytes)
	r, p := x.of.inflaters.open(enc, in)
	if p != nil {
		return p
	}
	defer r.close()
	out := x.Get(min(4*len(x.Bytes), limit+1))
	if out == nil {
		return NoRoom()
	}
	for idle := 0; ; {
		if len(out) == cap(out) {
			larger := x.grow(out, limit+1)
			if larger == nil {
				x.Put(out)
				return NoRoom()
			}
			out = larger
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if idle++; n > 0 {
			idle = 0
		}
		read := len(x.Bytes) - in.Len()
		switch {
		case len(out) > limit:
			p = TooLarge("the body has more than %d bytes when inflated", limit)
		case len(out) > freeBytes+read*x.of.o.Ratio:
			p = TooLarge("the body grows to more than %d times its size when inflated", x.of.o.Ratio)
		case err == io.EOF && in.Len() == 0:
			if IsGzip(out) {
				p = Unsupported("the body is compressed twice; once is taken")
				break
			}
			x.Use(out)
			return nil
		case err == io.EOF:
			p = BadRequest("there is something behind the end of the %s data", enc)
		case err != nil || idle > 100:
			p = BadRequest("the body is no whole %s data", enc)
		}
		if p != nil {
			x.Put(out)
			return p
		}
	}
}

// inflaters are decompressors that are used again. Only a few work at once: more would
// not be faster, and each has a window of up to 16 MB.
type inflaters struct {
	slots                       chan struct{}
	gzip, zlib, flate, br, zstd sync.Pool
}

func newInflaters() *inflaters {
	return &inflaters{slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
}

// enter waits for a place among those that work.
func (f *inflaters) enter(ctx context.Context) (leave func(), err error) {
	select {
	case f.slots <- struct{}{}:
		return func() { <-f.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inflater reads one body. Close gives it back.
type inflater struct {
	io.Reader
	close func()
}

func (f *inflaters) open(enc string, in *bytes.Reader) (inflater, *Problem) {
	switch enc {
	case "gzip":
		r, ok := f.gzip.Get().(*members)
		if !ok {
			r = &members{}
		}
		r.in, r.n = in, 0
		return inflater{r, func() { r.in = nil; f.gzip.Put(r) }}, nil
	case "deflate": // zlib by the standard, bare by habit
		b := [2]byte{}
		n, _ := in.ReadAt(b[:], 0)
		if n == 2 && b[0]&0x0f == 8 && (uint(b[0])<<8|uint(b[1]))%31 == 0 {
			return openReset(&f.zlib, in, func() (io.ReadCloser, error) { return zlib.NewReader(in) },
				func(r io.ReadCloser) error { return r.(zlib.Resetter).Reset(in, nil) })
		}
		return openReset(&f.flate, in, func() (io.ReadCloser, error) { return flate.NewReader(in), nil },
			func(r io.ReadCloser) error { return r.(flate.Resetter).Reset(in, nil) })
	case "br":
		r, ok := f.br.Get().(*brotli.Reader)
		if !ok {
			r = new(brotli.Reader)
		}
		_ = r.Reset(in) // never an error
		return inflater{r, func() { f.br.Put(r) }}, nil
	case "zstd":
		r, ok := f.zstd.Get().(*zstd.Decoder)
		if !ok {
			var err error
			r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(8*mib), zstd.WithDecoderMaxMemory(64*mib))
			if err != nil {
				return inflater{}, Busy("inflate", "zstd cannot be read now, please retry without")
			}
		}
		if err := r.Reset(onlyReader{in}); err != nil {
			return inflater{}, BadRequest("the body is no zstd data")
		}
		return inflater{r, func() {
			if r.Reset(nil) == nil {
				f.zstd.Put(r)
			}
		}}, nil
	}
	return inflater{}, Unsupported("Content-Encoding %.60q is not taken", enc)
}

// onlyReader hides that all of the input is there: a decoder that knows would inflate it
// in one go, before limits are looked at.
type onlyReader struct{ io.Reader }

func openReset(pool *sync.Pool, _ *bytes.Reader, make func() (io.ReadCloser, error), reset func(io.ReadCloser) error) (inflater, *Problem) {
	r, ok := pool.Get().(io.ReadCloser)
	var err error
	if ok {
		err = reset(r)
	} else {
		r, err = make()
	}
	if err != nil {
		return inflater{}, BadRequest("the body is no deflate data")
	}
	return inflater{r, func() { pool.Put(r) }}, nil
}

// members reads the members of a gzip body one after another, up to MaxMembers, and ends
// where the last one ends: what is behind it is left in the input.
type members struct {
	in *bytes.Reader
	r  gzip.Reader
	n  int
}

var errMembers = errors.New("too many gzip members")

func (m *members) Read(b []byte) (int, error) {
	if m.n == 0 {
		if err := m.open(); err != nil {
			return 0, noEOF(err)
		}
	}
	n, err := m.r.Read(b)
	if err == io.EOF && m.more() {
		err = noEOF(m.open())
	}
	return n, err
}

// more says whether another member follows.
func (m *members) more() bool {
	var head [3]byte
	n, _ := m.in.ReadAt(head[:], m.in.Size()-int64(m.in.Len()))
	return IsGzip(head[:n])
}

func (m *members) open() error {
	if m.n++; m.n > MaxMembers {
		return errMembers
	}
	err := m.r.Reset(m.in)
	m.r.Multistream(false)
	return err
}

// noEOF makes an early end an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
