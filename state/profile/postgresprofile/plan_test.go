package postgresprofile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
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
	for _, rows := range []int{0, 1, 2000} {
		if rows > 0 {
			asks := make([]profile.Ask, rows)
			for i := range asks {
				asks[i] = profile.Ask{Tenant: "t", Identities: profile.Identities{External: fmt.Sprint(rows, "/", i)}, Create: true}
			}
			if err := s.Resolve(t.Context(), asks, make([]profile.Answer, rows)); err != nil {
				t.Fatal(err)
			}
		}
		texts, kinds, ids, now := []string{"a", "b"}, []int16{1, 2}, [][16]byte{{1}, {2}}, []time.Time{time.Now(), time.Now()}
		id := [16]byte(uuid.New())
		for _, q := range []struct {
			name, statement string
			want            []string // of each index
			args            []any
		}{
			{"owners", selectOwners, []string{"identity_pkey: tenant kind value"}, []any{texts, kinds, texts}},
			{"counts", selectCounts, []string{"identity_profile: profile"}, []any{ids}},
			{"hold", holdProfiles, []string{"profile_pkey: tenant id"}, []any{texts, ids}},
			{"lock", lockProfiles, []string{"profile_pkey: tenant id"}, []any{texts, ids}},
			{"update", updateProfiles, []string{"profile_pkey: tenant id"}, []any{texts, ids, now, texts, [][]byte{{1}, {2}}}},
			{"get", selectProfile, []string{"profile_pkey: tenant id", "identity_profile: profile"}, []any{"t", id}},
			{"find", selectByName, []string{"identity_pkey: tenant kind value", "profile_pkey: tenant id", "identity_profile: profile"}, []any{"t", 1, "a"}},
			{"page", selectPage, []string{"profile_pkey: tenant id", "identity_profile: profile"}, []any{"t", id, 10}},
			{"delete", deleteProfile, []string{"profile_pkey: tenant id"}, []any{"t", id}},
			{"delete identities", deleteIdentities, []string{"identity_profile: profile"}, []any{id}},
		} {
			var plan strings.Builder
			if err := db.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
				lines, err := c.Query(ctx, "EXPLAIN "+q.statement, q.args...)
				return postgresdb.Each(lines, err, func(r pgx.Rows) error {
					var line string
					err := r.Scan(&line)
					fmt.Fprintln(&plan, line)
					return err
				})
			}); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(plan.String(), "Seq Scan") {
				t.Errorf("%d rows, %s reads all\n%s", rows, q.name, plan.String())
			}
			for _, w := range q.want {
				index, columns, _ := strings.Cut(w, ": ")
				if !strings.Contains(plan.String(), "tidemill_profile_"+strings.TrimPrefix(index, "profile_")) {
					t.Errorf("%d rows, %s does not use %s\n%s", rows, q.name, index, plan.String())
				}
				for c := range strings.FieldsSeq(columns) {
					if !strings.Contains(plan.String(), "("+c+" = ") && !strings.Contains(plan.String(), "("+c+" > ") {
						t.Errorf("%d rows, %s does not ask by %s\n%s", rows, q.name, c, plan.String())
					}
				}
			}
			if got := strings.Count(plan.String(), " using ") + strings.Count(plan.String(), "Bitmap Index Scan on"); got < len(q.want) {
				t.Errorf("%d rows, %s uses %d indexes, want %d\n%s", rows, q.name, got, len(q.want), plan.String())
			}
		}
	}
}
