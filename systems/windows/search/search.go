// Package search is the role that makes records findable, for the windows system alone.
// Documents of one family (events, mentions) are in an index per day, each once under its
// record's id. One small language asks for them.
//
// Backends: memorysearch, sqlitesearch, opensearchsearch (OpenSearch and Elasticsearch).
// Promises are cases of searchtest.
//
//	schema := search.Events()
//	doc, err := schema.Doc(key, payload)      // its day is cut out of the payload
//	err = store.Index(ctx, []search.Doc{doc}) // *tidemill.Partial names what was not accepted
//	page, err := store.Search(ctx, search.Query{Schema: schema.Name, Text: `protest actor1CountryCode:USA`})
package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
)

// Doc is one document to be indexed.
type Doc struct {
	Schema  string // its family, by Schema.Name
	Day     string // YYYY-MM-DD, digits as in the record: the index is Schema-Day, or one that days share
	ID      string // 1 to MaxID bytes of UTF-8; Schema.Doc makes it of a record's key
	Body    []byte // one JSON object, stored unchanged except for line ends between its tokens
	Version uint64 // an older one never replaces a newer one; 0: the last one stays
}

// Indexer indexes documents.
type Indexer interface {
	// Index makes the documents durable. Each replaces the one that its day has under its id.
	// Nil means all of them. A *tidemill.Partial names those that were not accepted, each with
	// its kind: Validation is the document's own fault and a repetition does not help; all
	// others may be sent again, which is harmless. After any other error nothing is known of
	// any of them. If documents of one call share an id, the newest version stays, the last of
	// equals. A document with an old version is not an error. Index does not retry, and keeps
	// nothing of docs.
	//
	// Search finds the documents within about a second (the servers' refresh interval), not at
	// once.
	Index(ctx context.Context, docs []Doc) error
}

// Searcher answers queries.
type Searcher interface {
	// Search returns one page of matches. It looks at those behind After, or before Before, and at
	// no others that were shown: pages show each document that stays as it is once, both ways,
	// whatever comes and goes. The error of a query that cannot be parsed is of kind
	// Validation and says where.
	Search(ctx context.Context, q Query) (Page, error)
}

// Query asks one family.
type Query struct {
	Schema   string    // of which family, by Schema.Name
	Text     string    // in the language of Schema.Parse; empty: all
	From, To time.Time // by Schema.Time: from inclusive, to exclusive; zero: open
	Oldest   bool      // oldest first, not newest first
	Size     int       // hits of a page; 0 means 20, at most MaxSize
	After    string    // Page.Next of the page before, of the same query at the same backend
	Before   string    // Page.Previous of the page after, likewise; one of both at most
}

// Page is one page of hits.
type Page struct {
	Hits     []Hit
	Next     string // for Query.After; empty: this is the last page
	Previous string // for Query.Before; empty: this is the first page
	Total    int    // how many match, counted up to MaxTotal; 0 where Query has After or Before
}

// Hit is one document found.
type Hit struct {
	Day  string
	ID   string
	Body []byte // as it was stored
}

// Store is the whole role.
type Store interface {
	Indexer
	Searcher
	// Setup prepares what documents need: templates on a server, tables in a file. It may be
	// called at any time and by several instances. It leaves alone what is right, and brings
	// the rest to what the schemas say. Constructors do not call it: a server may be down when
	// a process starts. Call it then, and repeat it now and then, as somebody may remove what
	// the next day needs.
	Setup(ctx context.Context) error
	// Expire removes the daily indices that were made Schema.Keep or longer before now, and
	// returns their names. An old day that came in lately (an import) stays as long as any
	// other.
	Expire(ctx context.Context, now time.Time) ([]string, error)
	// Bound removes the daily index that was made first, whichever family it is of, if all have more
	// than so many bytes together, and returns its name; empty: there is room. It removes none that
	// was made at young or later; if no other could go, and there is too much, the error says so
	// (Over). Bytes are those of the documents, or those that a server needs for them, as the backend
	// says. A document of a day that is gone, indexed again, is there again.
	Bound(ctx context.Context, most int64, young time.Time) (string, error)
	// Health reports whether the index can be used now.
	Health(ctx context.Context) error
}

// Over is the error of Bound where there is too much, all of it young.
func Over(have, most int64, young time.Time) error {
	return tidemill.Fail(tidemill.Business, "the search index has %d bytes, more than the %d that are to be kept, and what was made before %s is gone: raise windows.search.keep_most, or lower windows.search.keep_least", have, most, young.UTC().Format(time.RFC3339))
}

// A Daily is a daily index, for backends.
type Daily struct {
	Name  string
	Made  time.Time
	Bytes int64
}

// Oldest is the index that Bound removes; nil: none.
func Oldest(all []Daily, most int64, young time.Time) (*Daily, error) {
	var have int64
	var first *Daily
	for i := range all {
		d := &all[i]
		if have += d.Bytes; d.Made.Before(young) && (first == nil || d.Made.Before(first.Made) || d.Made.Equal(first.Made) && d.Name < first.Name) {
			first = d
		}
	}
	switch {
	case have <= most:
		return nil, nil
	case first == nil:
		return nil, Over(have, most, young)
	}
	return first, nil
}

// Limits.
const (
	MaxID    = 512    // bytes of a document's id, of both servers
	MaxSize  = 1000   // hits of a page
	MaxTotal = 10_000 // matches are counted up to this
)

// Check refuses a document that no backend could store unchanged.
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

// Outcome collects what became of the documents of one call, for backends.
type Outcome struct{ failed []tidemill.Failed }

// Fail notes the error of one document.
func (o *Outcome) Fail(index int, err error) {
	o.failed = append(o.failed, tidemill.Failed{Index: index, Err: err})
}

// Err is what Index returns, with the failures in the order they were noted.
func (o *Outcome) Err() error {
	if len(o.failed) == 0 {
		return nil
	}
	return &tidemill.Partial{Failed: o.failed}
}

// Unknown is the error of a document or a query whose family the backend does not have.
func Unknown(schema string) error {
	return tidemill.Fail(tidemill.Validation, "the search index has no family %.80q", schema)
}

// ByName makes a table of schemas, and refuses duplicate names.
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
