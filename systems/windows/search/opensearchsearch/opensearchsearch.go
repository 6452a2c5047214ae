// Package opensearchsearch is the search index in an OpenSearch or an Elasticsearch: one index
// per family and kept day. The server makes it from an index template when the first document
// of the day comes, and Expire removes it when it is old. Documents of all other days share one
// index per month of arrival, so that the days in records cannot use up a server's shards.
//
// It uses what both servers have in common: bulk, composable templates (Elasticsearch 7.8 and
// newer), query DSL, search_after. Documents carry their ids, so every request may be repeated.
package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	BatchDocs  int // most documents of one bulk request; 0 means 2,000
	BatchBytes int // most bytes of one, a larger document goes alone; 0 means 8 MiB
	// Unmanaged leaves index templates to somebody else: Setup does nothing, and needs no
	// permission. Indices without their template get types that the server guesses.
	Unmanaged bool
	// NewIndices is how many indices are made within an hour at most. Documents of further days
	// go to the common index, and Overflow counts them. 0 means 200.
	NewIndices int
	// Now is the clock by which days are kept; nil means time.Now.
	Now func() time.Time
}

// Store is an index on a server.
type Store struct {
	conn    *opensearchhttp.Conn
	schemas map[string]*search.Schema
	names   []string // of schemas, sorted
	o       Options
	ready   atomic.Bool // templates were found right
	places  places
}

var _ search.Store = (*Store)(nil)

// New makes an index on a connection, which stays the caller's. It makes no request. Index
// calls Setup before the first document unless that was done: an index made without its
// template has wrong types for good.
func New(conn *opensearchhttp.Conn, o Options, schemas ...*search.Schema) (*Store, error) {
	m, err := search.ByName(schemas)
	if err != nil {
		return nil, err
	}
	if o.BatchDocs < 0 || o.BatchBytes < 0 {
		return nil, fmt.Errorf("open a search index: batches of %d documents and %d bytes; they cannot be negative", o.BatchDocs, o.BatchBytes)
	}
	if o.BatchDocs == 0 {
		o.BatchDocs = 2000
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = 8 << 20
	}
	if o.NewIndices == 0 {
		o.NewIndices = 200
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{conn: conn, schemas: m, o: o}
	for name := range m {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	return s, nil
}

// Health implements search.Store: the server answers, and no index of ours is red.
func (s *Store) Health(ctx context.Context) error {
	answer, err := s.conn.Do(ctx, http.MethodGet, "/_cluster/health/"+s.all()+"?timeout=1s&filter_path=status", nil)
	if opensearchhttp.Status(err) == http.StatusForbidden {
		return nil // it answers; a user that may write need not be allowed to look
	}
	if err != nil {
		return fmt.Errorf("look at the search index: %w", err)
	}
	var said struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.Status == "red" {
		return tidemill.Fail(tidemill.Transient, "the search index at %s has status %q: documents are missing; look at the cluster", s.conn.Host(), said.Status)
	}
	return nil
}

// all is a list of patterns for all indices of ours.
func (s *Store) all() string { return strings.Join(s.names, "-*,") + "-*" }
