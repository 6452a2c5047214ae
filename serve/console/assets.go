package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/tidemill/tidemill/serve/shrink"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that pages load.
type asset struct {
	kind          string
	plain, zipped []byte
}

// assets are the files that pages load, by their address. That has a sum of the content, so that a
// browser keeps a file for as long as it stays the same.
type assets struct {
	at   map[string]*asset
	urls map[string]string // by name
}

const assetPath = Prefix + "assets/"

var assetKinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func newAssets() (*assets, error) {
	a := &assets{at: map[string]*asset{}, urls: map[string]string{}}
	names, err := fs.Glob(assetFiles, "assets/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := fs.ReadFile(assetFiles, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		url := assetPath + hex.EncodeToString(sum[:8]) + "/" + path.Base(name)
		a.urls[path.Base(name)] = url
		a.at[url] = &asset{kind: assetKinds[path.Ext(name)], plain: b, zipped: zip(b)}
	}
	return a, nil
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is one that there is
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// serve answers a request for an asset; false: it is for something else.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, assetPath) {
		return false
	}
	f := a.at[r.URL.Path]
	if f == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return true
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Vary", "Accept-Encoding")
	body := f.plain
	if shrink.Takes(r) {
		w.Header().Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	_, _ = w.Write(body)
	return true
}

// url is the address of an asset.
func (a *assets) url(name string) string { return a.urls[name] }
