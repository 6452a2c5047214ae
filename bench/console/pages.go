package console

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/bench/stores"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

// site is a console over stores, as it listens.
type site struct {
	*httptest.Server
	api *admin.API
}

// gate lets everybody in as an admin.
type gate struct{ access.Gate }

var admins = caller.Caller{Name: "bench", Rights: caller.All(caller.Admin), Payloads: true, Via: "token"}

func (gate) Caller(*http.Request) (caller.Caller, error) { return admins, nil }

func serve(ctx context.Context, s *stores.Stores) (*site, error) {
	books := map[string]tidemill.Bookkeeper{}
	for i := range queues {
		books[nameOf(i)] = s.Queues.Open(nameOf(i), queue.Options{}).(tidemill.Bookkeeper)
		books[nameOf(i)+".replay"] = s.Letters.Open(nameOf(i)).(tidemill.Bookkeeper)
	}
	settings, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		return nil, err
	}
	api := admin.New(admin.Parts{Config: func() *config.Loaded { return settings }, Common: &answer.Common{Queues: s.Queues, Stopping: ctx}, Letters: s.Letters, Systems: []admin.System{{Name: "bench", Books: books, Audit: audit(books)}}, Bulk: tablebulk.Memory(),
		Finds: []answer.Finds{{System: bridge.Name, Finder: &bridgeapi.Finder{Queues: s.Queues, Letters: s.Letters, Now: time.Now}}}})
	if err := api.Sample().Do(ctx); err != nil {
		return nil, err
	}
	pages, err := console.New(console.Parts{Parts: page.Parts{API: operation.Inside(api.Inside()), Operations: api.Operations()}, Gate: gate{}})
	if err != nil {
		return nil, err
	}
	inside := api.Inside()
	return &site{api: api, Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, admin.Prefix) {
			inside.ServeHTTP(w, r.WithContext(caller.With(r.Context(), admins)))
			return
		}
		pages.ServeHTTP(w, r)
	}))}, nil
}

// audit proves the books, as systems do: it reads those of each queue.
func audit(books map[string]tidemill.Bookkeeper) func(context.Context) (any, bool, error) {
	return func(ctx context.Context) (any, bool, error) {
		var sum tidemill.Books
		off := int64(0)
		for _, one := range books {
			b, err := one.Books(ctx)
			if err != nil {
				return nil, false, err
			}
			sum.Accepted, sum.Pending, off = sum.Accepted+b.Accepted, sum.Pending+b.Pending, off+b.Off()
		}
		return map[string]any{"system": "bench", "balanced": off == 0, "accepted": sum.Accepted, "in_flight": sum.Pending, "faults": []string{}}, off == 0, nil
	}
}

func (s *site) close() {
	s.CloseClientConnections() // streams go on for ever
	s.Server.Close()
	s.api.Close()
}

// load is one page, and how many bytes came.
func (s *site) load(ctx context.Context, path string, as http.Header) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return "", err
	}
	for name, values := range as {
		r.Header[name] = values
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered %s: %.400s", path, resp.Status, all)
	}
	return string(all), err
}

// kind is a page, and what it may cost.
type kind struct {
	name, path string
	budget     float64 // of the 95th percentile, in ms
}

// follow is the address of the first link of a page that matches; empty: it has none.
func (s *site) follow(ctx context.Context, path, link string) (string, error) {
	body, err := s.load(ctx, path, nil)
	m := regexp.MustCompile(link).FindStringSubmatch(body)
	if err != nil || m == nil {
		return "", err
	}
	return html.UnescapeString(m[1]), nil
}

