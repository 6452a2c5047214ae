// Package memorysearch is the search index in memory: the reference of its meaning, for tests,
// simulation and trials. A search looks at every document, everything is lost with the process,
// and only Expire and Bound remove documents.
package memorysearch

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/systems/windows/search"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Now func() time.Time // when a daily index is made; nil means time.Now
}

// Store keeps the documents of some families.
type Store struct {
	schemas map[string]*search.Schema
	now     func() time.Time

	mu   sync.Mutex // guards what follows; held for work in memory only
	docs map[name]stored
	made map[string]time.Time // daily indices by name
}

type name struct{ schema, day, id string }

type stored struct {
	body    []byte
	version uint64
	values  []search.Value
	at      search.Position
}

var _ search.Store = (*Store)(nil)

// New makes an empty index.
func New(o Options, schemas ...*search.Schema) (*Store, error) {
	m, err := search.ByName(schemas)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{schemas: m, now: o.Now, docs: map[name]stored{}, made: map[string]time.Time{}}, nil
}

// Setup implements search.Store. It has nothing to do.
func (s *Store) Setup(ctx context.Context) error { return ctx.Err() }

// Health implements search.Store.
func (s *Store) Health(ctx context.Context) error { return ctx.Err() }

// Index implements search.Indexer.
func (s *Store) Index(ctx context.Context, docs []search.Doc) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out search.Outcome
	for i := range docs {
		if err := s.put(&docs[i], now); err != nil {
			out.Fail(i, err)
		}
	}
	return out.Err()
}

func (s *Store) put(d *search.Doc, now time.Time) error {
	schema := s.schemas[d.Schema]
	if schema == nil {
		return search.Unknown(d.Schema)
	}
	if err := d.Check(); err != nil {
		return err
	}
	values, err := schema.Read(d.Body)
	if err != nil {
		return err
	}
	k := name{d.Schema, d.Day, d.ID}
	old, version := s.docs[k], d.Version
	if version == 0 {
		version = old.version + 1
	}
	if version < old.version {
		return nil
	}
	s.docs[k] = stored{bytes.Clone(d.Body), version, values, schema.Position(d, values)}
	if index := schema.Index(d.Day); s.made[index].IsZero() {
		s.made[index] = now
	}
	return nil
}

// Search implements search.Searcher.
func (s *Store) Search(ctx context.Context, q search.Query) (search.Page, error) {
	if err := ctx.Err(); err != nil {
		return search.Page{}, err
	}
	schema := s.schemas[q.Schema]
	if schema == nil {
		return search.Page{}, search.Unknown(q.Schema)
	}
	clauses, err := q.Plan(schema)
	if err != nil {
		return search.Page{}, err
	}
	var after search.Position
	cursor, oldest := q.Way()
	if cursor != "" {
		if after, err = search.ParsePosition(cursor); err != nil {
			return search.Page{}, err
		}
	}
	order := func(a, b search.Position) int {
		if oldest {
			return a.Compare(b)
		}
		return b.Compare(a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []stored
	for k, d := range s.docs {
		matches := func(c search.Clause) bool { return c.Match(schema, d.values) }
		if k.schema == q.Schema && !slices.ContainsFunc(clauses, func(c search.Clause) bool { return !matches(c) }) {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b stored) int { return order(a.at, b.at) })
	total := 0
	if cursor == "" {
		total = min(len(found), search.MaxTotal)
	} else {
		found = slices.DeleteFunc(found, func(d stored) bool { return order(d.at, after) <= 0 })
	}
	page := search.Paged(&q, found, func(d stored) search.Hit { return search.Hit{Day: d.at.Day, ID: d.at.ID, Body: bytes.Clone(d.body)} },
		func(d stored) string { return d.at.Cursor() })
	page.Total = total
	return page, nil
}

// Expire implements search.Store.
func (s *Store) Expire(ctx context.Context, now time.Time) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []string
	for k := range s.docs {
		schema := s.schemas[k.schema]
		index := schema.Index(k.day)
		if made := s.made[index]; schema.Keep > 0 && !now.Before(made.Add(schema.Keep)) {
			delete(s.docs, k)
			gone = append(gone, index)
		}
	}
	slices.Sort(gone)
	gone = slices.Compact(gone)
	for _, index := range gone {
		delete(s.made, index)
	}
	return gone, nil
}

// Bound implements search.Store. Bytes are those of the documents.
func (s *Store) Bound(ctx context.Context, most int64, young time.Time) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sizes := map[string]int64{}
	for k, d := range s.docs {
		sizes[s.schemas[k.schema].Index(k.day)] += int64(len(d.body))
	}
	var all []search.Daily
	for name, bytes := range sizes {
		all = append(all, search.Daily{Name: name, Made: s.made[name], Bytes: bytes})
	}
	old, err := search.Oldest(all, most, young)
	if old == nil {
		return "", err
	}
	maps.DeleteFunc(s.docs, func(k name, _ stored) bool { return s.schemas[k.schema].Index(k.day) == old.Name })
	delete(s.made, old.Name)
	return old.Name, nil
}
