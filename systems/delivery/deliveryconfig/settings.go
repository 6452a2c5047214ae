// Package deliveryconfig has the settings of the delivery system and what is refused of them.
package deliveryconfig

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Group is what the settings are in a configuration.
var Group = config.Group{Name: "delivery", New: func(c *config.Loaded) config.Settings { return &Settings{c: c} }}

// Of finds the settings in a configuration.
func Of(c *config.Loaded) *Settings { return config.Of[*Settings](c) }

// Settings tune the delivery system.
type Settings struct {
	Workers    int           `yaml:"workers" env:"TIDEMILL_DELIVERY_WORKERS" default:"10" help:"workers of each queue when there is little to do" range:"[1,1000]"`
	MaxWorkers int           `yaml:"max_workers" env:"TIDEMILL_DELIVERY_MAX_WORKERS" default:"100" help:"workers of each queue when there is much to do" range:"[1,1000]" allow:"1 to 1000; at least workers"`
	Lease      time.Duration `yaml:"lease" env:"TIDEMILL_DELIVERY_LEASE" default:"30s" help:"visibility timeout: what a worker that died was working on is handed out again after it" range:"[1s,1h]"`
	KeyLife    time.Duration `yaml:"key_life" env:"TIDEMILL_DELIVERY_KEY_LIFE" default:"24h" help:"how long idempotency keys are known" range:"[1m,720h]"`
	SentLife   time.Duration `yaml:"sent_life" env:"TIDEMILL_DELIVERY_SENT_LIFE" default:"720h" help:"how long it is known which purchase was sent to which partner, and what a replay has sent" range:"[1s,)"`
	QueueMax   int           `yaml:"queue_max" env:"TIDEMILL_DELIVERY_QUEUE_MAX" default:"10000000" help:"jobs that one queue may hold: beyond it the endpoint answers 503, and of a partner whose queue.jobs does not say otherwise events are treated as its queue.full says" range:"[1,)"`
	Kept       int           `yaml:"kept" env:"TIDEMILL_DELIVERY_KEPT" default:"10000" help:"jobs of each queue that show what became of them after their end" range:"[0,1048576]"`
	KeptFor    time.Duration `yaml:"kept_for" env:"TIDEMILL_DELIVERY_KEPT_FOR" default:"24h" help:"and for how long" range:"[1s,)"`
	DeadMax    int           `yaml:"dead_max" env:"TIDEMILL_DELIVERY_DEAD_MAX" default:"1000000" help:"dead letters that a queue may have; when full, it waits" range:"[1,)"`
	Shards     int           `yaml:"shards" env:"TIDEMILL_DELIVERY_SHARDS" default:"1" help:"parts that queues are spread over in a Redis Cluster; all instances need the same number, and it cannot be changed while jobs wait" range:"[1,64]"`
	LowFrom    int           `yaml:"low_from" env:"TIDEMILL_DELIVERY_LOW_FROM" default:"100" help:"requests of so many events or more go to ingest.low" range:"[1,)"`
	PublicRate int           `yaml:"public_rate" reload:"true" env:"TIDEMILL_DELIVERY_PUBLIC_RATE" default:"1000" help:"requests a minute that an address may send to the public endpoints; 0: no limit" range:"[0,)"`

	RedisHost     string          `yaml:"redis_host" env:"REDIS_HOST" help:"host of the Redis, where redis.url is not set"`
	RedisPort     int             `yaml:"redis_port" env:"REDIS_PORT" default:"6379" help:"its port" range:"[1,65535]"`
	RedisPassword tidemill.Secret `yaml:"redis_password" env:"REDIS_PASSWORD" help:"its password"`
	RedisTLS      bool            `yaml:"redis_tls" env:"REDIS_TLS" default:"false" help:"reach it by TLS" allow:"true|false"`

	BullMQ BullMQ `yaml:"bullmq"`

	Sites    []Site            `yaml:"sites" reload:"true" stored:"site" help:"sites, their keys and limits"`
	Queues   []Rule            `yaml:"queues" reload:"true" help:"which queue of the ingest API takes which events; the first rule that holds"`
	Partners []partner.Partner `yaml:"partners" reload:"true" stored:"partner" help:"partners that events are delivered to"`

	c *config.Loaded // that they are a part of
}

// BullMQ is a queue of BullMQ that events come from.
type BullMQ struct {
	URL    config.URL `yaml:"url" env:"TIDEMILL_DELIVERY_BULLMQ_URL" help:"the Redis of a BullMQ queue whose jobs are events, to take them from there; empty: none" allow:"as redis.url"`
	Prefix string     `yaml:"prefix" env:"TIDEMILL_DELIVERY_BULLMQ_PREFIX" default:"bull" need:"true" help:"prefix of its keys"`
	Queue  string     `yaml:"queue" env:"TIDEMILL_DELIVERY_BULLMQ_QUEUE" default:"events" help:"its name" allow:"not empty, without colons"`

	Metrics time.Duration `yaml:"metrics" env:"TIDEMILL_DELIVERY_BULLMQ_METRICS" default:"336h" help:"how long BullMQ's own metrics (Queue.getMetrics) are kept, by the minute; 0: they are counted only where a worker of BullMQ counts them" range:"[0,8760h]"`
}

