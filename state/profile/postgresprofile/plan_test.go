package postgresprofile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/profile"
)

// A plan that is made while the tables are empty is kept while they grow: it must not read
// all of a tenant where keys are asked for.
func TestPlansAreRightBeforeTheTablesAreKnown(t *testing.T) {
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s, err := New(t.Context(), db, profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"tidemill_profile", "tidemill_profile_identity"} { // it would look
		if _, err := db.Exec(t.Context(), "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"); err != nil {
			t.Fatal(err)
		}
	}
	for _, rows := range []int{0, 1, 2000, 18_000} {
		if rows > 0 {
			asks := make([]profile.Ask, rows)
			for i := range asks {
				asks[i] = profile.Ask{Tenant: "t", Identities: profile.Identities{External: fmt.Sprint(rows, "/", i)}, Create: true}
			}
			if err := s.Resolve(t.Context(), asks, make([]profile.Answer, rows)); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []struct {
			name, statement string
			want            []string // of each index
		}{
			{"owners", selectOwners, []string{"identity_pkey: tenant kind value"}},
			{"counts", selectCounts, []string{"identity_profile: profile"}},
			{"hold", holdProfiles, []string{"profile_pkey: tenant id"}},
			{"lock", lockProfiles, []string{"profile_pkey: tenant id"}},
			{"update", updateProfiles, []string{"profile_pkey: tenant id"}},
			{"get", selectProfile, []string{"profile_pkey: tenant id", "identity_profile: profile"}},
			{"find", selectByName, []string{"identity_pkey: tenant kind value", "profile_pkey: tenant id", "identity_profile: profile"}},
			{"page", selectPage, []string{"profile_pkey: tenant id", "identity_profile: profile"}},
			{"delete", deleteProfile, []string{"profile_pkey: tenant id"}},
			{"delete identities", deleteIdentities, []string{"identity_profile: profile"}},
		} {
			plan := explain(t, db, q.statement)
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("%d rows, %s reads all\n%s", rows, q.name, plan)
			}
			if strings.Contains(plan, "Sort Key: p.") {
				t.Errorf("%d rows, %s collects before it answers\n%s", rows, q.name, plan)
			}
			for _, w := range q.want {
				index, columns, _ := strings.Cut(w, ": ")
				if !strings.Contains(plan, "tidemill_profile_"+strings.TrimPrefix(index, "profile_")) {
					t.Errorf("%d rows, %s does not use %s\n%s", rows, q.name, index, plan)
				}
				for c := range strings.FieldsSeq(columns) {
					if !strings.Contains(plan, "("+c+" = ") && !strings.Contains(plan, "("+c+" > ") {
						t.Errorf("%d rows, %s does not ask by %s\n%s", rows, q.name, c, plan)
					}
				}
			}
			if got := strings.Count(plan, " using ") + strings.Count(plan, "Bitmap Index Scan on"); got < len(q.want) {
				t.Errorf("%d rows, %s uses %d indexes, want %d\n%s", rows, q.name, got, len(q.want), plan)
			}
		}
	}
}

// explain returns the plan that is kept for a statement, whatever its arguments.
func explain(t *testing.T, db *postgresdb.DB, statement string) string {
	t.Helper()
	arguments := 0
	for strings.Contains(statement, fmt.Sprint("$", arguments+1)) {
		arguments++
	}
	var plan strings.Builder
	if err := db.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "PREPARE explained AS "+statement); err != nil {
			return err
		}
		lines, err := c.Query(ctx, "EXPLAIN EXECUTE explained(NULL"+strings.Repeat(", NULL", arguments-1)+")", pgx.QueryExecModeSimpleProtocol)
		if err := postgresdb.Each(lines, err, func(r pgx.Rows) error {
			var line string
			err := r.Scan(&line)
			fmt.Fprintln(&plan, line)
			return err
		}); err != nil {
			return err
		}
		_, err = c.Exec(ctx, "DEALLOCATE explained")
		return err
	}); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return plan.String()
}
