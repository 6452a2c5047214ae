package postgresdb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/preflight"
)

// server is what Inspect reads of a server, as our sessions see it.
type server struct {
	version   int // 150004 is 15.4
	settings  map[string]string
	recovery  bool
	conns     int // that we may open
	pooled    bool
	databases string
}

// Inspect reads the version and the settings that decide whether acknowledged data is kept.
func Inspect(ctx context.Context, d *DB) []preflight.Finding {
	s := server{settings: map[string]string{}, conns: d.o.Conns, pooled: d.local != ""}
	err := d.Do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if err := c.QueryRow(ctx, "SELECT pg_is_in_recovery(), current_database()").Scan(&s.recovery, &s.databases); err != nil {
			return err
		}
		rows, err := c.Query(ctx, `SELECT name, setting FROM pg_settings WHERE name IN ('server_version_num','server_version',
			'fsync','full_page_writes','synchronous_commit','default_transaction_read_only','max_connections',
			'superuser_reserved_connections','server_encoding')`)
		return Each(rows, err, func(r pgx.Rows) error {
			var name, value string
			err := r.Scan(&name, &value)
			s.settings[name] = value
			return err
		})
	})
	if err != nil {
		return []preflight.Finding{{Check: "postgres", Verdict: preflight.Fail, Detail: err.Error(), Advice: "make the server answer; nothing is lost meanwhile"}}
	}
	s.version, _ = strconv.Atoi(s.settings["server_version_num"])
	return append(s.findings(), d.judgeRights(ctx))
}

func (s *server) findings() []preflight.Finding {
	return []preflight.Finding{
		s.judgeVersion(), s.judgeWritable(),
		s.must("fsync", "on", "a crash of the machine can lose or damage everything"),
		s.must("full_page_writes", "on", "a crash of the machine can damage pages that were being written"),
		s.judgeCommit(), s.judgeEncoding(), s.judgeConns(), s.judgeSessions(),
	}
}

func (s *server) judgeVersion() preflight.Finding {
	f := preflight.Finding{Check: "postgres: version", Verdict: preflight.OK, Detail: s.settings["server_version"]}
	switch {
	case s.version < 130000:
		f.Verdict, f.Advice = preflight.Fail, "it is too old: PostgreSQL 15 or newer is needed"
	case s.version < 150000:
		f.Verdict, f.Advice = preflight.Warn, "PostgreSQL 15 or newer is what is tested"
	}
	return f
}

func (s *server) judgeWritable() preflight.Finding {
	f := preflight.Finding{Check: "postgres: writable", Verdict: preflight.OK, Detail: fmt.Sprintf("database %q takes writes", s.databases)}
	switch {
	case s.recovery:
		f.Verdict, f.Detail = preflight.Fail, "it is a standby, which takes no writes"
		f.Advice = "name all servers in the URL and add target_session_attrs=read-write"
	case s.settings["default_transaction_read_only"] == "on":
		f.Verdict, f.Detail = preflight.Fail, "default_transaction_read_only is on: nothing can be written"
		f.Advice = "set it to off for this user and database"
	}
	return f
}

func (s *server) must(name, want, otherwise string) preflight.Finding {
	f := preflight.Finding{Check: "postgres: " + name, Verdict: preflight.OK, Detail: name + " is " + s.settings[name]}
	if s.settings[name] != want {
		f.Verdict, f.Detail, f.Advice = preflight.Fail, f.Detail+": "+otherwise, "set "+name+" = "+want
	}
	return f
}

func (s *server) judgeCommit() preflight.Finding {
	f := s.must("synchronous_commit", "on", "a crash loses transactions that were acknowledged")
	switch s.settings["synchronous_commit"] {
	case "remote_apply", "remote_write", "local": // on the primary's disk before the answer; standbys are the operator's choice
		return preflight.Finding{Check: f.Check, Verdict: preflight.OK, Detail: "synchronous_commit is " + s.settings["synchronous_commit"]}
	}
	return f
}

func (s *server) judgeEncoding() preflight.Finding {
	return s.must("server_encoding", "UTF8", "it cannot hold the texts of events; make a database WITH ENCODING 'UTF8'")
}

func (s *server) judgeConns() preflight.Finding {
	most, _ := strconv.Atoi(s.settings["max_connections"])
	reserved, _ := strconv.Atoi(s.settings["superuser_reserved_connections"])
	f := preflight.Finding{Check: "postgres: max_connections", Verdict: preflight.OK,
		Detail: fmt.Sprintf("%d for everybody; this instance opens up to %d", most-reserved, s.conns)}
	if s.conns > most-reserved {
		f.Verdict, f.Advice = preflight.Warn, "open fewer connections, or raise max_connections"
	}
	return f
}

func (s *server) judgeSessions() preflight.Finding {
	f := preflight.Finding{Check: "postgres: sessions", Verdict: preflight.OK, Detail: "each connection has its own"}
	if s.pooled {
		f.Detail = "a pooler has another session for each transaction: settings are sent with each, and statements are not prepared unless the URL says so"
	}
	return f
}
