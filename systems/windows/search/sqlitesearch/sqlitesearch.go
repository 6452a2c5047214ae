// Package sqlitesearch is the search index in the one SQLite file: the index of an
// instance that has no OpenSearch.
//
// Words are in a full-text index (FTS5) that stores no texts. It gets the words that
// search.Words cuts, which are the servers' words. Whole values are in it too, as words of a
// column of their own. Numbers and times are columns, for ranges.
//
// A document's row number begins with the day of its time. A search reads day by day, from the
// newest or the oldest on, until its page is full: a frequent word costs only its occurrences
// of a day, not all of them.
package sqlitesearch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Now func() time.Time // when a daily index is made; nil means time.Now
}

// Store is an index in a SQLite file.
type Store struct {
	db      *sqlitedb.DB
	now     func() time.Time
	schemas map[string]*search.Schema
	names   []string // of schemas, sorted

	setting chan struct{} // cap 1: held by the running Setup

	mu     sync.Mutex        // guards tables
	tables map[string]*table // by schema, once Setup has made them
}

var _ search.Store = (*Store)(nil)

// New makes an index in db, which stays the caller's. Setup makes its tables.
func New(db *sqlitedb.DB, o Options, schemas ...*search.Schema) (*Store, error) {
	m, err := search.ByName(schemas)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{db: db, now: o.Now, schemas: m, tables: map[string]*table{}, setting: make(chan struct{}, 1)}
	for name := range m {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	return s, nil
}

// Health implements search.Store.
func (s *Store) Health(ctx context.Context) error {
	for _, name := range s.names {
		t, err := s.table(name)
		if err != nil {
			return err
		}
		if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			var n int
			return tx.QueryRow(t.any).Scan(&n)
		}); err != nil {
			return fmt.Errorf("look at the search index of %s: %w", name, err)
		}
	}
	return nil
}

var errSetup = errors.New("the search index is not ready: its tables are still being set up")

// table finds a family's table.
func (s *Store) table(schema string) (*table, error) {
	if s.schemas[schema] == nil {
		return nil, search.Unknown(schema)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[schema]; t != nil {
		return t, nil
	}
	return nil, errSetup
}

func (s *Store) ready(t *table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables[t.schema.Name] = t
}
