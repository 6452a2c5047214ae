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
// leaves countries empty. If both are set, File is used.
type GeoOptions struct {
	URL      string        // http or https; an MMDB database, plain, .gz or .tar.gz. May hold a key: only its host and path are ever shown
	File     string        // an MMDB database, plain, .gz or .tar.gz, that somebody else keeps up to date
	CacheDir string        // where a downloaded database is kept; empty means "tidemill" in the user's cache folder, or else the temporary one
	MaxAge   time.Duration // a downloaded database older than this is replaced; 0 means 30 days
	Wait     time.Duration // between tries, times the number of the try; 0 means 2 s
	Pause    time.Duration // after a download whose 3 tries all failed, before the next; 0 means 1 h
	Timeout  time.Duration // for one try; 0 means 5 min
	MaxBytes int64         // of the download, and of its inflated content; 0 means 200 MiB
	Now      func() time.Time
	Log      *slog.Logger // nil discards

	// Allow are private networks that may be downloaded from: they may hold the URL's own host,
	// the targets of its redirects, and the environment's proxy.
	Allow   []netip.Prefix
	AllowBy string            // the setting of Allow, for errors; empty: allowPrivate
	Roots   *x509.CertPool    // trusted certificate authorities; nil: the system's
	Via     http.RoundTripper // sends the requests instead of the guarded network: for simulation
}

// Check says what is wrong with the options. Check a configuration with it before the system
// runs. NewGeo accepts faulty options, too. Then every Refresh returns this error, and
// countries stay empty.
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
	u.User = nil // it is sent as a header
	if err := guard.CheckURL(u); err != nil {
		return fmt.Errorf("geo database: %w", err)
	}
	return nil
}

// guard is the guard of downloads. The URL's scheme decides whether http is allowed: a redirect
// from https to http is not followed.
func (o GeoOptions) guard(u *url.URL) (*httpguard.Guard, error) {
	return httpguard.New(httpguard.Options{Allow: o.Allow, AllowBy: o.AllowBy, Roots: o.Roots, Plain: u.Scheme == "http", Proxy: true})
}

// Geo tells the country of an IP address. It has a database in memory that Refresh keeps up to
// date. Without one every country is empty. It is safe for concurrent use.
type Geo struct {
	opts  GeoOptions
	fault error         // of the options
	from  *url.URL      // without user and password
	user  *url.Userinfo // nil: none
	via   *http.Client
	path  string        // the file that the database is read from; empty: none is configured
	turn  chan struct{} // held by the one running Refresh
	db    atomic.Pointer[database]

	failed time.Time // when the last download failed; held by turn

	mu  sync.Mutex // guards err
	err error      // the result of the last Refresh that did anything
}

// NewGeo loads a database that is on disk already, however old it is, so that the first events
// have countries. It does not use the network; Refresh does.
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
		// Logged at the start, when the file of `analytics.geoip` cannot be read.
		// To do: put the file there, or correct its name; events have no country meanwhile.
		g.opts.Log.Warn("there is no country database yet", "source", g.source(), "error", err)
	}
	return g
}

// connect prepares downloads. It does not use the network.
func (g *Geo) connect() (err error) {
	if g.from, err = url.Parse(g.opts.URL); err != nil {
		return errors.New("the URL is none") // the parser's error would quote it
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

// Country returns the country code (ISO 3166-1 alpha-2, "DE") of an address, from memory: it
// never waits and never fails. It is empty if the country is unknown, for loopback, private and
// otherwise local addresses, for text that is not an address, and while no database is loaded.
func (g *Geo) Country(ip string) string {
	if db := g.db.Load(); db != nil {
		return db.country(ip)
	}
	return ""
}

// Refresh keeps the database up to date. Call it about once a minute. With a file, it reloads
// it when its time or size has changed. With a URL, it downloads the database when none is
// stored or the stored one is older than MaxAge, in 3 tries; after that, not again for Pause.
// If it fails, the loaded database stays in use. Nil also means that nothing had to be done.
// The context ends downloads and waits.
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
	err := g.load() // another instance that shares the folder may have been faster
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

// downloads reports whether the database comes from a URL.
func (g *Geo) downloads() bool { return g.opts.File == "" && g.opts.URL != "" }

// outdated reports whether a file of that time has to be replaced. A time well in the future
// does not count: a wrong clock wrote it, and would keep the file for ever.
func (g *Geo) outdated(t time.Time) bool {
	age := g.opts.Now().Sub(t)
	return age > g.opts.MaxAge || age < -24*time.Hour
}

// load loads the file if it is not the loaded one.
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

// use replaces the loaded database. Lookups that still read the old one keep it alive; then it
// is garbage.
func (g *Geo) use(db *database) {
	g.db.Store(db)
	// Logged each time a country database was loaded.
	g.opts.Log.Info("a country database is in use", "source", g.source(), "database", db.reader.Metadata.DatabaseType, "built", db.built())
}

func (g *Geo) report(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// source names the origin of the database, without secrets of a URL.
func (g *Geo) source() string {
	switch {
	case g.opts.File != "":
		return g.opts.File
	case g.opts.URL == "" || g.fault != nil:
		return ""
	}
	return strings.TrimSuffix(urlsecret.Show(g.opts.URL), "?"+urlsecret.Hidden)
}

// GeoStatus is the state of the country database.
type GeoStatus struct {
	Source string        // the file, or the URL without user, password and query; empty: none is configured
	Type   string        // the database's own name: "GeoLite2-Country"; empty: none is loaded
	Built  time.Time     // when its maker built it
	Since  time.Time     // when it was downloaded; of a file: its last change
	Age    time.Duration // time since Since
	Stale  bool          // older than MaxAge: it is used until a newer one is loaded
	Err    error         // why the last Refresh failed; nil: it did not
}

// Loaded reports whether a database is loaded.
func (s GeoStatus) Loaded() bool { return s.Type != "" }

// Status returns the state of the database.
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
