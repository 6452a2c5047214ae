// Package memoryproject keeps projects in memory: for tests, simulation, and projects that
// a configuration names at every start.
package memoryproject

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/project"
)

// Projects implements project.Projects.
type Projects struct {
	mu       sync.Mutex // guards what follows; held for work in memory only
	projects map[uuid.UUID]project.Project
	keys     map[project.Hash]uuid.UUID
}

var _ project.Projects = (*Projects)(nil)

// New makes an empty set of projects.
func New() *Projects {
	return &Projects{projects: map[uuid.UUID]project.Project{}, keys: map[project.Hash]uuid.UUID{}}
}

// Ensure implements project.Projects.
func (s *Projects) Ensure(ctx context.Context, p project.Project, key project.Hash) error {
	if err := p.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, ok := s.keys[key]; ok && of != p.ID {
		return fmt.Errorf("ensure project %s: %w", p.ID, project.ErrKeyTaken)
	}
	s.projects[p.ID] = p
	s.keys[key] = p.ID
	return nil
}

// ByKey implements project.Projects.
func (s *Projects) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	s.mu.Lock()
	id := s.keys[key]
	s.mu.Unlock()
	return s.Find(ctx, id) // of an unknown key, it is an id that no project has
}

// Find implements project.Projects.
func (s *Projects) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	if err := ctx.Err(); err != nil {
		return project.Project{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.projects[id]
	if !ok {
		return project.Project{}, project.ErrUnknown
	}
	return p, nil
}

// List implements project.Projects.
func (s *Projects) List(ctx context.Context) ([]project.Project, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ps := make([]project.Project, 0, len(s.projects))
	for _, p := range s.projects {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, func(a, b project.Project) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	return ps, nil
}
