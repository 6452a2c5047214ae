package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Delivery tunes the delivery system.
type Delivery struct {
	Workers    int           `yaml:"workers" env:"TIDEMILL_DELIVERY_WORKERS" default:"10" help:"workers of each queue when there is little to do" allow:"1 to 1000"`
	MaxWorkers int           `yaml:"max_workers" env:"TIDEMILL_DELIVERY_MAX_WORKERS" default:"100" help:"workers of each queue when there is much to do" allow:"1 to 1000; at least workers"`
	Lease      time.Duration `yaml:"lease" env:"TIDEMILL_DELIVERY_LEASE" default:"30s" help:"visibility timeout: what a worker that died was working on is handed out again after it" allow:"1s to 1h"`
	KeyLife    time.Duration `yaml:"key_life" env:"TIDEMILL_DELIVERY_KEY_LIFE" default:"24h" help:"how long idempotency keys are known" allow:"1m to 720h"`
	SentLife   time.Duration `yaml:"sent_life" env:"TIDEMILL_DELIVERY_SENT_LIFE" default:"720h" help:"how long it is known which purchase was sent to which partner, and what a replay has sent" allow:"1s or more"`
	QueueMax   int           `yaml:"queue_max" env:"TIDEMILL_DELIVERY_QUEUE_MAX" default:"10000000" help:"jobs that one queue may hold: beyond it the endpoint answers 503, and of a partner whose queue.jobs does not say otherwise events are treated as its queue.full says" allow:"1 or more"`
	Kept       int           `yaml:"kept" env:"TIDEMILL_DELIVERY_KEPT" default:"10000" help:"jobs of each queue that show what became of them after their end" allow:"0 to 1048576"`
	KeptFor    time.Duration `yaml:"kept_for" env:"TIDEMILL_DELIVERY_KEPT_FOR" default:"24h" help:"and for how long" allow:"1s or more"`
	DeadMax    int           `yaml:"dead_max" env:"TIDEMILL_DELIVERY_DEAD_MAX" default:"1000000" help:"dead letters that a queue may have; when full, it waits" allow:"1 or more"`
	Shards     int           `yaml:"shards" env:"TIDEMILL_DELIVERY_SHARDS" default:"1" help:"parts that queues are spread over in a Redis Cluster; all instances need the same number, and it cannot be changed while jobs wait" allow:"1 to 64"`
	LowFrom    int           `yaml:"low_from" env:"TIDEMILL_DELIVERY_LOW_FROM" default:"100" help:"requests of so many events or more go to ingest.low" allow:"1 or more"`
	PublicRate int           `yaml:"public_rate" env:"TIDEMILL_DELIVERY_PUBLIC_RATE" default:"1000" help:"requests a minute that an address may send to the public endpoints; 0: no limit" allow:"0 or more"`

	RedisHost     string          `yaml:"redis_host" env:"REDIS_HOST" help:"host of the Redis, where redis.url is not set"`
	RedisPort     int             `yaml:"redis_port" env:"REDIS_PORT" default:"6379" help:"its port" allow:"1 to 65535"`
	RedisPassword tidemill.Secret `yaml:"redis_password" env:"REDIS_PASSWORD" help:"its password"`
	RedisTLS      bool            `yaml:"redis_tls" env:"REDIS_TLS" default:"false" help:"reach it by TLS" allow:"true|false"`

	BullMQ DeliveryBullMQ `yaml:"bullmq"`

	Sites    []Site            `yaml:"sites" help:"sites, their keys and limits"`
	Queues   []Rule            `yaml:"queues" help:"which queue of the door takes which events; the first rule that holds"`
	Partners []partner.Partner `yaml:"partners" help:"partners that events are delivered to"`
}

