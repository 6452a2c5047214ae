// Package tableproject keeps projects in a table of any backend. Every look-up reads the table: put
// a cache in front if every request looks up a key.
package tableproject

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is a project or an ingest key.
type Record struct{ record }

// record is in it as one, so that the names of functions of the table, which have all fields in them, are short.
type record struct {
	key     string // "project/" and an id, or "key/" and the hash of a key in hex
	project string // its id
	name    string // of a project
}

// Spec is what a record is.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "project", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "project", At: func(r *Record) any { return &r.project }},
		{Name: "name", At: func(r *Record) any { return &r.name }},
	}}
}

// Projects implements project.Store.
type Projects[Raw any] struct{ t table.Store[Record, Raw] }

var _ project.Store = (*Projects[any])(nil)

// New makes projects of a table.
func New[Raw any](t table.Store[Record, Raw]) *Projects[Raw] { return &Projects[Raw]{t} }

// Memory makes an empty set of projects in memory.
func Memory() *Projects[*memorytable.Tx] {
	return New(memorytable.Alone(Spec()))
}

const (
	projects  = "project/"
	keyPrefix = "key/"
)

func keyOf(h project.Hash) string { return keyPrefix + hex.EncodeToString(h[:]) }

// Ensure implements project.Projects.
func (s *Projects[Raw]) Ensure(ctx context.Context, p project.Project, key project.Hash) error {
	if err := p.Check(); err != nil {
		return err
	}
	is := &Record{record{projects + p.ID.String(), p.ID.String(), p.Name}}
	has := &Record{record{keyOf(key), is.project, ""}}
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		found, err := tx.Get([]string{is.key, has.key})
		if err != nil {
			return err
		}
		if old := found[has.key]; old != nil && old.project != is.project {
			return project.ErrKeyTaken
		}
		if old := found[is.key]; old != nil && *old == *is && found[has.key] != nil {
			return nil
		}
		return tx.Put([]*Record{is, has})
	})
	if err != nil {
		return fmt.Errorf("ensure project %s: %w", p.ID, err)
	}
	return nil
}

// ByKey implements project.Projects.
func (s *Projects[Raw]) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	return s.find(ctx, keyOf(key))
}

// Find implements project.Projects.
func (s *Projects[Raw]) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	return s.find(ctx, projects+id.String())
}

// find finds a project by its record or by that of an ingest key.
func (s *Projects[Raw]) find(ctx context.Context, key string) (p project.Project, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		found, err := tx.Get([]string{key})
		r := found[key]
		if r != nil && key != projects+r.project {
			found, err = tx.Get([]string{projects + r.project})
			r = found[projects+r.project]
		}
		switch {
		case err != nil:
			return fmt.Errorf("find a project: %w", err)
		case r == nil:
			return project.ErrUnknown
		}
		p, err = r.of()
		return err
	})
	return p, err
}

func (r *Record) of() (project.Project, error) {
	id, err := uuid.Parse(r.project)
	return project.Project{ID: id, Name: r.name}, err
}

// pageSize is how many projects are read at once.
const pageSize = 1000

// List implements project.Projects.
func (s *Projects[Raw]) List(ctx context.Context) ([]project.Project, error) {
	q := table.Query[Record]{Most: pageSize, Where: []table.Cond{{Field: "key", Op: ">=", Value: projects}}} // they are the last
	var all []*Record
	err := s.t.View(ctx, func(tx table.Reader[Record]) (err error) {
		all, err = table.All(tx, q)
		return err
	})
	ps := make([]project.Project, len(all))
	for i := 0; i < len(all) && err == nil; i++ {
		ps[i], err = all[i].of()
	}
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	slices.SortFunc(ps, func(a, b project.Project) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	return ps, nil
}

// Keys implements project.Keys.
func (s *Projects[Raw]) Keys(ctx context.Context, id uuid.UUID) (keys []project.Hash, err error) {
	q := table.Query[Record]{Most: pageSize, Where: []table.Cond{{Field: "key", Op: ">=", Value: keyPrefix}, {Field: "key", Op: "<", Value: projects}}}
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		all, err := table.All(tx, q)
		keys = nil
		for _, r := range all {
			if r.project != id.String() {
				continue
			}
			var h project.Hash
			if _, err := hex.Decode(h[:], []byte(strings.TrimPrefix(r.key, keyPrefix))); err != nil {
				return err
			}
			keys = append(keys, h)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list keys of project %s: %w", id, err)
	}
	return keys, nil
}

// Revoke implements project.Keys.
func (s *Projects[Raw]) Revoke(ctx context.Context, id uuid.UUID, key project.Hash) error {
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		found, err := tx.Get([]string{keyOf(key)})
		if err != nil {
			return err
		}
		if r := found[keyOf(key)]; r == nil || r.project != id.String() {
			return project.ErrUnknown
		}
		return tx.Delete([]string{keyOf(key)})
	})
	if err != nil {
		return fmt.Errorf("revoke a key of project %s: %w", id, err)
	}
	return nil
}
