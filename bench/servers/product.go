package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
)

// servers are the servers of this run.
type servers struct {
	*process.Services
	postgres, clickhouse string // URLs
}

func startServers(ctx context.Context, dir string) (*servers, error) {
	s, err := process.StartServices(ctx, dir, nil, "redis", "postgres", "clickhouse")
	if err != nil {
		return nil, err
	}
	return &servers{s, s.Postgres(), "http://" + s.Addr("clickhouse")}, nil
}

// timed runs do and reads what it cost every process; p is nil if the product has no part in
// it.
func (s *servers) timed(p *instance, events int, do func() error) (*result, error) {
	look := func() [4]time.Duration {
		var mine time.Duration
		if p != nil {
			mine = process.CPU(p.PID())
		}
		return [4]time.Duration{mine, s.CPU("redis"), s.CPU("postgres"), s.CPU("clickhouse")}
	}
	before, from := look(), time.Now()
	err := do()
	took, after := time.Since(from), look()
	each := func(i int) float64 { return process.Micros(after[i]-before[i], events) }
	return &result{Rate: float64(events) / took.Seconds(), Product: each(0), Redis: each(1), Postgres: each(2), ClickHouse: each(3)}, err
}

// instance is the binary under load.
type instance struct{ *product.Product }

func (s *servers) start(ctx context.Context, bin, data string) (*instance, error) {
	cmd := exec.CommandContext(ctx, bin, "run", "analytics", "--no-auth", "--data", data, "--listen", "127.0.0.1:0", "--project", projectID+"=bench-key-of-sixteen")
	cmd.Env = append(append(os.Environ(), "TIDEMILL_LOG_LEVEL=warn"), s.Settings()...)
	p, err := process.Listening(cmd)
	if err != nil {
		return nil, err
	}
	return &instance{&product.Product{Program: p}}, nil
}

// drained waits until the stream, whose ended entries are deleted, is empty, and checks the
// books. It asks for the stream's length and not for an audit, which counts rows.
func (p *instance) drained(ctx context.Context, client rueidis.Client, stream string) error {
	for {
		n, err := client.Do(ctx, client.B().Xlen().Key(stream).Build()).AsInt64()
		if err != nil {
			return err
		}
		if n == 0 {
			return p.audited()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond): // between two polls of another process
		}
	}
}

// audited checks that everything accepted was delivered.
func (p *instance) audited() error {
	all, balanced, err := p.Books()
	if err == nil && (!balanced || len(all) != 1 || all[0].Accepted != all[0].Delivered) {
		err = fmt.Errorf("the books do not balance: %+v", all)
	}
	return err
}
