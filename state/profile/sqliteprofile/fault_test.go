package sqliteprofile_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
	"github.com/tidemill/tidemill/state/profile/sqliteprofile"
)

// again makes each call again that fails by a fault.
type again struct {
	s profile.Store
	f *sqlitedbtest.Faults
}

func (a again) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	return a.f.Again(func() error { return a.s.Resolve(ctx, asks, answers) })
}

func (a again) Update(ctx context.Context, changes []profile.Change) error {
	return a.f.Again(func() error { return a.s.Update(ctx, changes) })
}

func (a again) Get(ctx context.Context, tenant string, id uuid.UUID) (*profile.Profile, error) {
	return sqlitedbtest.Get(a.f, func() (*profile.Profile, error) { return a.s.Get(ctx, tenant, id) })
}

func (a again) Find(ctx context.Context, tenant string, by profile.Identity) (*profile.Profile, error) {
	return sqlitedbtest.Get(a.f, func() (*profile.Profile, error) { return a.s.Find(ctx, tenant, by) })
}

func (a again) List(ctx context.Context, tenant string, after uuid.UUID, max int) ([]*profile.Profile, error) {
	return sqlitedbtest.Get(a.f, func() ([]*profile.Profile, error) { return a.s.List(ctx, tenant, after, max) })
}

func (a again) Delete(ctx context.Context, tenant string, id uuid.UUID) (bool, error) {
	return sqlitedbtest.Get(a.f, func() (bool, error) { return a.s.Delete(ctx, tenant, id) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness {
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (*sqliteprofile.Store, error) { return sqliteprofile.New(t.Context(), db, o) })
		if err != nil {
			t.Fatal(err)
		}
		return profiletest.Harness{Store: again{s, f}}
	})
}

func TestTablesOfANewerProgramAreRefused(t *testing.T) {
	sqlitedbtest.RefusesNewer(t, func(ctx context.Context, db *sqlitedb.DB) (*sqliteprofile.Store, error) {
		return sqliteprofile.New(ctx, db, profile.Options{})
	})
}
