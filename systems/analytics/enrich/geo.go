package enrich

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/urlsecret"
)

const (
	geoMaxAge   = 30 * 24 * time.Hour
	geoTries    = 3
	geoWait     = 2 * time.Second
	geoPause    = time.Hour
	geoTimeout  = 5 * time.Minute
	geoMaxBytes = 200 << 20 // a country database has 10 MB, one with cities 60 to 130
)

// GeoOptions says where the country database comes from: a URL, a file, or nowhere, which
// leaves countries empty. File is taken where both are set.
type GeoOptions struct {
	URL      string        // http or https; an MMDB database, plain, .gz or .tar.gz. May hold a key: only its host and path are ever shown
	File     string        // an MMDB database, plain, .gz or .tar.gz, that somebody else keeps up to date
	CacheDir string        // where a downloaded database is kept; empty means "tidemill" in the user's cache folder, or else the temporary one
	MaxAge   time.Duration // a downloaded database older than this is replaced; 0 means 30 days
	Wait     time.Duration // between tries, times the number of the try; 0 means 2 s
	Pause    time.Duration // after a download of which all 3 tries failed, before the next; 0 means 1 h
	Timeout  time.Duration // for one try; 0 means 5 min
	MaxBytes int64         // of the download, and of what it inflates to; 0 means 200 MiB
	Now      func() time.Time
	Log      *slog.Logger // nil discards

	// Allow are networks that may be downloaded from though they are private: the URL's own
	// host, where it redirects to, and the environment's proxy.
	Allow   []netip.Prefix
	AllowBy string            // the setting of Allow, for errors; empty: allowPrivate
	Roots   *x509.CertPool    // who may vouch for servers; nil: the system's
	Via     http.RoundTripper // sends the requests, instead of the network and what guards it: for simulation
}

// Check says what is wrong with the options: no nonsense reaches a running system when
// configuration is checked with it. NewGeo takes faulty options, too, and then reports
// this error at every Refresh, while countries stay empty.
func (o GeoOptions) Check() error {
	switch {
	case o.MaxAge < 0 || o.Wait < 0 || o.Pause < 0 || o.Timeout < 0 || o.MaxBytes < 0:
		return errors.New("geo database: ages, waits, timeouts and sizes must not be negative")
	case o.File != "" || o.URL == "":
		return nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("geo database: the URL is none; want https://host/path or http://host/path") // not shown: it may hold a key
	}
	guard, err := o.guard(u)
	if err != nil {
		return fmt.Errorf("geo database: %w", err)
	}
	u.User = nil // it goes as a header
	if err := guard.CheckURL(u); err != nil {
		return fmt.Errorf("geo database: %w", err)
	}
	return nil
}

// guard is what downloads go by. http is asked for by the URL's scheme; a redirect from
// https does not lead there.
func (o GeoOptions) guard(u *url.URL) (*httpguard.Guard, error) {
	return httpguard.New(httpguard.Options{Allow: o.Allow, AllowBy: o.AllowBy, Roots: o.Roots, Plain: u.Scheme == "http", Proxy: true})
}

// Geo tells the country of an IP address. It has a database in memory that Refresh keeps
// up to date; without one, every country is empty. It is safe for concurrent use.
type Geo struct {
	opts  GeoOptions
	fault error         // of the options
	from  *url.URL      // without user and password
	user  *url.Userinfo // nil: there is none
	via   *http.Client
	path  string        // the file that the database is read from; empty: none is configured
	turn  chan struct{} // held by the one Refresh that works
	db    atomic.Pointer[database]

	failed time.Time // when the last download failed; held by turn

	mu  sync.Mutex // guards err
	err error      // what the last Refresh that did anything came to
}

// NewGeo takes a database that lies on disk already into use, so that the first events
// have countries, however old it is. It does not touch the network; Refresh does.
func NewGeo(o GeoOptions) *Geo {
	g := &Geo{fault: o.Check(), turn: make(chan struct{}, 1)}
	g.opts = o.withDefaults()
	switch {
	case g.fault != nil:
		g.report(g.fault)
		return g
	case o.File != "":
		g.path = o.File
	case o.URL != "":
		g.path = filepath.Join(g.opts.CacheDir, cacheName(o.URL))
		if err := g.connect(); err != nil {
			g.fault = fmt.Errorf("geo database: %w", err)
			g.report(g.fault)
			return g
		}
	default:
		return g
	}
	if err := g.load(); err != nil && !(g.downloads() && errors.Is(err, os.ErrNotExist)) {
		g.report(err)
		g.opts.Log.Warn("no geo database yet", "source", g.source(), "error", err)
	}
	return g
}

// connect makes ready for downloads. It does not touch the network.
func (g *Geo) connect() (err error) {
	if g.from, err = url.Parse(g.opts.URL); err != nil {
		return errors.New("the URL is none") // the error would show it
	}
	guard, err := g.opts.guard(g.from)
	if err != nil {
		return err
	}
	g.user, g.from.User = g.from.User, nil
	g.via = httpguard.Following(guard)
	if g.opts.Via != nil {
		g.via = httpguard.Following(g.opts.Via)
	}
	return nil
}

