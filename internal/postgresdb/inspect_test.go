package postgresdb

import (
	"maps"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestFindings(t *testing.T) {
	good := map[string]string{"server_version": "15.4", "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"default_transaction_read_only": "off", "max_connections": "100", "superuser_reserved_connections": "3", "server_encoding": "UTF8"}
	for _, c := range []struct {
		name    string
		change  func(*server)
		check   string
		verdict string
	}{
		{"all as it should be", func(*server) {}, "", ""},
		{"a version that is not tested", func(s *server) { s.version = 140009 }, "postgres: version", preflight.Warn},
		{"a version that is too old", func(s *server) { s.version = 120009 }, "postgres: version", preflight.Fail},
		{"fsync", func(s *server) { s.settings["fsync"] = "off" }, "postgres: fsync", preflight.Fail},
		{"full_page_writes", func(s *server) { s.settings["full_page_writes"] = "off" }, "postgres: full_page_writes", preflight.Fail},
		{"synchronous_commit", func(s *server) { s.settings["synchronous_commit"] = "off" }, "postgres: synchronous_commit", preflight.Fail},
		{"synchronous_commit, weaker but on disk", func(s *server) { s.settings["synchronous_commit"] = "local" }, "", ""},
		{"a standby", func(s *server) { s.recovery = true }, "postgres: writable", preflight.Fail},
		{"read only", func(s *server) { s.settings["default_transaction_read_only"] = "on" }, "postgres: writable", preflight.Fail},
		{"an encoding that is not UTF8", func(s *server) { s.settings["server_encoding"] = "SQL_ASCII" }, "postgres: server_encoding", preflight.Fail},
		{"too few connections", func(s *server) { s.conns = 98 }, "postgres: max_connections", preflight.Warn},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{version: 150004, settings: maps.Clone(good), conns: 97}
			c.change(s)
			for _, f := range s.findings() {
				want := preflight.OK
				if f.Check == c.check {
					want = c.verdict
				}
				if f.Verdict != want || (f.Advice == "") != (want == preflight.OK) || f.Detail == "" {
					t.Errorf("%+v; want %s", f, want)
				}
			}
		})
	}
}

func TestInspectReadsTheServer(t *testing.T) {
	testenv.Need(t)
	db, err := Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)+"&synchronous_commit=off&default_transaction_read_only=on"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := map[string]string{}
	for _, f := range Inspect(t.Context(), db) {
		got[f.Check] = f.Verdict
	}
	want := map[string]string{"postgres: version": "ok", "postgres: writable": "fail", "postgres: fsync": "ok", "postgres: full_page_writes": "ok",
		"postgres: synchronous_commit": "fail", "postgres: server_encoding": "ok", "postgres: max_connections": "ok", "postgres: sessions": "ok", "postgres: rights": "ok"}
	if !maps.Equal(got, want) {
		t.Errorf("Inspect found %v, want %v", got, want)
	}
	db.Close()
	if fs := Inspect(t.Context(), db); len(fs) != 1 || fs[0].Verdict != preflight.Fail {
		t.Errorf("Inspect of a database that does not answer: %+v", fs)
	}
}