// DeliveryBullMQ is a queue of BullMQ that events come from.
type DeliveryBullMQ struct {
	URL    URL    `yaml:"url" env:"TIDEMILL_DELIVERY_BULLMQ_URL" help:"the Redis of a BullMQ queue whose jobs are events, to take them from there; empty: none" allow:"as redis.url"`
	Prefix string `yaml:"prefix" env:"TIDEMILL_DELIVERY_BULLMQ_PREFIX" default:"bull" need:"true" help:"prefix of its keys"`
	Queue  string `yaml:"queue" env:"TIDEMILL_DELIVERY_BULLMQ_QUEUE" default:"events" help:"its name" allow:"not empty, without colons"`

	Metrics time.Duration `yaml:"metrics" env:"TIDEMILL_DELIVERY_BULLMQ_METRICS" default:"336h" help:"how long BullMQ's own metrics (Queue.getMetrics) are kept, by the minute; 0: they are counted only where a worker of BullMQ counts them" allow:"0 to 8760h"`
}

// Rule sends the events for which a condition holds to a queue of the door.
type Rule struct {
	When  string `yaml:"when" help:"expression over the event that is true for those of the queue"`
	Queue string `yaml:"queue" help:"high, standard or low"`
}

// Site is a tenant of delivery.
type Site struct {
	ID      string            `yaml:"id" help:"what its events have as siteId: 1 to 100 of A-Z a-z 0-9 _ -"`
	Keys    []tidemill.Secret `yaml:"keys" help:"that its servers send"`
	KeysEnv []string          `yaml:"keys_env" help:"variables that keys are in, or NAME_FILE"`
	Hashes  []string          `yaml:"keys_sha256" help:"SHA-256, in hex, of keys that are not to stand anywhere"`
	Public  bool              `yaml:"public" help:"browsers may send to /collect without a key"`
	Origins []string          `yaml:"origins" help:"pages that may; empty: all"`
	Plan    string            `yaml:"plan" help:"free, pro or enterprise; empty: enterprise"`
	Daily   int               `yaml:"daily" help:"events a day; 0: what the plan says"`
	Consent string            `yaml:"consent" help:"of events that say nothing about it: send (the default) or skip"`

	PerSecond float64 `yaml:"per_second" help:"deliveries to each partner; 0: no limit"`
	AtOnce    int     `yaml:"at_once" help:"and at a time; 0: no limit"`
}

var siteForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// originForm is what browsers send as Origin, or all of it.
var originForm = regexp.MustCompile(`^([*]|null|[a-z][a-z0-9+.-]*://[^/?#@\sA-Z]+)$`)

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
func (d *Delivery) Limits() map[string]queue.Limit {
	all := map[string]queue.Limit{}
	for i := range d.Sites {
		if l := d.Sites[i].Limit(); l != (queue.Limit{}) {
			all[d.Sites[i].ID] = l
		}
	}
	return all
}

