package system

import (
	"context"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/project"
)

// Swapped are projects that a reload may put others in the place of. The zero value has none until
// Put.
type Swapped struct {
	now atomic.Pointer[project.Projects]
}

// Put has other projects in force.
func (s *Swapped) Put(p project.Projects) { s.now.Store(&p) }

// Ensure is as project.Projects says, as are the others.
func (s *Swapped) Ensure(ctx context.Context, p project.Project, key project.Hash) error {
	return (*s.now.Load()).Ensure(ctx, p, key)
}

// ByKey finds the project of a key.
func (s *Swapped) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	return (*s.now.Load()).ByKey(ctx, key)
}

// Find finds a project by id.
func (s *Swapped) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	return (*s.now.Load()).Find(ctx, id)
}

// List lists all.
func (s *Swapped) List(ctx context.Context) ([]project.Project, error) {
	return (*s.now.Load()).List(ctx)
}
