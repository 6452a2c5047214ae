// Package crmconfig has the settings of the CRM system and what is refused of them.
package crmconfig

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/urlsecret"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// Group is what the settings are in a configuration.
var Group = config.Group{Name: "crm", New: func(c *config.Loaded) config.Settings { return &Settings{c: c} }}

// Of finds the settings in a configuration.
func Of(c *config.Loaded) *Settings { return config.Of[*Settings](c) }

// Settings tune the CRM system.
type Settings struct {
	Workers  int           `yaml:"workers" env:"TIDEMILL_CRM_WORKERS" default:"10" help:"handlers called at once by this instance" range:"[1,1000]"`
	Batch    int           `yaml:"batch" env:"TIDEMILL_CRM_BATCH" default:"100" help:"events that a worker takes up together, which share the calls of the databases; no handler gets more in one call" range:"[1,1000]"`
	Ahead    int           `yaml:"ahead" env:"TIDEMILL_CRM_AHEAD" default:"0" help:"events that this instance holds at once: more is faster, and what is urgent waits behind as many at the most; 0: 4 for each worker" range:"[0,100000]"`
	Attempts int           `yaml:"attempts" env:"TIDEMILL_CRM_ATTEMPTS" default:"3" help:"tries of an event in all; then it is a dead letter" range:"[1,100]"`
	Backoff  time.Duration `yaml:"backoff" env:"TIDEMILL_CRM_BACKOFF" default:"1s" help:"wait before the second try, then twice as long each time" range:"[1ms,1h]"`
	Lease    time.Duration `yaml:"lease" env:"TIDEMILL_CRM_LEASE" default:"30s" help:"an event whose worker died is taken over after it; at least twice what the slowest handler may take" range:"[1s,1h]"`

	PerSecond       float64 `yaml:"per_second" reload:"true" env:"TIDEMILL_CRM_PER_SECOND" default:"100" help:"events a second, of all instances together; 0: no limit" range:"[0,1000000]"`
	TenantPerSecond float64 `yaml:"tenant_per_second" reload:"true" env:"TIDEMILL_CRM_TENANT_PER_SECOND" default:"50" help:"events a second of each tenant, of all instances together; 0: no limit" range:"[0,1000000]"`
	RateLimit       int     `yaml:"rate_limit" reload:"true" env:"TIDEMILL_CRM_RATE_LIMIT" default:"0" help:"events a minute that this instance takes of one tenant; more are answered 429; 0: any number" range:"[0,100000000]"`
	QueueMax        int     `yaml:"queue_max" env:"TIDEMILL_CRM_QUEUE_MAX" default:"10000000" help:"events that may wait; more are answered 503" range:"[1,)"`
	Shards          int     `yaml:"shards" env:"TIDEMILL_CRM_SHARDS" default:"1" help:"parts that the queue is spread over in a Redis Cluster; all instances need the same number, and it cannot be changed while jobs wait" range:"[1,64]"`

	KeptCompleted int           `yaml:"kept_completed" env:"TIDEMILL_CRM_KEPT_COMPLETED" default:"1000" help:"jobs that are shown after they were done" range:"[0,1048576]"`
	KeptFailed    int           `yaml:"kept_failed" env:"TIDEMILL_CRM_KEPT_FAILED" default:"5000" help:"jobs that are shown after they died" range:"[0,1048576]"`
	DeadLife      time.Duration `yaml:"dead_life" env:"TIDEMILL_CRM_DEAD_LIFE" default:"168h" help:"dead letters are deleted after it, and counted" range:"[1m,)"`
	DeadMax       int           `yaml:"dead_max" env:"TIDEMILL_CRM_DEAD_MAX" default:"1000000" help:"dead letters that are kept; when full, the queue waits" range:"[1,)"`
	LogLife       time.Duration `yaml:"log_life" env:"TIDEMILL_CRM_LOG_LIFE" default:"2160h" help:"entries of the sync log are forgotten after it: what is older is not recognised, and cannot be replayed" range:"[24h,)"`

	Unknown string `yaml:"unknown" env:"TIDEMILL_CRM_UNKNOWN" default:"skip" of:"skip|dead" help:"what becomes of events that no handler is for: they are skipped and counted, or dead letters"`
	Create  bool   `yaml:"create" env:"TIDEMILL_CRM_CREATE" default:"true" help:"make a profile for an identity that nobody has; without, such an event is tried again, and dead at last" allow:"true|false"`

	Priorities  Priorities `yaml:"priorities"`
	RedisURL    config.URL `yaml:"redis_url" env:"TIDEMILL_CRM_REDIS_URL" help:"a Redis of its own: queue and dead letters are there; empty: redis.url, and where that is empty too the embedded database" allow:"as redis.url"`
	PostgresURL config.URL `yaml:"postgres_url" env:"TIDEMILL_CRM_POSTGRES_URL" help:"a PostgreSQL of its own, such as the application's: sync log, replays and profiles are there; empty: postgres.url, and where that is empty too the embedded database" allow:"as postgres.url"`
	BullMQ      BullMQ     `yaml:"bullmq"`

	Tenants  []Tenant  `yaml:"tenants" reload:"true" help:"tenants, their keys and limits"`
	Handlers []Handler `yaml:"handlers" reload:"true" stored:"handler" help:"what is done with which events"`

	c *config.Loaded // that they are a part of
}