// kinds are the pages that are measured. The middle of a list is found by its links.
func (s *site) kinds(ctx context.Context) ([]kind, error) {
	const jobs, next = "/console/queues/queue-50/jobs", `rel="next" href="([^"]+)"`
	job, err := s.follow(ctx, jobs, `href="([^"]*/job\?[^"]+)"`)
	if err != nil {
		return nil, err
	}
	letter, err := s.follow(ctx, "/console/dead?limit=25", `href="([^"?]*/console/dead/-?[^"/?]*/\d+)"`)
	if err != nil {
		return nil, err
	}
	middle := map[string]string{}
	for _, list := range []string{jobs, "/console/dead"} {
		at := list + "?limit=200"
		for range 250 { // half of a queue of 100,000
			to, err := s.follow(ctx, at, next)
			if err != nil {
				return nil, err
			}
			if to == "" {
				break
			}
			at = to
		}
		middle[list] = strings.Replace(at, "limit=200", "limit=50", 1)
	}
	return []kind{
		{"overview", "/console/", 50}, {"queues", "/console/queues", 100}, {"queue", "/console/queues/queue-50", 50},
		{"jobs, first page", jobs, 100}, {"jobs, middle", middle[jobs], 100}, {"jobs, last page", jobs + "?order=oldest", 100},
		{"jobs that wait of an owner", jobs + "?state=waiting&tenant=owner-7", 100}, {"jobs of a type", jobs + "?type=purchase", 100}, {"jobs of a type that there is not", jobs + "?type=none", 100},
		{"job", job, 50}, {"owners", "/console/owners", 100}, {"owners by dead letters", "/console/owners?order=dead", 100}, {"owner", "/console/owners/one?owner=owner-7", 50},
		{"dead letters, with groups", "/console/dead", 100}, {"dead letters, middle", middle["/console/dead"], 100}, {"dead letters of a pipeline and kind", "/console/dead?pipeline=queue-50&kind=partner_error", 100},
		{"dead letters of a common cause", "/console/dead?cause=" + url.QueryEscape("cause c: answered #"), 100}, {"dead letters of a rare cause", "/console/dead?cause=" + url.QueryEscape(rare), 100},
		{"dead letter", letter, 50}, {"explain", "/console/explain?system=bridge&id=7", 150},
		{"preview of a replay of a pipeline's", "/console/dead/replay?pipeline=queue-50", 2000}, {"preview of a discard of all", "/console/dead/delete?all=true", 2000}, {"preview of jobs of a queue", "/console/queues/queue-50/remove?state=waiting&tenant=owner-50", 2000},
		{"books", "/console/books", 100}, {"live", "/console/live", 100}, {"operations", "/console/operations", 100},
	}, nil
}

// measure loads each kind of page by ten viewers.
func (s *site) measure(ctx context.Context, st *stores.Stores, o *options, tell func(*result)) error {
	kinds, err := s.kinds(ctx)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if !o.Wants(k.name) {
			continue
		}
		r := &result{Common: rounds.Common{Name: k.name}, Budget: k.budget}
		stop, err := process.ProfileSelf(o.ProfileOf(k.name))
		if err != nil {
			return err
		}
		figures.Note(&r.Problem, s.row(ctx, st, k, o.pages, r)) // the others are measured all the same
		stop()
		if err := ctx.Err(); err != nil {
			return err
		}
		tell(r)
	}
	return nil
}

func (s *site) row(ctx context.Context, st *stores.Stores, k kind, pages int, r *result) error {
	zipped, err := s.load(ctx, k.path, http.Header{"Accept-Encoding": {"gzip"}})
	if err != nil {
		return err
	}
	zipped, err = squeezed(zipped)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	cpu, servers := process.CPU(os.Getpid()), st.CPU()
	var wg sync.WaitGroup
	for i := range viewers {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Second / viewers) // they do not look at the same moment
			for range pages {
				began := time.Now()
				_, err := s.load(ctx, k.path, nil)
				mu.Lock()
				if all = append(all, time.Since(began)); err != nil {
					failed = err
				}
				mu.Unlock()
				time.Sleep(time.Second) // a viewer reads
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	r.CPU, r.Servers = process.Micros(process.CPU(os.Getpid())-cpu, len(all)), process.Micros(st.CPU()-servers, len(all))
	r.P50, r.P95, r.Bytes = figures.At(all, .5), figures.At(all, .95), float64(len(zipped))
	return nil
}
