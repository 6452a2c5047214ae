// Package search is the role, of the windows system alone, that makes records findable:
// documents of one family (events, mentions) lie in an index per day, each once under the
// id its record has, and are asked for in one small language.
//
// Backends: memorysearch, sqlitesearch, opensearchsearch (OpenSearch and Elasticsearch).
// Promises are cases of searchtest.
//
//	schema := search.Events()
//	doc, err := schema.Doc(key, payload)      // its day is cut out of the payload
//	err = store.Index(ctx, []search.Doc{doc}) // *tidemill.Partial names what was not taken
//	page, err := store.Search(ctx, search.Query{Schema: schema.Name, Text: `protest actor1CountryCode:USA`})
package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
)

// Doc is one document on its way into an index.
type Doc struct {
	Schema  string // its family, by Schema.Name
	Day     string // YYYY-MM-DD, digits as the record has them: the index is Schema-Day, or one that days share
	ID      string // 1 to MaxID bytes of UTF-8; Schema.Doc makes it of a record's key
	Body    []byte // one JSON object, stored as it is but for line ends between its tokens
	Version uint64 // an older one never replaces a newer one; 0: whoever comes last stays
}

// Indexer takes documents.
type Indexer interface {
	// Index makes the documents durable, each replacing what its day has under its id.
	// Nil means all of them; a *tidemill.Partial names those that were not taken, each
	// with its kind: Validation is the document's own fault and no repetition helps, all
	// others may be sent again, which is harmless. Any other error means that nothing is
	// known of any of them. Of documents with one id in one call the newest version
	// stays, the last of equals. A document that comes too late for its version is no
	// error. It does not retry, and keeps nothing of docs.
	//
	// What was indexed is found by Search within a second or so (the servers' refresh
	// interval), not at once.
	Index(ctx context.Context, docs []Doc) error
}

// Searcher is for people who ask.
type Searcher interface {
	// Search returns one page of what matches. A query that cannot be understood is of
	// kind Validation and says where.
	Search(ctx context.Context, q Query) (Page, error)
}

// Query asks one family.
type Query struct {
	Schema   string    // whose documents, by Schema.Name
	Text     string    // in the language of Schema.Parse; empty: all
	From, To time.Time // by Schema.Time: from inclusive, to exclusive; zero: open
	Oldest   bool      // oldest first, not newest first
	Size     int       // hits of a page; 0 means 20, at most MaxSize
	After    string    // Page.Next of the page before, of the same query at the same backend
}

// Page is one page of hits.
type Page struct {
	Hits  []Hit
	Next  string // for Query.After; empty: there is no more
	Total int    // how many match, counted up to MaxTotal; 0 on pages after the first
}

// Hit is one document found.
type Hit struct {
	Day  string
	ID   string
	Body []byte // as it was stored
}

// Store is all of the role.
type Store interface {
	Indexer
	Searcher
	// Setup makes ready what documents need: templates on a server, tables in a file. It
	// may be called at any time and by several instances; what is as it should be is
	// left alone, what differs is brought to what the schemas say. Constructors do not
	// call it: a server may be away when a process starts. Call it then and now and
	// again, as somebody may remove on a server what is needed for the next day.
	Setup(ctx context.Context) error
	// Expire removes the daily indices that were made Schema.Keep or longer before now,
	// and returns their names. A day that is long past but came in lately (an import)
	// stays as long as any other.
	Expire(ctx context.Context, now time.Time) ([]string, error)
	// Health says whether the index can be used now.
	Health(ctx context.Context) error
}

// Limits.
const (
	MaxID    = 512    // bytes of a document's id, of both servers
	MaxSize  = 1000   // hits of a page
	MaxTotal = 10_000 // up to this matches are counted
)

// Check refuses a document that no backend could store as it is meant.
func (d *Doc) Check() error {
	switch {
	case !ValidDay(d.Day):
		return tidemill.Fail(tidemill.Validation, "index document %.80q: the day %.20q is not YYYY-MM-DD", d.ID, d.Day)
	case d.ID == "" || len(d.ID) > MaxID || !validText(d.ID):
		return tidemill.Fail(tidemill.Validation, "index document %.80q: an id has 1 to %d bytes of UTF-8 without NUL; ID makes one of a key", d.ID, MaxID)
	case d.Version > 1<<63-1:
		return tidemill.Fail(tidemill.Validation, "index document %.80q: the version %d is above 2^63-1", d.ID, d.Version)
	}
	return nil
}

// Outcome gathers what became of the documents of one call, for backends.
type Outcome struct{ failed []tidemill.Failed }

// Fail notes the error of one document.
func (o *Outcome) Fail(index int, err error) {
	o.failed = append(o.failed, tidemill.Failed{Index: index, Err: err})
}

// Err is what Index returns, the failed in the order they were noted.
func (o *Outcome) Err() error {
	if len(o.failed) == 0 {
		return nil
	}
	return &tidemill.Partial{Failed: o.failed}
}

// Unknown is the error of a document or a query whose family a backend does not have.
func Unknown(schema string) error {
	return tidemill.Fail(tidemill.Validation, "the search index has no family %.80q", schema)
}

// ByName makes a table of schemas, and refuses two of one name.
func ByName(schemas []*Schema) (map[string]*Schema, error) {
	m := make(map[string]*Schema, len(schemas))
	for _, s := range schemas {
		if m[s.Name] != nil {
			return nil, fmt.Errorf("open a search index: there are two schemas %s", s.Name)
		}
		m[s.Name] = s
	}
	if len(m) == 0 {
		return nil, errors.New("open a search index: there is no schema; give one, such as search.Events()")
	}
	return m, nil
}
