package enrich

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const siteURL = "http://user:hunter2@geo.example/country.mmdb?license_key=hunter2"

// wantFiles checks how many files the cache folder has: no download leaves a part behind.
func wantFiles(t *testing.T, dir string, want int) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !(want == 0 && errors.Is(err, os.ErrNotExist)) {
		t.Fatal(err)
	}
	if len(files) != want {
		t.Errorf("files in the cache folder: %v, want %d", files, want)
	}
}

func TestDownload(t *testing.T) {
	good := oneCountry(t, "GB")
	bomb := zipped(t, make([]byte, 10<<20))
	for _, c := range []struct {
		what    string
		answers []http.HandlerFunc
		took    time.Duration
		asked   int64
		err     string // part of it; empty: it succeeds
	}{
		{"the first try is immediate", []http.HandlerFunc{serve(good)}, 0, 1, ""},
		{"the second try comes 2 s after the first", []http.HandlerFunc{status(500), serve(good)}, 2 * time.Second, 2, ""},
		{"the third try comes 4 s after the second", []http.HandlerFunc{status(503), status(429), serve(good)}, 6 * time.Second, 3, ""},
		{"no try follows the third", []http.HandlerFunc{status(500)}, 6 * time.Second, 3, "500 Internal Server Error"},
		{"no answer is an error", []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, 6 * time.Second, 3, "EOF"},
		{"a missing database is an error", []http.HandlerFunc{status(404)}, 6 * time.Second, 3, "404 Not Found"},
		{"a body shorter than promised is refused", []http.HandlerFunc{short(good)}, 6 * time.Second, 3, "unexpected EOF"},
		{"a line that breaks is an error", []http.HandlerFunc{cut(good)}, 6 * time.Second, 3, "unexpected EOF"},
		{"half a database is refused", []http.HandlerFunc{serve(good[:len(good)/2])}, 6 * time.Second, 3, "no MMDB database"},
		{"a page is no database", []http.HandlerFunc{serve([]byte("<html>"))}, 6 * time.Second, 3, "no MMDB database"},
		{"nothing is no database", []http.HandlerFunc{serve(nil)}, 6 * time.Second, 3, "no MMDB database"},
		{"nothing with status 204 is an error", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }}, 6 * time.Second, 3, "204"},
		{"a try ends after its timeout", []http.HandlerFunc{stuck(good)}, 3*time.Minute + 6*time.Second, 3, "no end after 1m0s"},
		{"after a try that stuck, the next one succeeds", []http.HandlerFunc{stuck(good), serve(good)}, time.Minute + 2*time.Second, 2, ""},
		{"after garbage, the next one succeeds", []http.HandlerFunc{serve([]byte("garbage")), serve(good)}, 2 * time.Second, 2, ""},
		{"a database that is too large is refused", []http.HandlerFunc{serve(make([]byte, 1<<20+1))}, 6 * time.Second, 3, "larger than allowed"},
		{"so is one that inflates to too much", []http.HandlerFunc{serve(bomb)}, 6 * time.Second, 3, "larger than allowed"},
		{"a .gz is inflated", []http.HandlerFunc{serve(zipped(t, good))}, 0, 1, ""},
		{"a .gz that the transport inflates is taken as it is", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(zipped(t, good))
		}}, 0, 1, ""},
		{"half a .gz is refused", []http.HandlerFunc{serve(zipped(t, good)[:200])}, 6 * time.Second, 3, "unexpected EOF"},
		{"a .tar.gz is unpacked", []http.HandlerFunc{serve(archived(t, "Geo_1/LICENSE.txt", []byte("free"), "Geo_1/Geo.mmdb", good))}, 0, 1, ""},
		{"a .tar.gz without a database is refused", []http.HandlerFunc{serve(archived(t, "Geo_1/LICENSE.txt", []byte("free")))}, 6 * time.Second, 3, "no .mmdb file"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "a", "b")
				s := newSite(t, c.answers...)
				var log bytes.Buffer
				g := NewGeo(GeoOptions{URL: siteURL, CacheDir: dir, Via: s.via, Timeout: time.Minute, MaxBytes: 1 << 20,
					Log: slog.New(slog.NewTextHandler(&log, nil))})
				wantCountry(t, g, "")
				start := time.Now()
				err := g.Refresh(t.Context())
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				s.wantAsked(t, c.asked)
				st := g.Status()
				if c.err == "" {
					if err != nil || st.Err != nil {
						t.Errorf("Refresh = %v, Status().Err = %v, want none", err, st.Err)
					}
					wantCountry(t, g, "GB")
					wantFiles(t, dir, 1)
				} else {
					if err == nil || !strings.Contains(err.Error(), c.err) || st.Err != err {
						t.Errorf("Refresh = %v, Status().Err = %v, want %q", err, st.Err, c.err)
					}
					wantCountry(t, g, "")
					wantFiles(t, dir, 0)
				}
				if said := fmt.Sprint(err, st, log.String()); strings.Contains(said, "hunter2") || strings.Contains(said, "user:") {
					t.Errorf("a secret is shown: %s", said)
				}
				if st.Source != "http://geo.example/country.mmdb" {
					t.Errorf("Status().Source = %q", st.Source)
				}
			})
		})
	}
}

