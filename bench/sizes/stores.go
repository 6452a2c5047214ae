package sizes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
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

// measured is what a row measures.
type measured struct {
	system
	events    int
	bin       string
	folder    string
	onServers bool
}

// uses says whether a server is of the row's set.
func (m *measured) uses(server string) bool {
	return m.onServers && strings.Contains(m.servers[0], server)
}

// used is how many bytes each store has.
type used struct{ file, redis, postgres, clickhouse float64 }

// measure fills r.
func (s *stores) measure(ctx context.Context, m *measured, r *result) error {
	if err := errors.Join(os.MkdirAll(m.folder, 0o755), s.redis.Do(ctx, s.redis.B().Flushall().Build()).Error()); err != nil {
		return err
	}
	if m.body == nil {
		return s.stream(ctx, m, r)
	}
	bodies, size := m.bodies(m.events)
	r.Sent = size
	// The file is read while nothing runs: what is empty in it is known then.
	steps := []func(*process.Program) error{
		func(*process.Program) error { return nil },
		func(p *process.Program) error {
			return errors.Join(p.Steer(m.pipeline, "pause"), m.send(p, bodies), drained(ctx, p, m.pipeline))
		},
		func(p *process.Program) error { return drained(ctx, p) },
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
func (s *stores) look(ctx context.Context, m *measured, p *process.Program, failed error) (u used, err error) {
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
	c, err := pgx.Connect(ctx, s.postgres())
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

func (s *stores) postgres() string {
	return "postgres://postgres@" + s.Addr("postgres") + "/test?sslmode=disable"
}

// start starts the product.
func (s *stores) start(ctx context.Context, m *measured) (*process.Program, error) {
	file := filepath.Join(m.folder, "tidemill.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(m.config, "PARTNER", s.partner.URL, 1)), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, m.bin, "run", m.name, "--no-auth", "--config", file, "--data", filepath.Join(m.folder, "data"), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "TIDEMILL_LOG_LEVEL=warn")
	if m.onServers {
		cmd.Env = append(cmd.Env, "REDIS_URL=redis://"+s.Addr("redis"))
	}
	if m.uses("PostgreSQL") {
		cmd.Env = append(cmd.Env, "DATABASE_URL="+s.postgres())
	}
	if m.uses("ClickHouse") {
		cmd.Env = append(cmd.Env, "CLICKHOUSE_URL=http://"+s.Addr("clickhouse"), "CLICKHOUSE_DB=bench")
	}
	return process.Listening(cmd)
}

func (m *measured) post(p *process.Program, path string, body []byte) error {
	r, err := http.NewRequest(http.MethodPost, p.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", key)
	r.Header.Set("X-Batch-ID", "20260115100000")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("POST %s: %s: %.300s", path, resp.Status, text)
	}
	return err
}

func (m *measured) send(p *process.Program, bodies [][]byte) error {
	for _, b := range bodies {
		if err := m.post(p, m.path, b); err != nil {
			return err
		}
	}
	return nil
}

// books are those of a queue or pipeline; of a system with one only, its own.
type books struct {
	System, Queue, Pipeline string // its name is in one
	Dead                    uint64
	InFlight                uint64 `json:"in_flight"`
}

// drained waits until nothing is in flight but in what is paused, and checks the books.
func drained(ctx context.Context, p *process.Program, paused ...string) error {
	for {
		b, err := p.Get("/api/v1/audit")
		if err != nil {
			return err
		}
		var a struct {
			Balanced bool
			Systems  []struct {
				books
				Queues, Pipelines []books
			}
		}
		if err := json.Unmarshal(b, &a); err != nil {
			return err
		}
		var held, dead uint64
		for _, s := range a.Systems {
			for _, of := range slices.Concat([]books{s.books}, s.Queues, s.Pipelines) {
				if dead += of.Dead; !slices.Contains(paused, cmp.Or(of.Queue, of.Pipeline, of.System)) {
					held += of.InFlight
				}
			}
		}
		switch {
		case dead > 0:
			return fmt.Errorf("events became dead letters: %.500s", b)
		case held == 0 && a.Balanced:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond): // between two polls of another process
		}
	}
}

// stream writes entries to a stream, which is all that a bridge leaves waiting.
func (s *stores) stream(ctx context.Context, m *measured, r *result) error {
	before, err := s.inRedis(ctx)
	if err != nil {
		return err
	}
	g := rand.New(rand.NewPCG(1, 2))
	total := 0
	for range m.events {
		e := m.event(g)
		total += len(e)
		if err := s.redis.Do(ctx, s.redis.B().Xadd().Key("syslog-stream").Id("*").FieldValue().FieldValue("object", e).Build()).Error(); err != nil {
			return err
		}
	}
	after, err := s.inRedis(ctx)
	r.Sent, r.Waiting = float64(total)/float64(m.events), (after-before)/float64(m.events)
	return err
}
