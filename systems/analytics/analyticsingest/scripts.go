package analyticsingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
)

// The libraries that pages may load from here, by their folders below node_modules.
const (
	posthogScripts = "posthog-js/dist"
	segmentScripts = "@segment/analytics-next/dist/umd"
)

// scripts are the libraries for browsers, from packages that are installed in a folder. A
// file is read once, when it is first asked for.
type scripts struct {
	folder fs.FS

	mu    sync.Mutex // guards what follows; held for work in memory only
	files map[string]*script
}

// script is one file.
type script struct {
	plain, packed []byte
	modified      time.Time
}

// openScripts looks into a node_modules folder. Nil without a folder; an error where
// neither library is in it.
func openScripts(folder string) (*scripts, error) {
	if folder == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder of scripts: %w", err)
	}
	s := &scripts{folder: root.FS(), files: map[string]*script{}}
	_, posthog := fs.Stat(s.folder, posthogScripts)
	_, segment := fs.Stat(s.folder, segmentScripts)
	if posthog != nil && segment != nil {
		return nil, fmt.Errorf("the folder of scripts %s has neither %s nor %s: install the package posthog-js or @segment/analytics-next there, and name the node_modules folder", folder, posthogScripts, segmentScripts)
	}
	return s, nil
}

// file returns one of a library's files; fs.ErrNotExist where there is none.
func (s *scripts) file(name string) (*script, error) {
	if s == nil || !fs.ValidPath(name) || path.Ext(name) != ".js" {
		return nil, fs.ErrNotExist
	}
	s.mu.Lock()
	known, ok := s.files[name]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	info, err := fs.Stat(s.folder, name)
	if err != nil {
		return nil, err
	}
	read := &script{modified: info.ModTime()}
	if read.plain, err = fs.ReadFile(s.folder, name); err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(read.plain)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	read.packed = packed.Bytes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = read
	return read, nil
}

// parts of the path, without empty ones.
func (x *exchange) parts() []string {
	return strings.FieldsFunc(x.R.URL.Path, func(c rune) bool { return c == '/' })
}

// posthogScript serves /static/<file> and, for pages that name the version of their
// library, /static/<version>/<file>.
func (x *exchange) posthogScript() *request.Problem {
	parts := x.parts()
	return x.script(posthogScripts + "/" + parts[len(parts)-1])
}

// segmentLoader serves the one script that Segment's snippet loads.
func (x *exchange) segmentLoader() *request.Problem {
	return x.script(segmentScripts + "/standalone.js")
}

// segmentBundle serves what that script loads when it needs it.
func (x *exchange) segmentBundle() *request.Problem {
	return x.script(segmentScripts + "/" + x.parts()[2])
}

// script answers with a file. Pages may keep it for an hour, and ask then whether it has
// changed.
func (x *exchange) script(name string) *request.Problem {
	f, err := x.h.scripts.file(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &request.Problem{Status: http.StatusNotFound, Reason: "no_script", Text: "there is no such script here; analytics.scripts (TIDEMILL_ANALYTICS_SCRIPTS) names the node_modules folder with posthog-js and @segment/analytics-next"}
	case err != nil:
		// Logged when a page asked for a script of an SDK, and its file cannot be read.
		// To do: correct the folder `analytics.scripts` and its rights.
		x.h.o.Log.ErrorContext(x.R.Context(), "a script cannot be read", "file", name, "error", err)
		return request.Busy("scripts", "the script cannot be read")
	}
	h := x.Header
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Cache-Control", "public, max-age=3600")
	h.Add("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(x.R.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	x.Answered(http.StatusOK)
	http.ServeContent(x.W, x.R, "", f.modified, bytes.NewReader(body))
	return nil
}

// segmentSettings answers what analytics.js asks at its start: that its calls go to the
// address that it asked, and nowhere else.
func (x *exchange) segmentSettings() *request.Problem {
	key := x.parts()[2]
	if project.CheckKey(key) != nil {
		return request.BadRequest("the key in the path is none")
	}
	x.Header.Set("Cache-Control", "no-cache")
	scheme := "http"
	if request.HTTPS(x.R, x.h.o.TrustProxy) {
		scheme = "https"
	}
	quoted := func(s string) []byte {
		b, _ := jsontext.AppendQuote(nil, s) // the error is about bytes that are no UTF-8
		return b
	}
	x.json(http.StatusOK, fmt.Sprintf(`{"integrations":{"Segment.io":{"apiKey":%s,"apiHost":%s,"protocol":%q}},"metrics":{"sampleRate":0},"remotePlugins":[],"enabledMiddleware":{},"middlewareSettings":{},"legacyVideoPluginsEnabled":false,"analyticsNextEnabled":true}`,
		quoted(key), quoted(x.R.Host+"/v1"), scheme))
	return nil
}