func TestDatabaseIsRenewedAfter30DaysAndUsedUntilThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		s := newSite(t, serve(oneCountry(t, "GB")), status(500), status(500), status(500), serve(oneCountry(t, "FR")))
		o := GeoOptions{URL: siteURL, CacheDir: t.TempDir(), Via: s.via}
		g := NewGeo(o)
		refresh := func(wantErr bool) {
			t.Helper()
			if err := g.Refresh(t.Context()); (err != nil) != wantErr {
				t.Errorf("Refresh = %v, want an error: %v", err, wantErr)
			}
		}
		refresh(false)
		s.wantAsked(t, 1)
		time.Sleep(30 * day)
		refresh(false)
		s.wantAsked(t, 1)

		time.Sleep(time.Second) // it is stale now, and the site is down
		refresh(true)
		s.wantAsked(t, 4)
		wantCountry(t, g, "GB")
		if st := g.Status(); !st.Stale || st.Err == nil || st.Age < 30*day || st.Built != buildTime {
			t.Errorf("Status = %+v, want a stale database and the error", st)
		}

		g = NewGeo(o) // after a restart, too
		wantCountry(t, g, "GB")
		s.wantAsked(t, 4)

		refresh(false)
		s.wantAsked(t, 5)
		wantCountry(t, g, "FR")
		if st := g.Status(); st.Stale || st.Err != nil || st.Age != 0 {
			t.Errorf("Status = %+v, want a fresh database", st)
		}
		wantFiles(t, o.CacheDir, 1)
	})
}

func TestFailedDownloadsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, status(500))
		g := NewGeo(GeoOptions{URL: siteURL, CacheDir: t.TempDir(), Via: s.via})
		if err := g.Refresh(t.Context()); err == nil {
			t.Error("Refresh succeeded, want an error")
		}
		for range 59 {
			time.Sleep(time.Minute)
			if err := g.Refresh(t.Context()); err != nil {
				t.Errorf("Refresh = %v, want nil: there is nothing to do yet", err)
			}
		}
		s.wantAsked(t, 3)
		if g.Status().Err == nil {
			t.Error("Status forgot why there is no database")
		}
		time.Sleep(time.Minute)
		if err := g.Refresh(t.Context()); err == nil {
			t.Error("Refresh succeeded, want an error")
		}
		s.wantAsked(t, 6)
	})
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	enough := errors.New("enough")
	for what, answer := range map[string]http.HandlerFunc{"between tries": status(500), "in a body": stuck(make([]byte, 10))} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				s := newSite(t, answer, serve(oneCountry(t, "GB")))
				g := NewGeo(GeoOptions{URL: siteURL, CacheDir: dir, Via: s.via})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(time.Second, func() { cancel(enough) })
				start := time.Now()
				if err := g.Refresh(ctx); !errors.Is(err, enough) || time.Since(start) != time.Second {
					t.Errorf("Refresh = %v after %v, want %v after 1s", err, time.Since(start), enough)
				}
				wantFiles(t, dir, 0)
				if err := g.Refresh(t.Context()); err != nil { // a stop is not a failure that pauses
					t.Error(err)
				}
				wantCountry(t, g, "GB")
			})
		})
	}
}

func TestOnlyOneRefreshWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, status(500), serve(oneCountry(t, "GB")))
		g := NewGeo(GeoOptions{URL: siteURL, CacheDir: t.TempDir(), Via: s.via})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := g.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // one of them waits for its second try
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Refresh(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Refresh = %v, want %v", err, context.Canceled)
		}
		wg.Wait()
		s.wantAsked(t, 2)
	})
}

func TestInstancesShareTheCacheFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, serve(oneCountry(t, "GB")))
		o := GeoOptions{URL: siteURL, CacheDir: t.TempDir(), Via: s.via}
		a, b := NewGeo(o), NewGeo(o)
		for _, g := range []*Geo{a, b} {
			if err := g.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			wantCountry(t, g, "GB")
		}
		s.wantAsked(t, 1)
	})
}

func TestCacheIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, serve(oneCountry(t, "GB")))
		o := GeoOptions{URL: siteURL, CacheDir: t.TempDir(), Via: s.via}
		path := NewGeo(o).path
		for what, file := range map[string]struct {
			data []byte
			time time.Time
		}{
			"a broken file":          {[]byte("broken"), time.Now()},
			"a file from the future": {oneCountry(t, "FR"), time.Now().Add(1000 * time.Hour)},
		} {
			replace(t, path, file.data, file.time)
			s.asked.Store(0)
			g := NewGeo(o)
			if err := g.Refresh(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			s.wantAsked(t, 1)
			wantCountry(t, g, "GB")
		}
	})
}

func TestAnotherURLIsAnotherDatabase(t *testing.T) {
	names := map[string]string{}
	for _, u := range []string{"http://a/db.mmdb", "http://b/db.mmdb", "https://a/db.mmdb", "http://a/db.mmdb?edition_id=City"} {
		names[cacheName(u)] = u
	}
	if len(names) != 4 {
		t.Errorf("4 URLs have %d names: %v", len(names), names)
	}
	if a, b := cacheName("http://u:p@a/db?edition_id=City&license_key=1"), cacheName("http://v:q@a/db?license_key=2&edition_id=City"); a != b {
		t.Errorf("another key makes another name: %s, %s", a, b)
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		old, fresh, foreign := filepath.Join(dir, "geo-1.part"), filepath.Join(dir, "geo-2.part"), filepath.Join(dir, "else.part")
		replace(t, old, nil, time.Now().Add(-25*time.Hour))
		replace(t, fresh, nil, time.Now().Add(-time.Hour))
		replace(t, foreign, nil, time.Now().Add(-25*time.Hour))
		s := newSite(t, serve(oneCountry(t, "GB")))
		g := NewGeo(GeoOptions{URL: siteURL, CacheDir: dir, Via: s.via})
		if err := g.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		wantFiles(t, dir, 3)
		if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the old leftover is still there: %v", err)
		}
	})
}

func TestUnwritableCacheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	replace(t, file, nil, time.Now())
	g := NewGeo(GeoOptions{URL: siteURL, CacheDir: filepath.Join(file, "cache"), Wait: time.Millisecond})
	if err := g.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("Refresh = %v, want advice to choose another folder", err)
	}
	wantCountry(t, g, "")
}

func TestRedirects(t *testing.T) {
	data := oneCountry(t, "GB")
	var referer atomic.Value
	plainSite := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		referer.Store(r.Referer() + r.Header.Get("Authorization"))
		w.Write(data)
	}))
	defer plainSite.Close()
	to := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
	}
	redirecting := func(target string) *httptest.Server {
		s := httptest.NewServer(to(target))
		t.Cleanup(s.Close)
		return s
	}
	secure := httptest.NewTLSServer(serve(data))
	defer secure.Close()
	downgrade := httptest.NewTLSServer(to(plainSite.URL))
	defer downgrade.Close()
	loop := httptest.NewServer(to("/"))
	defer loop.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	roots.AddCert(downgrade.Certificate())
	for _, c := range []struct {
		what, url string
		err       string
	}{
		{"within http", redirecting(plainSite.URL).URL, ""},
		{"from http to https", redirecting(secure.URL).URL, ""},
		{"from https to http", downgrade.URL, "redirect from https to http refused"},
		{"to a file", redirecting("file:///etc/passwd").URL, "redirect from http to file refused"},
		{"in circles", loop.URL, "more than 10 redirects"},
	} {
		withKey := strings.Replace(c.url, "://", "://user:hunter2@", 1) + "/?key=hunter2"
		g := NewGeo(GeoOptions{URL: withKey, CacheDir: t.TempDir(), Roots: roots, Allow: loopback, Wait: time.Millisecond})
		err := g.Refresh(t.Context())
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: Refresh = %v, want %q", c.what, err, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is shown: %v", c.what, err)
		}
	}
	if got, _ := referer.Load().(string); got != "" {
		t.Errorf("the next host learned the URL or the password: %q", got)
	}
}

func TestLimitedTellsMoreFromTheEnd(t *testing.T) {
	for size, ok := range map[int]bool{0: true, 9: true, 10: true, 11: false, 1000: false} {
		data, err := io.ReadAll(&limited{strings.NewReader(strings.Repeat("x", size)), 10})
		if (err == nil) != ok || ok && len(data) != size {
			t.Errorf("%d bytes through a limit of 10: %d bytes, %v", size, len(data), err)
		}
	}
}
