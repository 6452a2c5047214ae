package partner

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/expr-lang/expr"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/urlsecret"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/state/queue"
)

// Env is what a partner needs to be built. Only Secret is required, and only if there are
// secrets.
type Env struct {
	// Secret finds the value of a variable, from the environment or a file.
	Secret func(variable string) (tidemill.Secret, bool)
	// Key names a message to the partner, the same for all attempts and replays; nil: its ID.
	Key func(*tidemill.Message) string
	// Turn returns when a request may go, or an error if it may not. Nil: at once.
	Turn func(ctx context.Context) error
	// Observe is told of every request, after it. It keeps nothing of its arguments.
	Observe func(ctx context.Context, batch []*tidemill.Message, a httpsink.Attempt)
	// Deduplicated says that each message is delivered once by other means: a lost answer is
	// then repeated as a timeout is.
	Deduplicated bool

	// Via sends the requests instead of the guarded network: for simulation.
	Via http.RoundTripper

	Roots       *x509.CertPool // trusted certificate authorities; nil: the system's
	Resolver    *net.Resolver  // nil: the system's
	Connections int            // at once; 0: 100
	Now         func() time.Time
	Tracer      tidemill.Tracer // takes a span of each request; nil: they have none
}

// Built is a partner that is ready to be delivered to.
type Built struct {
	Name       string
	Sink       *httpsink.Sink
	Retry      policy.Retry
	Limiter    policy.Limiter
	Items      int  // most messages in one request
	Idempotent bool // the partner does a thing once, however often it is sent
	Route      Route
	Breaker    policy.Breaker
	Queue      Queue
	OffAfter   time.Duration // how long it may fail before it is switched off; 0: any time
	Workers    int           // most requests at once; 0: the system's choice
	Limit      queue.Limit   // of its queue
	Ordered    bool
	Lease      time.Duration // 0: the queue's own
	Once       Once
	guard      *httpguard.Guard
}

// Close ends idle connections.
func (b *Built) Close() { b.guard.Close() }

// Build checks the whole description, compiles its expressions, finds its secrets and makes the
// sink. It connects to nothing. Errors name the partner and the problem, and a missing secret
// by its variable.
func (p Partner) Build(e Env) (*Built, error) {
	b, err := p.build(&e)
	if err != nil {
		return nil, fmt.Errorf("partner %s: %w", p.Name, err)
	}
	return b, nil
}

// InForce is the partner with its preset's values where it sets none itself.
func (p Partner) InForce() (Partner, error) {
	if p.Preset == "" {
		return p, nil
	}
	preset, err := Preset(p.Preset)
	if err != nil {
		return p, err
	}
	return p.over(preset), nil
}

func (p Partner) build(e *Env) (*Built, error) {
	p, err := p.InForce()
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	allow, err := p.allowed()
	if err != nil {
		return nil, err
	}
	certificates, err := p.Auth.certificates(e)
	if err != nil {
		return nil, err
	}
	guard, err := httpguard.New(httpguard.Options{Allow: allow, Plain: p.AllowHTTP, Proxy: p.Proxy,
		Certificates: certificates, Roots: e.Roots, Resolver: e.Resolver, Connections: e.Connections})
	if err != nil {
		return nil, err
	}
	if e.Key == nil {
		e.Key = func(m *tidemill.Message) string { return m.ID }
	}
	o, err := p.options(e, guard)
	if err != nil {
		return nil, err
	}
	var via http.RoundTripper = guard
	if e.Via != nil {
		via = e.Via
	}
	sink, err := httpsink.New(via, o)
	if err != nil {
		return nil, err
	}
	route, err := p.route()
	if err != nil {
		return nil, err
	}
	return &Built{Name: p.Name, Sink: sink, Retry: p.Retry(), Limiter: p.Limiter(), Items: max(p.Batch.Items, 1), Idempotent: o.Idempotent,
		Route: route, Breaker: p.Breaker.Policy(), Queue: p.Queue, OffAfter: p.SwitchedOffAfter(), Workers: p.Workers, Limit: p.Limit(), Ordered: p.Ordered, Lease: p.Lease, Once: p.Once, guard: guard}, nil
}

// options makes the sink's options.
func (p *Partner) options(e *Env, guard *httpguard.Guard) (o httpsink.Options, err error) {
	set(&p.Batch.Between, ",")
	o = httpsink.Options{
		Name: p.Name, Method: p.Method, KeyHeader: p.KeyHeader, Key: e.Key, Timeout: p.Timeout,
		Batch:   httpsink.Batch{Items: p.Batch.Items, Bytes: p.Batch.Bytes, Head: []byte(p.Batch.Head), Between: []byte(p.Batch.Between), Tail: []byte(p.Batch.Tail)},
		Observe: e.Observe, Turn: e.Turn, Now: e.Now, Tracer: e.Tracer,
		Idempotent: e.Deduplicated || p.Idempotent != nil && *p.Idempotent,
	}
	auth, more, err := p.Auth.build(e, guard, func(s string) (string, error) { return placed(s, p.Settings, url.PathEscape) })
	if err != nil {
		return o, err
	}
	if auth != nil {
		o.Auth = append(o.Auth, auth)
	}
	if o.URL, err = placed(p.Endpoint, p.Settings, url.PathEscape); err != nil {
		return o, fmt.Errorf("endpoint: %w", err)
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return o, fmt.Errorf("endpoint: it is no URL")
	}
	if err := guard.CheckURL(u); err != nil {
		return o, fmt.Errorf("endpoint: %w", err)
	}
	for name, value := range p.Settings {
		if urlsecret.Telling(name) {
			o.Secrets = append(o.Secrets, tidemill.NewSecret(value))
		}
	}
	o.Header = map[string]string{}
	for name, value := range p.Headers {
		if o.Header[name], err = placed(value, merged(p.Settings, more), func(s string) string { return s }); err != nil {
			return o, fmt.Errorf("headers.%s: %w", name, err)
		}
	}
	rules, err := newRules(p)
	if err != nil {
		return o, err
	}
	o.Judge = rules.judge
	if rules.list != nil {
		o.Items = rules.items
	}
	if len(p.Mapping) > 0 {
		m, err := p.mapping(e)
		if err != nil {
			return o, err
		}
		o.Encode = m.encode
	}
	return o, nil
}

// mapping compiles the mapping. The salt is needed only where site_hash is used.
func (p *Partner) mapping(e *Env) (*mapping, error) {
	var extra []expr.Option
	for _, f := range p.Mapping {
		if strings.Contains(f.Value, "site_hash") {
			salt, err := e.secret("PII_SALT", "the salt of site_hash")
			if err != nil {
				return nil, err
			}
			extra = append(extra, salted(salt))
			break
		}
	}
	return newMapping(p.Mapping, p.Dedup, ofEvents(p.Settings, p.Fields, extra...), p.Settings, e.Key)
}

// placed puts settings where their {name} stands.
func placed(s string, settings map[string]string, escape func(string) string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		value, known := settings[name]
		if !closed || !known || value == "" {
			return "", fmt.Errorf("settings.%s is missing", name)
		}
		b.WriteString(escape(value))
		s = after
	}
}
