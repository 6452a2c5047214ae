package beside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
	"github.com/tidemill/tidemill/bench/requests"
	"github.com/tidemill/tidemill/bench/rounds"
)

// Names of phases.
const (
	alone     = "alone"
	backlog   = "beside a backlog"
	work      = "work alone"
	meanwhile = "meanwhile"
	queries   = "with queries"
)

// system is one of the product's, on its file or on servers.
type system struct {
	name    string // as rows begin
	run     string // what the binary runs
	servers []string
	request []byte
	status  int
	paused  []string // its pipelines that wait while requests are alone
	reads   bool     // it is measured with queries too

	config func(far string) any // its settings; far is the partners' address
}

// systems are all that are measured.
func systems() []*system {
	var all []*system
	for _, s := range []*system{delivery(), crm(), analytics()} {
		file := *s
		file.name, file.servers = s.run+", one file", nil
		all = append(all, &file, s)
	}
	return all
}

func delivery() *system {
	partner := func(name, far string) map[string]any {
		return map[string]any{"name": name, "endpoint": far + "/" + name, "allowHttp": true, "allowPrivate": []string{"127.0.0.0/8"}}
	}
	body := `{"eventType":"page_view","siteId":"shop","timestamp":"` + now() + `","sessionId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",` +
		`"userId":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","context":{"page":{"url":"https://shop.example/shoes","title":"Shoes"}},` +
		`"consent":{"customConsent":{"advertising":true}},"properties":{"n":"` + requests.ID + `"}}`
	return &system{name: "delivery, Redis", run: "delivery", servers: []string{"redis"}, status: http.StatusAccepted,
		request: requests.Post("/v1/events", "X-API-Key: "+load.Key+"\r\nX-Idempotency-Key: "+requests.ID+"\r\n", []byte(body)),
		paused:  append([]string{"ingest.high", "ingest.standard", "ingest.low"}, queues()...),
		config: func(far string) any {
			var partners []map[string]any
			for _, name := range append(well(), slow, dead) {
				partners = append(partners, partner(name, far))
			}
			return map[string]any{"delivery": map[string]any{"partners": partners, "sites": []map[string]any{{"id": "shop", "keys": []string{load.Key}}}}}
		}}
}

// queues are the pipelines of all partners.
func queues() (all []string) {
	for _, name := range append(well(), slow, dead) {
		all = append(all, "s2s."+name)
	}
	return all
}

func crm() *system {
	body := `{"id":"` + requests.ID + `","type":"member.updated","tenantId":"club-7","identity":{"externalId":"m-` + requests.ID + `"},"occurredAt":"` + now() + `","payload":{"firstName":"Ann","note":"gold member, monday evening, asks for the offer of the summer"}}`
	return &system{name: "crm, Redis and PostgreSQL", run: "crm", servers: []string{"redis", "postgres"}, status: http.StatusAccepted,
		request: requests.Post("/v1/crm/events", "X-API-Key: "+load.Key+"\r\n", []byte(body)), paused: []string{"crm-events"},
		config: func(string) any {
			return map[string]any{"crm": map[string]any{"per_second": 0, "tenant_per_second": 0, "tenants": []map[string]any{{"id": "club-7", "keys": []string{load.Key}}},
				"handlers": []map[string]any{{"name": "profiles", "types": []string{"member.*"}, "attributes": []map[string]any{{"attribute": "firstName", "from": "payload.firstName"}}}}}}
		}}
}

