package enrich

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
)

// download replaces the database by the one at the URL, in up to 3 tries.
func (g *Geo) download(ctx context.Context) error {
	for try := 1; ; try++ {
		err := g.fetch(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case try == geoTries || tidemill.KindOf(err) == tidemill.Validation: // a blocked address stays blocked
			return fmt.Errorf("geo database: download %s, %d tries: %w", g.source(), try, err)
		}
		wait := g.opts.Wait * time.Duration(try)
		// Logged at each try of a download that failed; it is tried again.
		// To do: see whether the address can be reached; events have the countries of the old
		// database, or none, meanwhile.
		g.opts.Log.WarnContext(ctx, "the country database could not be downloaded", "source", g.source(), "attempt", try, "again_in", wait, "error", err)
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
	}
}

// fetch makes one try. It downloads to a temporary file in the same folder, opens it to check
// it, and renames it over the previous one. That name never holds half a database.
func (g *Geo) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, g.opts.Timeout, fmt.Errorf("no end after %v", g.opts.Timeout))
	defer cancel()
	dir := filepath.Dir(g.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the cache folder, or choose another: %w", err)
	}
	g.sweep(dir)
	tmp, err := os.CreateTemp(dir, temporary)
	if err != nil {
		return fmt.Errorf("make the cache folder writable, or choose another: %w", err)
	}
	defer os.Remove(tmp.Name()) // already renamed if all went well
	err = errors.Join(g.receive(ctx, tmp), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	now := g.opts.Now() // not the disk's clock: ages are measured by this one
	if err := os.Chtimes(tmp.Name(), now, now); err != nil {
		return err
	}
	db, err := openDatabase(tmp.Name(), g.opts.MaxBytes)
	if err != nil {
		return fmt.Errorf("what was received: %w", err)
	}
	if err := os.Rename(tmp.Name(), g.path); err != nil {
		return err
	}
	g.use(db)
	return nil
}

// receive writes the database at the URL, inflated, into w.
func (g *Geo) receive(ctx context.Context, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.from.String(), nil)
	if err != nil {
		return errors.New("the URL is none") // the parser's error would quote it
	}
	req.Header.Set("User-Agent", "tidemill")
	if g.user != nil {
		password, _ := g.user.Password()
		req.SetBasicAuth(g.user.Username(), password)
	}
	resp, err := g.via.Do(req)
	if err != nil {
		return plain(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answer %s, want 200 OK; check the URL and the key in it", resp.Status)
	}
	body, err := unpack(resp.Body, g.opts.MaxBytes)
	if err != nil {
		return plain(ctx, err)
	}
	if _, err := io.Copy(w, body); err != nil {
		return plain(ctx, err)
	}
	return nil
}

// plain removes the URL, which may hold a key, from an error of the HTTP client, and says why a
// context ended.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// temporary is the pattern of unfinished downloads.
const temporary = "geo-*.part"

// sweep removes the leftovers of killed downloads, a day later: no download lasts that long,
// and other instances may share the folder.
func (g *Geo) sweep(dir string) {
	left, err := filepath.Glob(filepath.Join(dir, temporary))
	if err != nil {
		return // the folder's name contains a pattern
	}
	for _, path := range left {
		if id, err := identify(path); err == nil && g.opts.Now().Sub(id.time) > 24*time.Hour {
			os.Remove(path)
		}
	}
}

// shown is a URL without user, password, query and fragment.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// cacheName is the file of a download. Another URL is another database and gets another file.
// Another key in the same URL does not.
func cacheName(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Del("license_key")
	sum := sha256.Sum256([]byte(shown(raw) + "?" + q.Encode()))
	return fmt.Sprintf("geo-%x.mmdb", sum[:8])
}
