package cli

import (
	"bytes"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

// The tables of all systems that the configuration names are made, where no instance starts.
func TestPostgresMigrate(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	t.Chdir(t.TempDir())
	vars := map[string]string{"DATABASE_URL": url + "&schema=own", "TIDEMILL_SYSTEMS": "analytics,crm"}
	for range 2 {
		var out, errs bytes.Buffer
		if status := run(t.Context(), []string{"postgres", "migrate"}, command.Env{Table: systems.All(), Out: &out, Err: &errs, Getenv: func(name string) string { return vars[name] }}); status != 0 || out.String() != "The tables are those of this version.\n" {
			t.Fatalf("status %d: %s%s", status, &out, &errs)
		}
	}
	if found, err := os.ReadDir("."); err != nil || len(found) > 0 {
		t.Errorf("the folder has %v, %v", found, err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	var names string
	if err := c.QueryRow(t.Context(), "SELECT string_agg(name, ' ' ORDER BY name) FROM own.tidemill_tables").Scan(&names); err != nil || names != "access description instance lock operation profile_record trail" {
		t.Errorf("the tables of %q are made, %v", names, err)
	}
}
