package opensearchsearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// bulkPath asks only for the parts of the answer that are read.
const bulkPath = "/_bulk?filter_path=items.*.status,items.*.error"

// call is one call of Index.
type call struct {
	store   *Store
	docs    []search.Doc
	errs    []error  // by document; nil: durable
	indices []string // by document, for those that stand
	lines   []byte   // of the request that is being made
	inside  []int    // the documents in it
}

// Index implements search.Indexer. Requests of one call go in order. When one is refused as a
// whole the rest is not sent.
func (s *Store) Index(ctx context.Context, docs []search.Doc) error {
	if !s.ready.Load() {
		if err := s.Setup(ctx); err != nil {
			return err
		}
	}
	c := &call{store: s, docs: docs, errs: make([]error, len(docs))}
	newest := c.newest()
	err := c.place(ctx, newest)
	if err == nil {
		err = c.send(ctx, newest)
	} else {
		for i := range docs {
			if newest[i] == i {
				c.errs[i] = err
			}
		}
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	var out search.Outcome
	for i, at := range newest {
		if c.errs[i] == nil && c.errs[at] != nil && at != i {
			c.errs[i] = tidemill.Fail(tidemill.Transient, "index a document: a newer one of its id was not taken: %w", c.errs[at])
		}
		if c.errs[i] != nil {
			out.Fail(i, c.errs[i])
		}
	}
	return out.Err()
}

// newest says for each document which one is sent for it: itself, or the newest of its id in
// the call. Otherwise a retry of a refused one would overwrite another that was not refused.
// -1: it cannot be sent.
func (c *call) newest() []int {
	type key struct{ schema, day, id string }
	last := make(map[key]int, len(c.docs))
	for i := range c.docs {
		d := &c.docs[i]
		if c.errs[i] = d.Check(); c.errs[i] == nil && c.store.schemas[d.Schema] == nil {
			c.errs[i] = search.Unknown(d.Schema)
		}
		n := key{d.Schema, d.Day, d.ID}
		if at, ok := last[n]; c.errs[i] == nil && (!ok || c.docs[at].Version <= d.Version || d.Version == 0) {
			last[n] = i
		}
	}
	stand := make([]int, len(c.docs))
	for i := range c.docs {
		d := &c.docs[i]
		stand[i] = -1
		if c.errs[i] == nil {
			stand[i] = last[key{d.Schema, d.Day, d.ID}]
		}
	}
	return stand
}

// send cuts the documents that stand into requests. The error is of a request that was lost or
// refused as a whole; errs has it too.
func (c *call) send(ctx context.Context, stand []int) error {
	flush := func(next int) error {
		if len(c.inside) == 0 {
			return nil
		}
		err := c.request(ctx, c.lines, c.inside)
		for i := next; err != nil && i < len(c.docs); i++ {
			if stand[i] == i {
				c.errs[i] = err
			}
		}
		c.lines, c.inside = c.lines[:0], c.inside[:0]
		return err
	}
	for i := range c.docs {
		if stand[i] != i {
			continue
		}
		if room := c.store.o.BatchBytes - len(c.lines) - len(c.docs[i].Body) - len(c.docs[i].ID) - 512; len(c.inside) == c.store.o.BatchDocs || room < 0 {
			if err := flush(i); err != nil {
				return err
			}
		}
		c.lines = appendDoc(c.lines, c.store.schemas[c.docs[i].Schema], c.indices[i], &c.docs[i])
		c.inside = append(c.inside, i)
	}
	return flush(len(c.docs))
}

// appendDoc writes the two lines of a document. Line ends in its body, which JSON allows
// between tokens only, become spaces.
func appendDoc(b []byte, s *search.Schema, index string, d *search.Doc) []byte {
	b = append(append(append(b, `{"index":{"_index":"`...), index...), `","_id":`...)
	if index == s.Index(d.Day) {
		b, _ = jsontext.AppendQuote(b, d.ID) // Check has seen that it is UTF-8
	} else {
		b, _ = jsontext.AppendQuote(b, name(d))
		b = append(append(append(b, `,"routing":"`...), d.Day...), '"')
	}
	if d.Version > 0 {
		b = append(strconv.AppendUint(append(b, `,"version":`...), d.Version, 10), `,"version_type":"external_gte"`...)
	}
	b = append(b, "}}\n"...)
	start := len(b)
	b = append(b, d.Body...)
	for i := start; i < len(b); i++ {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return append(b, '\n')
}

// request sends lines and notes what became of each document. A request that is too large
// is sent in halves.
func (c *call) request(ctx context.Context, lines []byte, inside []int) error {
	answer, err := c.store.conn.Bulk(ctx, bulkPath, lines)
	switch {
	case opensearchhttp.Status(err) == http.StatusRequestEntityTooLarge && len(inside) > 1:
		return c.halves(ctx, lines, inside)
	case opensearchhttp.Status(err) == http.StatusRequestEntityTooLarge:
		c.errs[inside[0]] = fmt.Errorf("index a document of %d bytes: %w", len(lines), err)
		return nil
	case err != nil:
		err = fmt.Errorf("index %d documents: %w", len(inside), blameless(err))
	default:
		err = c.items(answer, inside)
	}
	for _, i := range inside {
		if err != nil {
			c.errs[i] = err
		}
	}
	return err
}

// blameless is the error of a request that no document caused, whatever the server says.
func blameless(err error) error {
	if e, ok := errors.AsType[*tidemill.Error](err); ok && e.Kind == tidemill.Validation {
		return &tidemill.Error{Kind: tidemill.Transient, After: e.After, Err: err}
	}
	return err
}

func (c *call) halves(ctx context.Context, lines []byte, inside []int) error {
	half, end := len(inside)/2, 0
	for range 2 * half { // two lines a document
		end += bytes.IndexByte(lines[end:], '\n') + 1
	}
	err := c.request(ctx, lines[:end], inside[:half])
	if err == nil {
		return c.request(ctx, lines[end:], inside[half:])
	}
	for _, i := range inside[half:] {
		c.errs[i] = err
	}
	return err
}

// items reads the result of each document.
func (c *call) items(answer []byte, inside []int) error {
	var said struct {
		Items []map[string]struct {
			Status int                       `json:"status"`
			Error  *opensearchhttp.Exception `json:"error"`
		} `json:"items"`
	}
	err := json.Unmarshal(answer, &said)
	if err != nil || len(said.Items) != len(inside) {
		return tidemill.Fail(tidemill.Transient, "index %d documents: the answer has %d results; what became of each cannot be read", len(inside), len(said.Items))
	}
	for n, item := range said.Items {
		i := inside[n]
		r, ok := item["index"]
		switch {
		case !ok || r.Status == 0:
			c.errs[i] = tidemill.Fail(tidemill.Transient, "index a document: its result cannot be read")
		case r.Status >= 200 && r.Status < 300, r.Status == http.StatusConflict: // a newer version is stored
		default:
			var e opensearchhttp.Exception
			if r.Error != nil {
				e = *r.Error
			}
			c.errs[i] = fmt.Errorf("index a document in %s: %w", c.indices[i], c.store.conn.Refused(r.Status, e))
		}
	}
	return nil
}