// Priorities are lists of types: names, and patterns such as member.*. What is in none is
// normal.
type Priorities struct {
	High     config.List `yaml:"high" env:"TIDEMILL_CRM_PRIORITIES_HIGH" default:"contactPreference.updated,scl.payment.failed,message.bounced,scl.member.status.changed" help:"types of events that go first" allow:"names and patterns such as member.*, separated by commas"`
	Normal   config.List `yaml:"normal" env:"TIDEMILL_CRM_PRIORITIES_NORMAL" default:"member.*,player.*,booking.*" help:"types that come after these, as all do that are in no list" allow:"names and patterns such as member.*, separated by commas"`
	Low      config.List `yaml:"low" env:"TIDEMILL_CRM_PRIORITIES_LOW" default:"email.opened,email.clicked,teetime.score.posted,scl.invoice.sent" help:"types that come last, and never starve" allow:"names and patterns such as member.*, separated by commas"`
	Prefixes config.List `yaml:"prefixes" env:"TIDEMILL_CRM_PRIORITIES_PREFIXES" default:"scl.,teetime." help:"what a type may begin with or not, here and in events" allow:"texts, separated by commas"`
}

// Rules are the lists as package priority has them.
func (p *Priorities) Rules() priority.Rules {
	return priority.Rules{High: p.High, Normal: p.Normal, Low: p.Low, Prefixes: append([]string{}, p.Prefixes...)} // never nil: that is another word for the default
}

// BullMQ is a queue of BullMQ that events come from.
type BullMQ struct {
	URL    config.URL `yaml:"url" env:"TIDEMILL_CRM_BULLMQ_URL" help:"the Redis of a BullMQ queue whose jobs are events, to take them from there; empty: none" allow:"as redis.url"`
	Prefix string     `yaml:"prefix" env:"TIDEMILL_CRM_BULLMQ_PREFIX" default:"bull" need:"true" help:"prefix of its keys"`
	Queue  string     `yaml:"queue" env:"TIDEMILL_CRM_BULLMQ_QUEUE" default:"crm-events" help:"its name" allow:"not empty, without colons"`

	Metrics time.Duration `yaml:"metrics" env:"TIDEMILL_CRM_BULLMQ_METRICS" default:"336h" help:"how long BullMQ's own metrics (Queue.getMetrics) are kept, by the minute; 0: they are counted only where a worker of BullMQ counts them" range:"[0,8760h]"`
}

// Tenant is one whose events are taken.
type Tenant struct {
	ID      string            `yaml:"id" help:"what its events have as tenantId"`
	Keys    []tidemill.Secret `yaml:"keys" help:"that its programs send"`
	KeysEnv []string          `yaml:"keys_env" help:"variables that keys are in, or NAME_FILE"`
	Hashes  []string          `yaml:"keys_sha256" help:"of keys that are not to stand anywhere"`

	PerSecond float64 `yaml:"per_second" help:"events; 0: tenant_per_second, below 0: no limit"`
	AtOnce    int     `yaml:"at_once" help:"events worked on at a time, by all instances; 0: no limit"`
}

// Handler says what is done with events of some types: exactly one of Endpoint and
// Attributes.
type Handler struct {
	Name       string          `yaml:"name" help:"its name, in metrics, logs and errors"`
	Types      []string        `yaml:"types" main:"true" help:"names, and patterns such as member.*; names go first"`
	Many       int             `yaml:"many" help:"events of one call at the most; 0: 100, and 1 for an endpoint"`
	Timeout    time.Duration   `yaml:"timeout" help:"of one call; 0: 10s"`
	Endpoint   *Endpoint       `yaml:"endpoint" main:"true" help:"events are sent to it"`
	Attributes handler.Mapping `yaml:"attributes" main:"true" help:"of profiles that are kept up to date"`
}

// Endpoint is an HTTP endpoint that takes events.
type Endpoint struct {
	URL          string            `yaml:"url" help:"its address: https, or http where allowHttp is set"`
	Secrets      []tidemill.Secret `yaml:"secrets" help:"whsec_…, of which each signs"`
	SecretsEnv   []string          `yaml:"secrets_env" help:"variables that they are in, or NAME_FILE"`
	Headers      map[string]string `yaml:"headers" help:"of every request"`
	HeadersEnv   map[string]string `yaml:"headers_env" help:"the same, whose values are in variables, or NAME_FILE"`
	AllowPrivate []string          `yaml:"allowPrivate" help:"networks that may be reached though they are private, e.g. 10.1.0.0/16"`
	AllowHTTP    bool              `yaml:"allowHttp" help:"it may be reached unencrypted"`
}

// Configured says whether anything says that CRM is to run.
func (s *Settings) Configured() bool {
	return len(s.Tenants) > 0 || len(s.Handlers) > 0 || s.BullMQ.URL != ""
}

