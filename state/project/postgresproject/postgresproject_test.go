package postgresproject_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/postgresproject"
	"github.com/tidemill/tidemill/state/project/projecttest"
)

func TestConformance(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		db, s := open(t, url)
		exec(t, db, "TRUNCATE projects CASCADE")
		return projecttest.Harness{Projects: s, Reopen: func() project.Store { _, s := open(t, url); return s }}
	})
}

func open(t testing.TB, url string) (*postgresdb.DB, *postgresproject.Projects) {
	t.Helper()
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s, err := postgresproject.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func hash(key string) project.Hash { return project.HashOf(tidemill.NewSecret(key)) }

func hexOf(key string) string { h := sha256.Sum256([]byte(key)); return hex.EncodeToString(h[:]) }

func TestRowsOfOthersAreFound(t *testing.T) {
	testenv.Need(t)
	db, s := open(t, testenv.Postgres(t))
	odd := strings.Repeat("7f", 32) // a key that looks like a hash
	for name, token := range map[string]string{"raw": "phc_secret", "stroke": `back\slash\x41`, "hashed": hexOf("phc_other"), "odd": odd} {
		exec(t, db, "INSERT INTO projects(id, name, token) VALUES (gen_random_uuid(), $1, $2)", name, token)
	}
	for key, want := range map[string]string{"phc_secret": "raw", `back\slash\x41`: "stroke", "phc_other": "hashed", odd: "odd"} {
		if p, err := s.ByKey(t.Context(), hash(key)); err != nil || p.Name != want {
			t.Errorf("ByKey(%q) = %+v, %v; want %s", key, p, err, want)
		}
	}
	raw, err := s.ByKey(t.Context(), hash("phc_secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"phc_secret", "second"} { // its own key, and another
		if err := s.Ensure(t.Context(), raw, hash(key)); err != nil {
			t.Fatal(err)
		}
		if p, err := s.ByKey(t.Context(), hash(key)); err != nil || p != raw {
			t.Errorf("ByKey(%q) = %+v, %v; want %+v", key, p, err, raw)
		}
	}
	if err := s.Ensure(t.Context(), project.Project{ID: uuid.New(), Name: "thief"}, hash("phc_other")); !errors.Is(err, project.ErrKeyTaken) {
		t.Errorf("Ensure with the key of a row that was there: %v, want %v", err, project.ErrKeyTaken)
	}
	var token string
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&token) }, "SELECT token FROM projects WHERE name = 'raw'"); err != nil || token != "phc_secret" {
		t.Errorf("the token of a row that was there is %q now, %v", token, err)
	}
}

func TestWhatIsStoredIsNoKey(t *testing.T) {
	testenv.Need(t)
	_, s := open(t, testenv.Postgres(t))
	shop := project.Project{ID: uuid.New(), Name: "shop"}
	for _, key := range []string{"k1", "k2"} {
		if err := s.Ensure(t.Context(), shop, hash(key)); err != nil {
			t.Fatal(err)
		}
		if p, err := s.ByKey(t.Context(), hash(hexOf(key))); !errors.Is(err, project.ErrUnknown) {
			t.Errorf("the stored hash works as a key: %+v, %v", p, err)
		}
	}
}

func TestKeysAreFoundByAnIndex(t *testing.T) {
	testenv.Need(t)
	db, s := open(t, testenv.Postgres(t))
	exec(t, db, "INSERT INTO projects(id, name, token) SELECT gen_random_uuid(), 'p', 'token-' || i FROM generate_series(1, 20000) i")
	if p, err := s.ByKey(t.Context(), hash("token-17")); err != nil || p.Name != "p" {
		t.Fatal(p, err)
	}
	var plan strings.Builder
	if err := db.Query(t.Context(), func(r pgx.Rows) error {
		var line string
		err := r.Scan(&line)
		plan.WriteString(line + "\n")
		return err
	}, "EXPLAIN "+strings.NewReplacer("$1", `'\x00'::bytea`, "$2", "'x'").Replace(db.Own(postgresproject.ByKeyStatement))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plan.String(), "Seq Scan on projects") {
		t.Errorf("all projects are read to find one:\n%s", plan.String())
	}
}