func (o GeoOptions) withDefaults() GeoOptions {
	o.MaxAge = cmp.Or(o.MaxAge, geoMaxAge)
	o.Wait = cmp.Or(o.Wait, geoWait)
	o.Pause = cmp.Or(o.Pause, geoPause)
	o.Timeout = cmp.Or(o.Timeout, geoTimeout)
	o.MaxBytes = cmp.Or(o.MaxBytes, geoMaxBytes)
	if o.CacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		o.CacheDir = filepath.Join(dir, "tidemill")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Country returns the two letters of the country (ISO 3166-1 alpha-2, "DE") that an
// address belongs to, from memory: it never waits and never fails. It is empty where the
// country is not known, for loopback, private and otherwise local addresses, for text that
// is no address, and as long as there is no database.
func (g *Geo) Country(ip string) string {
	if db := g.db.Load(); db != nil {
		return db.country(ip)
	}
	return ""
}

// Refresh makes one pass of keeping the database up to date, and is meant to be called
// every minute or so. With a file: reloads it when its time or size changed. With a URL:
// downloads the database when there is none or the one there is older than MaxAge, in 3
// tries; after that, not again for Pause. Where a pass fails, the database in use stays in
// use. Nil also means that there was nothing to do. The context ends downloads and waits.
func (g *Geo) Refresh(ctx context.Context) error {
	if g.fault != nil || g.path == "" {
		return g.fault
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := g.load() // another instance that shares the folder may have been quicker
	if !g.downloads() {
		g.report(err)
		return err
	}
	if db := g.db.Load(); err == nil && db != nil && !g.outdated(db.file.time) {
		g.report(nil)
		return nil
	}
	now := g.opts.Now()
	if since := now.Sub(g.failed); !g.failed.IsZero() && since >= 0 && since < g.opts.Pause {
		return nil // Status still has the reason
	}
	err = g.download(ctx)
	if ctx.Err() == nil {
		g.failed = time.Time{}
		if err != nil {
			g.failed = g.opts.Now()
		}
		g.report(err)
	}
	return err
}

// downloads says whether the database comes from a URL.
func (g *Geo) downloads() bool { return g.opts.File == "" && g.opts.URL != "" }

// outdated says whether a file of that time is to be replaced. A time well in the future
// is no time at all: a wrong clock wrote it, and would keep the file for ever.
func (g *Geo) outdated(t time.Time) bool {
	age := g.opts.Now().Sub(t)
	return age > g.opts.MaxAge || age < -24*time.Hour
}

// load takes the file into use when it is not the one that is in use.
func (g *Geo) load() error {
	id, err := identify(g.path)
	if err != nil {
		return fmt.Errorf("geo database: %w", err)
	}
	if db := g.db.Load(); db != nil && db.file == id {
		return nil
	}
	db, err := openDatabase(g.path, g.opts.MaxBytes)
	if err != nil {
		return fmt.Errorf("geo database: %w", err)
	}
	g.use(db)
	return nil
}

// use puts a database in the place of the one in use. Lookups that still read the old one
// keep it alive; then it is garbage.
func (g *Geo) use(db *database) {
	g.db.Store(db)
	g.opts.Log.Info("geo database in use", "source", g.source(), "type", db.reader.Metadata.DatabaseType, "built", db.built())
}

func (g *Geo) report(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// source names where the database comes from, without what may be secret in a URL.
func (g *Geo) source() string {
	switch {
	case g.opts.File != "":
		return g.opts.File
	case g.opts.URL == "" || g.fault != nil:
		return ""
	}
	return strings.TrimSuffix(urlsecret.Show(g.opts.URL), "?"+urlsecret.Hidden)
}

// GeoStatus tells how the country database stands.
type GeoStatus struct {
	Source string        // the file, or the URL without user, password and query; empty: none is configured
	Type   string        // what the database calls itself: "GeoLite2-Country"; empty: none is in use
	Built  time.Time     // when its maker built it
	Since  time.Time     // when it was downloaded; of a file: when it last changed
	Age    time.Duration // time since Since
	Stale  bool          // older than MaxAge: it is used as long as there is no newer one
	Err    error         // why the last Refresh failed; nil: it did not
}

// Loaded says whether there is a database in use.
func (s GeoStatus) Loaded() bool { return s.Type != "" }

// Status tells how the database stands.
func (g *Geo) Status() GeoStatus {
	g.mu.Lock()
	s := GeoStatus{Source: g.source(), Err: g.err}
	g.mu.Unlock()
	if db := g.db.Load(); db != nil {
		s.Type = cmp.Or(db.reader.Metadata.DatabaseType, "unnamed")
		s.Built = db.built()
		s.Since = db.file.time
		s.Age = g.opts.Now().Sub(s.Since)
		s.Stale = g.outdated(s.Since)
	}
	return s
}