func analytics() *system {
	body := `{"api_key":"` + load.Key + `","batch":[{"uuid":"` + requests.ID + `","timestamp":"` + now() + `","event":"action 1","distinct_id":"user-1","properties":{"$current_url":"https://app.example.com/projects/7/settings?tab=billing",` +
		`"$host":"app.example.com","$pathname":"/projects/7/settings","$browser":"Chrome","$os":"macOS","$screen_height":1117,"$screen_width":1728,"$lib":"web","$lib_version":"1.205.0","plan":"scale","seats":7}}]}`
	return &system{name: "analytics, Redis, PostgreSQL and ClickHouse", run: "analytics", servers: []string{"redis", "postgres", "clickhouse"}, status: http.StatusOK, reads: true,
		request: requests.Post("/batch/", "", []byte(body)), paused: []string{"analytics"},
		config: func(string) any {
			return map[string]any{"projects": []map[string]any{{"name": "bench", "key": load.Key}}}
		}}
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// running is a system that runs.
type running struct {
	*system
	o       *options
	program *product.Product
	servers *process.Services // nil: it has its file
	far     *process.Program  // the partners
	load    *requests.Load

	accepted int
	phases   map[string][]*result
}

// measure makes the turns of one system. Rows are medians of its turns.
func (s *system) measure(ctx context.Context, o *options, dir string) (all []*result, err error) {
	r, err := s.start(ctx, o, dir)
	if r != nil {
		defer func() { err = errors.Join(err, r.stop()) }()
	}
	if err != nil {
		return nil, err
	}
	for turn := range o.turns + 1 {
		if turn == 1 {
			clear(r.phases) // the first was to warm up
		}
		if err := r.turn(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{alone, work, backlog, meanwhile, queries} {
		if of := r.phases[name]; len(of) > 0 {
			m := rounds.Median(of)
			m.Name, m.Of = s.name+": "+name, s.name
			all = append(all, m)
		}
	}
	return all, nil
}

// start starts a system in a folder of its own.
func (s *system) start(ctx context.Context, o *options, dir string) (r *running, err error) {
	r = &running{system: s, o: o, phases: map[string][]*result{}}
	self, err := rounds.Self(ctx, "beside")
	if err != nil {
		return r, err
	}
	if r.far, err = process.Listening(self); err != nil {
		return r, err
	}
	settings, err := json.Marshal(s.config(r.far.URL)) // JSON is YAML
	if err != nil {
		return r, err
	}
	var env []string
	if len(s.servers) > 0 {
		if r.servers, err = process.StartServices(ctx, filepath.Join(dir, "servers"), nil, s.servers...); err != nil {
			return r, err
		}
		env = r.servers.Settings()
	}
	if r.program, err = product.Start(ctx, o.bin, s.run, dir, settings, env...); err != nil {
		return r, err
	}
	r.load, err = requests.Open(strings.TrimPrefix(r.program.URL, "http://"), o.connections, s.request, s.status)
	return r, err
}

func (r *running) stop() (err error) {
	if r.load != nil {
		r.load.Close()
	}
	if r.program != nil {
		err = r.program.Stop()
	}
	if r.servers != nil {
		r.servers.Stop()
	}
	if r.far != nil {
		err = errors.Join(err, r.far.Stop())
	}
	return err
}

// turn goes through all phases once. What the first brings in is the work that is measured alone, and a
// like phase brings in the backlog.
func (r *running) turn(ctx context.Context) error {
	steps := []func() error{
		func() error { return r.steer("pause") },
		func() error { return r.requests(alone) },
		func() error { return r.steer("resume") },
		func() error { return r.drain(ctx, work) },
		func() error { return r.steer("pause") },
		func() error { return r.requests("") },
		func() error { return r.steer("resume") },
		func() error { return r.requests(backlog) },
		func() error { return r.drain(ctx, "") },
		func() error { return r.requests(meanwhile) },
		func() error { return r.drain(ctx, "") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if !r.reads {
		return nil
	}
	began, pages := time.Now(), r.read(ctx)
	err := r.requests(queries)
	took, failed := pages()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	last := r.phases[queries][len(r.phases[queries])-1]
	last.Pages, last.PageP50 = float64(len(took))/time.Since(began).Seconds(), figures.At(took, 0.5)
	return r.drain(ctx, "")
}

// requests loads the system for a phase; without a name nothing is measured.
func (r *running) requests(name string) error {
	before, err := r.ended()
	if err != nil {
		return err
	}
	began, used := time.Now(), r.used()
	took, err := r.load.Run(r.o.phase)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	passed := time.Since(began).Seconds()
	used = r.used() - used
	r.accepted += len(took)
	after, err := r.ended()
	p := &result{Rate: float64(len(took)) / passed, P50: figures.At(took, 0.5), P99: figures.At(took, 0.99), Work: float64(after-before) / passed, Cores: used.Seconds() / passed}
	if name == "" {
		return err
	}
	if p.Work == 0 && name != alone {
		figures.Note(&p.Problem, errors.New("no event came to its end meanwhile"))
	}
	r.phases[name] = append(r.phases[name], p)
	return err
}

// used is the CPU time so far of product and servers.
func (r *running) used() time.Duration {
	all := process.CPU(r.program.PID())
	if r.servers != nil {
		all += r.servers.CPUs()
	}
	return all
}

// drain waits until all that was accepted has come to its end. With a name, how fast is a phase.
func (r *running) drain(ctx context.Context, name string) error {
	before, err := r.ended()
	if err != nil {
		return err
	}
	began := time.Now()
	for at, last := before, began; ; {
		n, err := r.ended()
		if err != nil {
			return err
		}
		if n > at {
			at, last = n, time.Now()
		}
		switch {
		case n == r.accepted:
			if name != "" {
				r.phases[name] = append(r.phases[name], &result{Work: float64(n-before) / time.Since(began).Seconds()})
			}
			return nil
		case n > r.accepted:
			return fmt.Errorf("%d events came to their end, and %d were accepted", n, r.accepted)
		case time.Since(last) > 30*time.Second:
			return fmt.Errorf("nothing has come to its end for 30 s: %d of %d have", n, r.accepted)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond): // between two looks at another process
		}
	}
}

func (r *running) steer(verb string) error {
	for _, p := range r.paused {
		if err := r.program.Steer(p, verb); err != nil {
			return err
		}
	}
	return nil
}

// ended is how many events have come to their end, all in the way that they should.
func (r *running) ended() (int, error) {
	if r.run == "delivery" {
		b, err := r.far.Get("/least")
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(b))
	}
	all, _, err := r.program.Books()
	if err != nil {
		return 0, err
	}
	own := all[0] // of the system
	if own.Dead+own.Skipped > 0 {
		return 0, fmt.Errorf("%d events are dead and %d skipped", own.Dead, own.Skipped)
	}
	return int(own.Delivered), nil
}
