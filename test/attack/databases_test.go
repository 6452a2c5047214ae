//go:build servers

package attack

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/testenv"
)

// TestSecretsAreInNoDatabase does what TestSecretsAreShownNowhere does with analytics, delivery,
// CRM and windows on servers, whose passwords are right, and reads all that they keep then.
func TestSecretsAreInNoDatabase(t *testing.T) {
	t.Parallel()
	s := newSpy(t, nil)
	password := s.fill("${password of the Redis}")
	redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--rdbcompression no") // which what is dumped follows, too
	protect(t, redis.Addr, password)
	at := "redis://:" + password + "@" + redis.Addr
	postgres := withPassword(t, testenv.Postgres(t), s.fill("${password of the PostgreSQL}"))
	clickhouse := testenv.Start(t, testenv.PrivateClickHouse, "CLICKHOUSE_PASSWORD="+s.fill("${password of the ClickHouse}"))
	s.env = append(s.env, "TIDEMILL_REDIS_URL="+at+"/0", "TIDEMILL_POSTGRES_URL="+postgres, "TIDEMILL_CRM_REDIS_URL="+at+"/1", "TIDEMILL_CRM_POSTGRES_URL="+postgres,
		"REDIS_HOST="+strings.Split(redis.Addr, ":")[0], "REDIS_PORT="+strings.Split(redis.Addr, ":")[1], "REDIS_PASSWORD="+password, "TIDEMILL_WINDOWS_REDIS_URL="+at+"/2",
		"TIDEMILL_CLICKHOUSE_URL="+withPassword(t, clickhouse.URL, s.fill("${password of the ClickHouse}")))
	s.run(t)
	s.live(t)
	s.until("the event is stored", func() bool { return s.stored(tenant{"default", ""}, "seen") == 1 })
	s.Stop(patience)

	s.hiddenIn(s.Dir)
	keys := 0
	for db := range 3 {
		keys += s.hiddenInRedis(t, redis.Addr, password, db)
	}
	tables := s.hiddenInPostgres(t, postgres)
	rows := s.hiddenInClickHouse(t, clickhouse.URL, "qurvo_analytics")
	if keys < 20 || tables < 5 || rows < 1 {
		t.Errorf("%d keys in Redis, %d tables with rows in PostgreSQL, %d rows in ClickHouse: not all was in use", keys, tables, rows)
	}
}

// protect gives a Redis a password.
func protect(t *testing.T, addr, password string) {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue("requirepass", password).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

func withPassword(t *testing.T, raw, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	name := u.User.Username()
	if name == "" {
		name = "default"
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

// hiddenInRedis looks into all keys of a database, as Redis writes them to disk.
func (s *spy) hiddenInRedis(t *testing.T, addr, password string, db int) (keys int) {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, Password: password, SelectDB: db, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all {
		b, err := c.Do(t.Context(), c.B().Dump().Key(key).Build()).AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		s.hidden("the key "+key, append([]byte(key), b...))
	}
	return len(all)
}

// hiddenInPostgres looks into all rows of all tables.
func (s *spy) hiddenInPostgres(t *testing.T, at string) (tables int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	rows, _ := c.Query(t.Context(), "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		var text bytes.Buffer
		if _, err := c.PgConn().CopyTo(t.Context(), &text, "COPY "+name+" TO STDOUT"); err != nil {
			t.Fatal(err)
		}
		if text.Len() > 0 {
			tables++
		}
		s.hidden("the table "+name, text.Bytes())
	}
	return tables
}

// hiddenInClickHouse looks into all rows of all tables, and into how they were made.
func (s *spy) hiddenInClickHouse(t *testing.T, at, database string) (rows int) {
	t.Helper()
	ask := func(statement string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(statement))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-ClickHouse-User", "default")
		r.Header.Set("X-ClickHouse-Key", s.byName["password of the ClickHouse"])
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v\n%s", statement, resp.StatusCode, err, said)
		}
		s.hidden(statement, said)
		return string(said)
	}
	ask(fmt.Sprintf("SELECT create_table_query FROM system.tables WHERE database = '%s'", database))
	for name := range strings.FieldsSeq(ask(fmt.Sprintf("SELECT name FROM system.tables WHERE database = '%s' AND engine LIKE '%%MergeTree'", database))) {
		rows += strings.Count(ask(fmt.Sprintf("SELECT * FROM %s.%s FORMAT TSV", database, name)), "\n")
	}
	return rows
}