// Redis is the Redis of CRM; empty: it has none.
func (s *Settings) Redis() config.URL { return cmp.Or(s.RedisURL, s.c.Redis.URL) }

// Postgres is the PostgreSQL of CRM; empty: it has none.
func (s *Settings) Postgres() config.URL { return cmp.Or(s.PostgresURL, s.c.Postgres.URL) }

// Limits are those of the tenants that have one of their own.
func (s *Settings) Limits() map[string]queue.Limit {
	all := map[string]queue.Limit{}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if t.PerSecond == 0 && t.AtOnce == 0 {
			continue
		}
		l := queue.Limit{PerSecond: max(t.PerSecond, 0), AtOnce: t.AtOnce}
		if t.PerSecond == 0 {
			l.PerSecond = s.TenantPerSecond
		}
		if l.PerSecond > 0 { // as many may go at once after a pause as with the limit that all have
			l.Burst = max(1, int(math.Ceil(l.PerSecond/5)))
		}
		all[t.ID] = l
	}
	return all
}

// TenantKeys are the hashes of a tenant's keys.
func (s *Settings) TenantKeys(t *Tenant) ([]project.Hash, error) {
	return s.c.KeyHashes("tenant "+t.ID, t.Keys, t.KeysEnv, t.Hashes)
}

// Spec is the handler without what it calls.
func (h *Handler) Spec() handler.Spec {
	s := handler.Spec{Name: h.Name, Types: h.Types, Many: h.Many, Timeout: cmp.Or(h.Timeout, handler.DefaultTimeout)}
	if h.Endpoint == nil {
		s.Many = cmp.Or(s.Many, 100)
	} else {
		s.Timeout += endpointGrace
	}
	return s
}

// endpointGrace is what the call of an endpoint may take beside its request: that ends first,
// and says more about why.
const endpointGrace = time.Second

// Endpoint is a handler's endpoint with its secrets.
func (s *Settings) Endpoint(h *Handler) (o webhook.Options, err error) {
	e := h.Endpoint
	o = webhook.Options{Name: h.Name, URL: e.URL, Timeout: h.Timeout, Plain: e.AllowHTTP, Header: map[string]string{}}
	o.Secrets = append(o.Secrets, e.Secrets...)
	secret := func(setting, name string) (tidemill.Secret, error) {
		s, ok := s.c.Secret(name)
		if !ok {
			return s, fmt.Errorf("%s: neither %s nor %s_FILE is set", setting, name, name)
		}
		return s, nil
	}
	for _, name := range e.SecretsEnv {
		s, err := secret("secrets_env", name)
		if err != nil {
			return o, err
		}
		o.Secrets = append(o.Secrets, s)
	}
	for name, value := range e.Headers {
		o.Header[name] = value
	}
	for name, variable := range e.HeadersEnv {
		s, err := secret("headers_env", variable)
		if err != nil {
			return o, err
		}
		o.Header[name] = s.Reveal()
		o.Hidden = append(o.Hidden, s)
	}
	for _, text := range e.AllowPrivate {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return o, fmt.Errorf("allowPrivate: %q is no network such as 10.1.0.0/16", text)
		}
		o.Allow = append(o.Allow, p)
	}
	return o, nil
}

// Shown is the handler without what may be a key.
func (h Handler) Shown() any {
	if h.Endpoint != nil {
		e := *h.Endpoint
		e.Headers, e.URL = urlsecret.Headers(e.Headers), urlsecret.Show(e.URL)
		h.Endpoint = &e
	}
	return h
}

// Example shows what the lists of the group hold, in the file that init writes.
func (*Settings) Example() string {
	return `  # tenants, their keys and limits; with none, the projects are the tenants
  #tenants:
  #  - id: club-7                      # what its events have as tenantId
  #    keys_env: [CLUB_7_KEY]          # keys in variables, or in files that CLUB_7_KEY_FILE names; or keys: […], or keys_sha256: […]
  #    per_second: 20                  # events; 0: tenant_per_second, below 0: no limit
  #    at_once: 5                      # events worked on at a time, by all instances; 0: no limit
  # what is done with which events, by attributes or by an endpoint; with none, all are skipped and counted
  #handlers:
  #  - name: profile
  #    types: [member.created, player.*]  # names, and patterns, of which the longest goes first
  #    many: 100                       # events in one call at the most
  #    attributes:                     # of the profile; op: set, set_once, unset or increment
  #      - {attribute: city, from: payload.address.city}
  #      - {attribute: "booking_*", from: payload.booking}
  #      - {attribute: logins, value: "1", op: increment}
  #  - name: app
  #    types: ["*"]
  #    timeout: 10s
  #    endpoint:
  #      url: https://app.example.com/events
  #      secrets_env: [APP_SECRET]     # whsec_ and base64, by which requests are signed; or secrets: […]
  #      headers: {X-Source: tidemill}
  #      headers_env: {Authorization: APP_TOKEN}
  #      allowPrivate: [10.1.0.0/16]   # networks that may be reached though they are private
  #      allowHttp: false
`
}
