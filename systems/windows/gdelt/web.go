package gdelt

import (
	"bufio"
	"context"
	"crypto/md5" //nolint:gosec // what the lists have
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/urlsecret"
)

// Bounds of a list.
const (
	maxListLine  = 4 << 10
	maxListBytes = 2 << 30 // a master list of ten years has 0.2 GiB
)

// tries is how often a file is fetched that is missing, or differs from the list, before it is
// given up as broken.
const tries = 3

// web is a list of files on a server.
type web struct {
	url     *url.URL
	spool   string
	guard   http.RoundTripper
	timeout time.Duration
	limits  Limits
	failed  map[string]int // by URL: tries of files that may be broken
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("gdelt source: the URL of a list or a file is needed, such as http://data.gdeltproject.org/gdeltv2/lastupdate.txt")
	}
	return u, nil
}

// String leaves out the password and the query, which may be a signature.
func (w *web) String() string { return urlsecret.Show(w.url.String()) }

func (w *web) keeps() bool { return false }

func (w *web) look(string) (fs.FileInfo, error) { return nil, nil }

func (w *web) list(ctx context.Context, have func(entry) error) error {
	if name := path.Base(w.url.Path); nameOurs(name) {
		return have(entry{name: name, from: w.url.String(), size: -1})
	}
	body, cancel, err := w.get(ctx, w.url.String())
	if err != nil {
		return fmt.Errorf("read the list %s: %w", w, err)
	}
	defer cancel()
	lines := bufio.NewScanner(io.LimitReader(body, maxListBytes))
	lines.Buffer(make([]byte, 0, maxListLine), maxListLine)
	for lines.Scan() {
		if e, ok := parseEntry(lines.Text()); ok {
			if err := have(e); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the list %s: %w", w, w.passing(ctx, err))
	}
	return nil
}

func nameOurs(name string) bool {
	_, ok := ParseName(name)
	return ok
}

// parseEntry reads a line of a list. Not ok: it names no file of ours.
func parseEntry(line string) (entry, bool) {
	parts := strings.Fields(line)
	if len(parts) != 3 {
		return entry{}, false
	}
	size, err := strconv.ParseInt(parts[0], 10, 64)
	u, err2 := url.Parse(parts[2])
	sum, err3 := hex.DecodeString(parts[1])
	if err != nil || err2 != nil || err3 != nil || len(sum) != md5.Size || size < 0 {
		return entry{}, false
	}
	e := entry{name: path.Base(u.Path), from: parts[2], size: size, md5: strings.ToLower(parts[1])}
	return e, nameOurs(e.name)
}

// get requests a URL. Call cancel when the body is no longer needed.
func (w *web) get(ctx context.Context, from string) (body io.Reader, cancel func(), err error) {
	ctx, end := context.WithTimeout(ctx, w.timeout)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		end()
		return nil, nil, damaged("its URL cannot be asked for")
	}
	answer, err := w.guard.RoundTrip(r)
	if err != nil {
		passed := w.passing(ctx, err) // this asks whether ctx has ended
		end()
		if e, ok := errors.AsType[*tidemill.Error](err); ok && e.Kind == tidemill.Validation {
			return nil, nil, damaged("its URL is refused: %v", err)
		}
		return nil, nil, passed
	}
	cancel = func() { _ = answer.Body.Close(); end() }
	if answer.StatusCode != http.StatusOK {
		cancel()
		return nil, nil, &refused{answer.StatusCode}
	}
	return answer.Body, cancel, nil
}

// passing is the error of a request that may succeed next time.
func (w *web) passing(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return tidemill.Fail(tidemill.Transient, "%w", err)
}

// refused is an answer other than 200.
type refused struct{ status int }

func (r *refused) Error() string { return "the server answers " + strconv.Itoa(r.status) }

func (w *web) fetch(ctx context.Context, e entry) (string, error) {
	into := filepath.Join(w.spool, e.name)
	if info, err := os.Stat(into); err == nil && info.Mode().IsRegular() {
		return into, nil // it was fetched, and checked, before a crash
	}
	if e.size > w.limits.Zip {
		return "", damaged("it has %d bytes, more than %d", e.size, w.limits.Zip)
	}
	err := w.download(ctx, e, into)
	final := false // it will not get better
	if r, ok := errors.AsType[*refused](err); ok {
		final = r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests && r.status != http.StatusRequestTimeout
	} else if _, ok := errors.AsType[*Damage](err); ok {
		final = true
	}
	if !final {
		if err == nil {
			delete(w.failed, e.from)
		}
		return into, err
	}
	if w.failed[e.from]++; w.failed[e.from] < tries {
		return "", tidemill.Fail(tidemill.Transient, "try %d of %d: %w", w.failed[e.from], tries, &passingDamage{err})
	}
	return "", damaged("%v", err)
}

// passingDamage hides a *Damage that is tried again from callers that look for one.
type passingDamage struct{ err error }

func (p *passingDamage) Error() string { return p.err.Error() }

// download writes a file under another name, and renames it if it matches the list.
func (w *web) download(ctx context.Context, e entry, into string) (err error) {
	if err := os.MkdirAll(w.spool, 0o700); err != nil {
		return err
	}
	body, cancel, err := w.get(ctx, e.from)
	if err != nil {
		return err
	}
	defer cancel()
	part := into + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // not through a link
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(part)
		}
	}()
	most := w.limits.Zip
	if e.size >= 0 {
		most = e.size
	}
	sum := md5.New() //nolint:gosec // what the lists have
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return w.passing(ctx, err)
	case n > most:
		return damaged("it has more than the %d bytes that are allowed or listed", most)
	case e.size >= 0 && n != e.size:
		return damaged("it has %d bytes, the list says %d", n, e.size)
	case e.md5 != "" && hex.EncodeToString(sum.Sum(nil)) != e.md5:
		return damaged("its MD5 is not the one in the list")
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(part, into)
}

func (w *web) remove(name string) error {
	if err := os.Remove(filepath.Join(w.spool, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a file that is done: %w", err)
	}
	return nil
}

func (w *web) tidy(needed func(string) bool) error {
	entries, err := os.ReadDir(w.spool)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if whole := strings.TrimSuffix(name, ".part"); nameOurs(whole) && (whole != name || !needed(name)) {
			err = errors.Join(err, os.Remove(filepath.Join(w.spool, name)))
		}
	}
	return err
}
