// Package product runs the product's binary as its users do, with a file of settings, and asks it how
// its books stand.
package product

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
)

// Product is an instance that runs.
type Product struct{ *process.Program }

// Start starts a system in a folder, with settings in YAML and in the form of the environment. Its API
// needs no token, and limits nobody.
func Start(ctx context.Context, bin, system, folder string, settings []byte, env ...string) (*Product, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "tidemill.yaml")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "run", system, "--no-auth", "--config", file, "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0")
	cmd.Env = append(append(os.Environ(), "TIDEMILL_LOG_LEVEL=error", "TIDEMILL_LOG_FORMAT=text", "TIDEMILL_ADMIN_RATES_READS=0", "TIDEMILL_ADMIN_RATES_CHANGES=0"), env...)
	p, err := process.Listening(cmd)
	if err != nil {
		return nil, err
	}
	return &Product{p}, nil
}

// Post sends a body; batch is the id of a batch of windows.
func (p *Product) Post(path, batch string, body []byte) error {
	r, err := http.NewRequest(http.MethodPost, p.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", load.Key)
	r.Header.Set("X-Batch-ID", batch)
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

// Books are those of a queue or pipeline; of a system with one only, its own.
type Books struct {
	System, Queue, Pipeline            string // its name is in one
	Accepted, Delivered, Dead, Skipped uint64
	InFlight                           uint64 `json:"in_flight"`
}

// Name is that of the queue, pipeline or system.
func (b *Books) Name() string { return cmp.Or(b.Queue, b.Pipeline, b.System) }

// Books are those of everything that the instance runs, and whether they balance. They are of all
// instances that share their stores.
func (p *Product) Books() (all []Books, balanced bool, err error) {
	text, err := p.Get("/api/v1/audit")
	if err != nil {
		return nil, false, err
	}
	var a struct {
		Balanced bool
		Systems  []struct {
			Books
			Queues, Pipelines []Books
		}
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, false, err
	}
	for _, s := range a.Systems {
		all = append(all, slices.Concat([]Books{s.Books}, s.Queues, s.Pipelines)...)
	}
	return all, a.Balanced, nil
}

// Drained waits until nothing is in flight but in what is paused, and the books balance. It looks every
// now and then, and an event that is dead is an error.
func (p *Product) Drained(ctx context.Context, every time.Duration, paused ...string) error {
	for {
		all, balanced, err := p.Books()
		if err != nil {
			return err
		}
		var held uint64
		for _, b := range all {
			if b.Dead > 0 {
				return fmt.Errorf("%d events of %s became dead letters", b.Dead, b.Name())
			}
			if !slices.Contains(paused, b.Name()) {
				held += b.InFlight
			}
		}
		if held == 0 && balanced {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Ended():
			return fmt.Errorf("it ended with %d events in flight", held)
		case <-time.After(every): // between two looks at another process
		}
	}
}

// Settled is how often each pipeline of this instance has settled an event since its start.
func (p *Product) Settled() (map[string]float64, error) {
	text, err := p.Get("/metrics")
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "tidemill_messages_settled_total{")
		_, rest, named := strings.Cut(rest, `pipeline="`)
		if !ok || !named {
			continue
		}
		var n float64
		name, value, _ := strings.Cut(rest, `"} `)
		if _, err := fmt.Sscan(value, &n); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		all[name] += n
	}
	return all, nil
}
