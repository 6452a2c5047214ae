package partners

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
)

// contestant is one instance with its partners.
type contestant struct {
	program *product.Product
	redis   *process.Services // nil: everything is in its file
	far     *far
	others  int
	client  *http.Client
	sent    int
	turns   []turned
}

// turned has the measurements of one turn.
type turned struct {
	rate, p50, p99, cpu float64
	took                []float64 // ms
}

const key = "bench-key-of-the-shop"

// start starts an instance in a folder of its own.
func start(ctx context.Context, o options, bin, dir, place, way string, limit int) (c *contestant, err error) {
	c = &contestant{others: o.others, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	if c.far, err = newFar(way); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	partner := func(name, url string) map[string]any {
		return map[string]any{"name": name, "endpoint": url + "/" + name, "allowHttp": true, "allowPrivate": []string{"127.0.0.0/8"}}
	}
	var partners []map[string]any
	for i := range o.others {
		partners = append(partners, partner(fmt.Sprint("p", i+1), c.far.url))
	}
	url := c.far.url
	if way == "refused" {
		port, err := process.FreePort()
		if err != nil {
			return nil, err
		}
		url = "http://127.0.0.1:" + port
	}
	last := partner(deadName, url)
	last["queue"] = map[string]any{"jobs": limit, "full": o.full}
	delivery := map[string]any{"partners": append(partners, last), "sites": []map[string]any{{"id": "shop", "keys": []string{key}}}}
	settings, err := json.Marshal(map[string]any{"delivery": delivery}) // JSON is YAML
	if err != nil {
		return nil, err
	}
	var env []string
	if place == "redis" {
		if c.redis, err = process.StartServices(ctx, filepath.Join(dir, "redis"), nil, "redis"); err != nil {
			return nil, err
		}
		env = c.redis.Settings()
	}
	c.program, err = product.Start(ctx, bin, "delivery", dir, settings, env...)
	return c, err
}

func (c *contestant) stop() (err error) {
	if c.program != nil {
		err = c.program.Stop()
	}
	if c.redis != nil {
		c.redis.Stop()
	}
	return errors.Join(err, c.far.http.Close())
}

// begin forgets the measurements.
func (c *contestant) begin() { c.turns = nil }

// cpu is the time that instance and Redis have used.
func (c *contestant) cpu() time.Duration {
	d := process.CPU(c.program.PID())
	if c.redis != nil {
		d += c.redis.CPU("redis")
	}
	return d
}

// turn sends a burst, waits until the other partners have it, and then sends single events.
func (c *contestant) turn(ctx context.Context, burst, paced int) error {
	var t turned
	cpu, start := c.cpu(), time.Now()
	all := c.far.await(burst * c.others)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	const many = 50
	parts := (burst + many - 1) / many
	for w := range errs {
		wg.Go(func() {
			for p := w; p < parts && errs[w] == nil; p += len(errs) {
				errs[w] = c.post(ctx, c.sent+p*many, min(many, burst-p*many))
			}
		})
	}
	wg.Wait()
	c.sent += burst
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := arrived(ctx, all); err != nil {
		return err
	}
	t.rate = float64(burst) / time.Since(start).Seconds()
	if paced > 0 {
		all, first := c.far.await(paced*c.others), c.sent
		sent := make([]time.Time, paced)
		errs := make([]error, paced)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := range sent {
			<-tick.C
			sent[i] = time.Now()
			wg.Go(func() { errs[i] = c.post(ctx, first+i, 1) })
		}
		wg.Wait()
		c.sent += paced
		if err := errors.Join(append(errs, arrived(ctx, all))...); err != nil {
			return err
		}
		for _, d := range c.far.took(first, sent) {
			t.took = append(t.took, float64(d)/float64(time.Millisecond))
		}
		slices.Sort(t.took)
		t.p50, t.p99 = t.took[len(t.took)/2], t.took[len(t.took)*99/100]
	}
	t.cpu = float64((c.cpu() - cpu).Microseconds()) / float64(burst+paced)
	c.turns = append(c.turns, t)
	return nil
}

func arrived(ctx context.Context, all <-chan struct{}) error {
	return process.Within(ctx, all, nil, "deliver to the partners that are alive")
}

// post sends events in one request.
func (c *contestant) post(ctx context.Context, first, n int) error {
	var b bytes.Buffer
	for i := range n {
		sep := ","
		if i == 0 {
			sep = "["
		}
		fmt.Fprintf(&b, `%s{"eventType":"page_view","siteId":"shop","timestamp":%q,"sessionId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed","userId":"%064x",`+
			`"context":{"page":{"url":"https://shop.example/shoes","title":"Shoes"}},"consent":{"customConsent":{"advertising":true}},"properties":{"n":%d}}`, sep, time.Now().UTC().Format(time.RFC3339Nano), (first+i)%500, first+i)
	}
	b.WriteByte(']')
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.program.URL+"/v1/events", &b)
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", key)
	req.Header.Set("X-Idempotency-Key", fmt.Sprint("events-", first))
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusAccepted || bytes.Count(answer, []byte(`"accepted"`)) != n) {
		err = fmt.Errorf("%s: %.300s", resp.Status, answer)
	}
	return err
}

// result is the median turn.
func (c *contestant) result() turned {
	of := func(get func(turned) float64) float64 {
		var all []float64
		for _, t := range c.turns {
			all = append(all, get(t))
		}
		return figures.Median(all)
	}
	return turned{rate: of(func(t turned) float64 { return t.rate }), p50: of(func(t turned) float64 { return t.p50 }),
		p99: of(func(t turned) float64 { return t.p99 }), cpu: of(func(t turned) float64 { return t.cpu })}
}

// beyond checks that the dead partner was dead and that its limit was reached, and returns how many
// jobs are beyond it.
func (c *contestant) beyond(full string) (float64, error) {
	if n := c.far.got(deadName); n > 0 {
		return 0, fmt.Errorf("the dead partner has %d events", n)
	}
	b, err := c.program.Get("/metrics")
	if err != nil {
		return 0, err
	}
	name := map[string]string{"hold": "tidemill_partner_parked_jobs", "dead_letter": "tidemill_dead_letters", "drop_oldest": "tidemill_partner_dropped_total"}[full]
	most := math.Inf(-1)
	for line := range strings.Lines(string(b)) {
		var n float64
		if i := strings.LastIndexByte(strings.TrimSpace(line), ' '); i > 0 && strings.HasPrefix(line, name) {
			if _, err := fmt.Sscan(line[i:], &n); err == nil {
				most = max(most, n)
			}
		}
	}
	if most <= 0 {
		return 0, fmt.Errorf("nothing was beyond the limit: %s is %v", name, most)
	}
	return most, nil
}
