package sizes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// stores are the servers, and a partner that takes everything.
type stores struct {
	*process.Services
	redis   redisconn.Client
	partner *httptest.Server
}

func startStores(ctx context.Context, dir string) (*stores, error) {
	services, err := process.StartServices(ctx, dir, nil, "redis", "postgres", "clickhouse")
	if err != nil {
		return nil, err
	}
	s := &stores{Services: services, partner: httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))}
	if s.redis, err = redisconn.Open(ctx, tidemill.NewSecret("redis://"+s.Addr("redis")), redisconn.Options{Name: "bench"}); err != nil {
		s.partner.Close()
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *stores) stop() {
	s.redis.Close()
	s.partner.Close()
	s.Stop()
}

// pause is how long is waited between two looks at the books.
const pause = 200 * time.Millisecond

// measured is what a row measures.
type measured struct {
	load.System
	events    int
	bin       string
	folder    string
	onServers bool
}

// uses says whether a server is of the row's set.
func (m *measured) uses(server string) bool {
	return m.onServers && strings.Contains(m.Servers, server)
}

// used is how many bytes each store has.
type used struct{ file, redis, postgres, clickhouse float64 }

// measure fills r.
func (s *stores) measure(ctx context.Context, m *measured, r *result) error {
	if err := s.redis.Do(ctx, s.redis.B().Flushall().Build()).Error(); err != nil {
		return err
	}
	if m.Streams() {
		return s.stream(ctx, m, r)
	}
	bodies, size := m.Bodies(m.events)
	r.Sent = size
	// The file is read while nothing runs: what is empty in it is known then.
	steps := []func(*product.Product) error{
		func(*product.Product) error { return nil },
		func(p *product.Product) error {
			return errors.Join(p.Steer(m.Pipeline, "pause"), m.send(p, bodies), p.Drained(ctx, pause, m.Pipeline))
		},
		func(p *product.Product) error { return p.Drained(ctx, pause) },
	}
	var looked [3]used
	for i, step := range steps {
		p, err := s.start(ctx, m)
		if err != nil {
			return err
		}
		err = step(p)
		if looked[i], err = s.look(ctx, m, p, err); err != nil {
			return err
		}
	}
	each := func(after, before float64) float64 { return max(0, after-before) / float64(m.events) }
	empty, waiting, left := looked[0], looked[1], looked[2]
	r.Waiting = each(waiting.file, empty.file) + each(waiting.redis, empty.redis)
	r.File, r.Redis = each(left.file, empty.file), each(left.redis, empty.redis)
	if m.uses("PostgreSQL") {
		r.Postgres = each(left.postgres, empty.postgres)
	}
	if m.uses("ClickHouse") {
		r.ClickHouse = each(left.clickhouse, empty.clickhouse)
	}
	return nil
}

// look stops the program and reads how much every store has.
func (s *stores) look(ctx context.Context, m *measured, p *product.Product, failed error) (u used, err error) {
	if err := errors.Join(failed, p.Stop()); err != nil {
		return u, err
	}
	if !m.onServers {
		u.file, err = pages(ctx, filepath.Join(m.folder, "data", "tidemill.db"))
		return u, err
	}
	var errs [3]error
	u.redis, errs[0] = s.inRedis(ctx)
	u.postgres, errs[1] = s.inPostgres(ctx)
	u.clickhouse, errs[2] = s.inClickHouse()
	return u, errors.Join(errs[:]...)
}

// pages are the bytes of those pages of a file that are in use.
func pages(ctx context.Context, file string) (n float64, err error) {
	db, err := sqlitedb.Open(ctx, file, sqlitedb.Options{})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var count, free, size float64
		err := errors.Join(tx.QueryRow("PRAGMA page_count").Scan(&count), tx.QueryRow("PRAGMA freelist_count").Scan(&free), tx.QueryRow("PRAGMA page_size").Scan(&size))
		n = (count - free) * size
		return err
	})
	return n, err
}

func (s *stores) inRedis(ctx context.Context) (float64, error) {
	text, err := s.redis.Do(ctx, s.redis.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "used_memory:")
	value, _, _ := strings.Cut(rest, "\r")
	return strconv.ParseFloat(value, 64)
}

func (s *stores) inPostgres(ctx context.Context) (n float64, err error) {
	c, err := pgx.Connect(ctx, s.Postgres())
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "VACUUM"); err != nil { // as autovacuum does in the long run
		return 0, err
	}
	return n, c.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&n)
}

func (s *stores) inClickHouse() (float64, error) {
	b, err := process.Get("http://" + s.Addr("clickhouse") + "/?query=SELECT+sum(bytes_on_disk)+FROM+system.parts+WHERE+active+AND+database+=+'bench'")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
}

// start starts the product.
func (s *stores) start(ctx context.Context, m *measured) (*product.Product, error) {
	var env []string
	if m.onServers {
		env = append(env, "REDIS_URL=redis://"+s.Addr("redis"))
	}
	if m.uses("PostgreSQL") {
		env = append(env, "DATABASE_URL="+s.Postgres())
	}
	if m.uses("ClickHouse") {
		env = append(env, "CLICKHOUSE_URL=http://"+s.Addr("clickhouse"), "CLICKHOUSE_DB=bench")
	}
	return product.Start(ctx, m.bin, m.Name, m.folder, []byte(strings.Replace(m.Config, "PARTNER", s.partner.URL, 1)), env...)
}

// batch is the id of the one batch of windows.
const batch = "20260115100000"

func (m *measured) send(p *product.Product, bodies [][]byte) error {
	for _, b := range bodies {
		if err := p.Post(m.Path, batch, b); err != nil {
			return err
		}
	}
	return nil
}

// stream writes entries to a stream, which is all that a bridge leaves waiting.
func (s *stores) stream(ctx context.Context, m *measured, r *result) error {
	before, err := s.inRedis(ctx)
	if err != nil {
		return err
	}
	if r.Sent, err = m.Write(ctx, s.redis, m.events); err != nil {
		return err
	}
	after, err := s.inRedis(ctx)
	r.Waiting = (after - before) / float64(m.events)
	return err
}