// Rule sends the events for which a condition holds to a queue of the ingest API.
type Rule struct {
	When  string `yaml:"when" help:"expression over the event that is true for those of the queue"`
	Queue string `yaml:"queue" help:"high, standard or low"`
}

// Site is a tenant of delivery.
type Site struct {
	ID      string            `yaml:"id" help:"what its events have as siteId: 1 to 100 of A-Z a-z 0-9 _ -"`
	Keys    []tidemill.Secret `yaml:"keys" main:"true" help:"that its servers send"`
	KeysEnv []string          `yaml:"keys_env" main:"true" help:"variables that keys are in, or NAME_FILE"`
	Hashes  []string          `yaml:"keys_sha256" main:"true" help:"SHA-256, in hex, of keys that are not to stand anywhere"`
	Public  bool              `yaml:"public" main:"true" help:"browsers may send to /collect without a key"`
	Origins []string          `yaml:"origins" main:"true" help:"pages that may; empty: all"`
	Plan    string            `yaml:"plan" main:"true" help:"free, pro or enterprise; empty: enterprise"`
	Daily   int               `yaml:"daily" main:"true" help:"events a day; 0: what the plan says"`
	Consent string            `yaml:"consent" help:"of events that say nothing about it: send (the default) or skip"`

	PerSecond float64 `yaml:"per_second" help:"deliveries to each partner; 0: no limit"`
	AtOnce    int     `yaml:"at_once" help:"and at a time; 0: no limit"`
}

// plans are events a day.
var plans = map[string]int{"free": 100_000, "pro": 1_000_000, "enterprise": 0, "": 0}

// PerDay is how many events the site may send a day; 0: any number.
func (s *Site) PerDay() int {
	if s.Daily > 0 {
		return s.Daily
	}
	return plans[s.Plan]
}

// Limit is that of the site's jobs in each partner's queue.
func (s *Site) Limit() queue.Limit { return queue.Limit{PerSecond: s.PerSecond, AtOnce: s.AtOnce} }

// Limits are those of the sites that have one, in each partner's queue.
func (d *Settings) Limits() map[string]queue.Limit {
	all := map[string]queue.Limit{}
	for i := range d.Sites {
		if l := d.Sites[i].Limit(); l != (queue.Limit{}) {
			all[d.Sites[i].ID] = l
		}
	}
	return all
}

// Configured says whether anything says that delivery is to run.
func (d *Settings) Configured() bool {
	return len(d.Sites) > 0 || len(d.Partners) > 0 || d.BullMQ.URL != ""
}

// Redis is the Redis of delivery; empty: it has none.
func (d *Settings) Redis() config.URL {
	if d.c.Redis.URL != "" || d.RedisHost == "" {
		return d.c.Redis.URL
	}
	u := url.URL{Scheme: "redis", Host: net.JoinHostPort(d.RedisHost, fmt.Sprint(d.RedisPort))}
	if d.RedisTLS {
		u.Scheme = "rediss"
	}
	if !d.RedisPassword.IsZero() {
		u.User = url.UserPassword("", d.RedisPassword.Reveal())
	}
	return config.URL(u.String())
}

// SiteKeys are the hashes of a site's keys.
func (d *Settings) SiteKeys(s *Site) ([]project.Hash, error) {
	return d.c.KeyHashes("site "+s.ID, s.Keys, s.KeysEnv, s.Hashes)
}

// Example shows what the lists of the group hold, in the file that init writes.
func (*Settings) Example() string {
	return `  # sites, their keys and limits; with none, the projects are the sites
  #sites:
  #  - id: shop                        # what its events have as siteId
  #    keys_env: [SHOP_KEY]            # keys in variables, or in files that SHOP_KEY_FILE names; or keys: […], or keys_sha256: […]
  #    public: true                    # browsers may send to /collect without a key
  #    origins: [https://shop.example]
  # which queue of the ingest API takes which events; the first that holds
  #queues:
  #  - {when: 'event.eventType == "add_to_cart"', queue: low}
  # partners that events are delivered to
  #partners:
  #  - name: mine
  #    endpoint: https://partner.example/events
  #    auth: {type: bearer, credentials: PARTNER_TOKEN}   # a variable, or a file that PARTNER_TOKEN_FILE names
  #    when: event.eventType == "purchase"
  #    mapping:
  #      - {field: id, value: event.eventId, required: true}
  #      - {field: user.email, value: email_hash(event.properties?.email)}
  #    dedup: id
  #    outcomes:
  #      - {when: status == 409, kind: delivered, why: it has it already}
`
}