// Example shows what the lists of the group hold, in the file that init writes.
func (Delivery) Example() string {
	return `  # sites, their keys and limits; with none, the projects are the sites
  #sites:
  #  - id: shop                        # what its events have as siteId
  #    keys_env: [SHOP_KEY]            # keys in variables, or in files that SHOP_KEY_FILE names; or keys: […], or keys_sha256: […]
  #    public: true                    # browsers may send to /collect without a key
  #    origins: [https://shop.example]
  # which queue of the door takes which events; the first that holds
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

// Configured says whether anything says that delivery is to run.
func (d *Delivery) Configured() bool {
	return len(d.Sites) > 0 || len(d.Partners) > 0 || d.BullMQ.URL != ""
}

// DeliveryRedis is the Redis of delivery; empty: it has none.
func (c *Config) DeliveryRedis() URL {
	d := &c.Delivery
	if c.Redis.URL != "" || d.RedisHost == "" {
		return c.Redis.URL
	}
	u := url.URL{Scheme: "redis", Host: net.JoinHostPort(d.RedisHost, fmt.Sprint(d.RedisPort))}
	if d.RedisTLS {
		u.Scheme = "rediss"
	}
	if !d.RedisPassword.IsZero() {
		u.User = url.UserPassword("", d.RedisPassword.Reveal())
	}
	return URL(u.String())
}

// SiteKeys are the hashes of a site's keys.
func (c *Loaded) SiteKeys(s *Site) ([]project.Hash, error) {
	return c.KeyHashes("site "+s.ID, s.Keys, s.KeysEnv, s.Hashes)
}

// checkDelivery refuses what cannot work.
func (c *Loaded) checkDelivery(ok func(good bool, path string)) (errs []error) {
	d := &c.Delivery
	between := func(v, low, high int, path string) { ok(v >= low && v <= high, "delivery."+path) }
	const many = 1 << 40
	between(d.Workers, 1, 1000, "workers")
	between(d.MaxWorkers, 1, 1000, "max_workers")
	ok(d.Lease >= time.Second && d.Lease <= time.Hour, "delivery.lease")
	ok(d.BullMQ.Prefix != "", "delivery.bullmq.prefix")
	ok(d.BullMQ.Queue != "" && !strings.Contains(d.BullMQ.Queue, ":"), "delivery.bullmq.queue")
	ok(d.BullMQ.Metrics >= 0 && d.BullMQ.Metrics <= 365*24*time.Hour, "delivery.bullmq.metrics")
	ok(d.KeyLife >= time.Minute && d.KeyLife <= 720*time.Hour, "delivery.key_life")
	ok(d.SentLife >= time.Second, "delivery.sent_life")
	ok(d.KeptFor >= time.Second, "delivery.kept_for")
	between(d.QueueMax, 1, many, "queue_max")
	between(d.Kept, 0, queue.MaxKept, "kept")
	between(d.DeadMax, 1, many, "dead_max")
	between(d.Shards, 1, 64, "shards")
	between(d.LowFrom, 1, many, "low_from")
	between(d.PublicRate, 0, many, "public_rate")
	between(d.RedisPort, 1, 65535, "redis_port")
	whose := map[project.Hash]string{} // a key names one site
	for i := range d.Sites {
		if err := d.Sites[i].check(d.Sites[:i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Element("delivery.sites", i), err))
		}
		keys, err := c.SiteKeys(&d.Sites[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Element("delivery.sites", i), err))
		}
		for _, k := range keys {
			if other, known := whose[k]; known && other != d.Sites[i].ID {
				errs = append(errs, fmt.Errorf("%s: sites %q and %q have the same key", c.Element("delivery.sites", i), other, d.Sites[i].ID))
			}
			whose[k] = d.Sites[i].ID
		}
	}
	for i, r := range d.Queues {
		if !slices.Contains([]string{"high", "standard", "low"}, r.Queue) {
			errs = append(errs, fmt.Errorf("%s: queue %q is none of high, standard and low", c.Element("delivery.queues", i), r.Queue))
		}
		if _, err := partner.NewRule(c.Element("delivery.queues", i)+": when", r.When, nil); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (s *Site) check(before []Site) error {
	switch {
	case !siteForm.MatchString(s.ID):
		return fmt.Errorf("site %q: want an id of 1 to 100 of A-Z a-z 0-9 _ -", s.ID)
	case slices.ContainsFunc(before, func(o Site) bool { return o.ID == s.ID }):
		return fmt.Errorf("site %s: it is there twice", s.ID)
	case s.Consent != "" && s.Consent != "send" && s.Consent != "skip":
		return fmt.Errorf("site %s: consent %q is neither send nor skip", s.ID, s.Consent)
	case s.Daily < 0 || s.AtOnce < 0 || s.PerSecond < 0:
		return fmt.Errorf("site %s: a limit below zero", s.ID)
	}
	for _, o := range s.Origins {
		if !originForm.MatchString(o) {
			return fmt.Errorf("site %s: origin %q is none that a browser sends: want one such as https://shop.example, in small letters and with no path, or *", s.ID, o)
		}
	}
	if _, known := plans[s.Plan]; !known {
		return fmt.Errorf("site %s: plan %q is none of free, pro and enterprise", s.ID, s.Plan)
	}
	return nil
}
