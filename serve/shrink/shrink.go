// Package shrink sends answers gzipped, where their client takes that and it helps. It is for answers
// to reads that carry no secret: from the size of an answer that has a secret beside what its sender
// chose, somebody who listens could guess the secret.
package shrink

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// least is how many bytes an answer has that is worth it.
const least = 1024

// level is the one that costs the least: an answer is made once and sent once.
const level = gzip.BestSpeed

var writers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, level) // the level is one that there is
	return z
}}

// Answer has an answer written gzipped: one that has 1 KB or more and a type that is text, to a request of
// ours that is a GET or a HEAD. Its ETag stays that of what is told. What is written in parts goes on
// with each Flush; one that flushes before it has 1 KB stays as it is.
//
// The answer is whole once end has been called. A handler that panics must not call it, so that the client sees
// that the answer was cut off.
func Answer(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, end func()) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return w, func() {}
	}
	w.Header().Add("Vary", "Accept-Encoding")
	if !Takes(r) || fromElsewhere(r) {
		return w, func() {}
	}
	a := &answer{ResponseWriter: w}
	return a, a.end
}

// Takes says whether the client of a request takes gzip.
func Takes(r *http.Request) bool {
	for _, said := range r.Header["Accept-Encoding"] {
		for way := range strings.SplitSeq(said, ",") {
			name, weight, _ := strings.Cut(way, ";")
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
				continue
			}
			_, q, given := strings.Cut(weight, "=")
			much, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !given || err == nil && much > 0
		}
	}
	return false
}

// fromElsewhere says whether a page of another site has the browser send a request: that may choose a
// part of the answer many times.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// answer is one of which it is not known yet whether it is gzipped, or it is.
type answer struct {
	http.ResponseWriter
	status int    // 0: not said yet
	begun  []byte // not sent yet
	plain  bool   // it stays as it is
	z      *gzip.Writer
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
	if status < http.StatusOK || status == http.StatusNoContent || status == http.StatusNotModified {
		a.plain = a.plain || status >= http.StatusOK
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	switch {
	case a.plain:
		return a.ResponseWriter.Write(b)
	case a.z != nil:
		return a.z.Write(b)
	case len(a.begun)+len(b) < least:
		a.begun = append(a.begun, b...)
		return len(b), nil
	case !a.fits():
		if err := a.asItIs(); err != nil {
			return 0, err
		}
		return a.ResponseWriter.Write(b)
	}
	h := a.Header()
	h.Set("Content-Encoding", "gzip")
	h.Del("Content-Length")
	a.ResponseWriter.WriteHeader(a.status)
	a.z, _ = writers.Get().(*gzip.Writer)
	a.z.Reset(a.ResponseWriter)
	if _, err := a.z.Write(a.begun); err != nil {
		return 0, err
	}
	a.begun = nil
	return a.z.Write(b)
}

// fits says whether an answer is text, and as it was made.
func (a *answer) fits() bool {
	kind, _, _ := strings.Cut(a.Header().Get("Content-Type"), ";")
	switch kind {
	case "application/json", "application/problem+json", "application/x-ndjson", "application/yaml", "text/html", "text/csv", "text/plain":
		return a.Header().Get("Content-Encoding") == ""
	}
	return false
}

// asItIs sends what there is, and all that comes, as it is.
func (a *answer) asItIs() (err error) {
	a.plain = true
	if a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
	if len(a.begun) > 0 {
		_, err = a.ResponseWriter.Write(a.begun)
		a.begun = nil
	}
	return err
}

// FlushError sends what there is, as http.ResponseController asks for it.
func (a *answer) FlushError() error {
	var err error
	switch {
	case a.plain:
	case a.z != nil:
		err = a.z.Flush()
	default:
		err = a.asItIs()
	}
	if err != nil {
		return err
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap implements what http.ResponseController asks for.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) end() {
	switch {
	case a.plain:
	case a.z != nil:
		_ = a.z.Close() // the client is gone
		a.z.Reset(nil)
		writers.Put(a.z)
	default:
		_ = a.asItIs()
	}
}
