// Package analyticsconfig has the settings of the analytics system and what is refused of them.
package analyticsconfig

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Group is what the settings are in a configuration.
var Group = config.Group{Name: "analytics", New: func(c *config.Loaded) config.Settings { return &Settings{c: c} }}

// Of finds the settings in a configuration.
func Of(c *config.Loaded) *Settings { return config.Of[*Settings](c) }

// Settings tune the analytics system.
type Settings struct {
	FlushEvents   int           `yaml:"flush_events" env:"TIDEMILL_ANALYTICS_FLUSH_EVENTS" default:"0" help:"events flushed together; 0: 2000, and 4000 where the warehouse is a ClickHouse" range:"[0,100000]"`
	FlushInterval time.Duration `yaml:"flush_interval" env:"TIDEMILL_ANALYTICS_FLUSH_INTERVAL,PROCESSOR_FLUSH_INTERVAL_MS" default:"0s" help:"longest wait of an event for its batch; 0: 200ms, and 500ms where the warehouse is a ClickHouse" allow:"0, or 1ms or more"`
	Lanes         int           `yaml:"lanes" env:"TIDEMILL_ANALYTICS_LANES" default:"2" help:"flushes at once" range:"[1,64]"`
	Backpressure  int           `yaml:"backpressure" env:"TIDEMILL_ANALYTICS_BACKPRESSURE,PROCESSOR_BACKPRESSURE_THRESHOLD" default:"2000" help:"events in memory, beside those being flushed, at which reading pauses" range:"[1,1000000]"`
	QueueMax      int           `yaml:"queue_max" env:"TIDEMILL_ANALYTICS_QUEUE_MAX" default:"10000000" help:"events that may wait; more are answered 503" range:"[1,)"`
	Handouts      int           `yaml:"handouts" env:"TIDEMILL_ANALYTICS_HANDOUTS" default:"100" help:"hand-outs after which an event is a dead letter, unread" range:"[1,)"`
	DeadMax       int           `yaml:"dead_max" env:"TIDEMILL_ANALYTICS_DEAD_MAX" default:"100000" help:"dead letters that are kept; when full, flushing pauses" range:"[1,)"`
	DeadTrim      bool          `yaml:"dead_trim" env:"TIDEMILL_ANALYTICS_DEAD_TRIM" default:"false" help:"when full, drop the oldest dead letters instead (counted as lost)"`
	ReplayEvery   time.Duration `yaml:"replay_every" env:"TIDEMILL_ANALYTICS_REPLAY_EVERY" default:"5m" help:"how often failed batches are replayed; negative: never"`
	ReplayBatch   int           `yaml:"replay_batch" env:"TIDEMILL_ANALYTICS_REPLAY_BATCH" default:"100" help:"dead letters a replay takes" range:"[1,10000]"`
	Stream        string        `yaml:"stream" env:"TIDEMILL_ANALYTICS_STREAM" default:"events:incoming" help:"the Redis stream that events are read from and ingest writes to"`
	Group         string        `yaml:"group" env:"TIDEMILL_ANALYTICS_GROUP" default:"processor-group" help:"the consumer group in Redis and in Kafka; all instances share it"`
	Consumer      string        `yaml:"consumer" env:"TIDEMILL_ANALYTICS_CONSUMER,PROCESSOR_CONSUMER_NAME" help:"this instance's name in the Redis group, unlike that of any other; empty: made from the process"`
	Claim         time.Duration `yaml:"claim" env:"TIDEMILL_ANALYTICS_CLAIM" default:"60s" help:"after this time without a sign of life an instance's events are taken over by another" range:"[3s,1h]"`
	Topic         string        `yaml:"topic" env:"TIDEMILL_ANALYTICS_TOPIC" default:"events" help:"the Kafka topic that events are read from and ingest writes to"`
	Overflow      []string      `yaml:"overflow" env:"TIDEMILL_ANALYTICS_OVERFLOW" help:"projects that dominate: their events have a queue and a pipeline of their own" allow:"names or ids, separated by commas"`
	RateLimit     int           `yaml:"rate_limit" reload:"true" env:"TIDEMILL_ANALYTICS_RATE_LIMIT" default:"0" help:"events a minute that a project may send; 0: no limit" range:"[0,)"`
	Quota         int           `yaml:"quota" reload:"true" env:"TIDEMILL_ANALYTICS_QUOTA" default:"0" help:"events a month (UTC) that a project may send; more are answered well and dropped, with a warning; counted anew when the process starts, unless there is a Redis; 0: no quota" range:"[0,)"`
	RateStatus    int           `yaml:"rate_status" reload:"true" env:"TIDEMILL_ANALYTICS_RATE_STATUS" default:"503" help:"answer over the limit; clients throw a batch away on 429" allow:"503|429"`
	CloudEventsID []string      `yaml:"cloudevents_id" env:"TIDEMILL_ANALYTICS_CLOUDEVENTS_ID" default:"subject,data.distinct_id,source" help:"where the distinct id of a CloudEvent is looked for; the first place that has one counts" allow:"attributes or extensions (subject, source, userid), or data.<member>, separated by commas"`
	Identified    string        `yaml:"merge_identified" env:"TIDEMILL_ANALYTICS_MERGE_IDENTIFIED" default:"event" help:"which events may merge a person that is identified already into another: never: none, event: $merge_dangerously, always: $identify and $create_alias too (on a shared device two users become one, for good)" of:"never|event|always"`
	ClockBehind   time.Duration `yaml:"clock_behind" env:"TIDEMILL_ANALYTICS_CLOCK_BEHIND" default:"5m" help:"a client whose time of sending is older than this has a slow clock: its events' times are corrected; what retries longer than this with the time of its first try is moved too" range:"[1s,)"`
	ClockAhead    time.Duration `yaml:"clock_ahead" env:"TIDEMILL_ANALYTICS_CLOCK_AHEAD" default:"1m" help:"a client whose time of sending, or whose events' times, are more than this in the future has a fast clock: its events' times are corrected" range:"[1s,)"`
	EventsBehind  time.Duration `yaml:"events_behind" env:"TIDEMILL_ANALYTICS_EVENTS_BEHIND" default:"1826d" help:"how old an event may be (five years), and the rest of that month; an older one is stored with the start of that month, with a warning, and its time as the property $given_timestamp; raise it to import older history" range:"[1d,)"`
	EventsAhead   time.Duration `yaml:"events_ahead" env:"TIDEMILL_ANALYTICS_EVENTS_AHEAD" default:"1d" help:"how far in the future an event may lie whose time is kept as it is given; a later one is stored with that time, with a warning, and its own as the property $given_timestamp" range:"[1h,)"`
	Keep          time.Duration `yaml:"keep" env:"TIDEMILL_ANALYTICS_KEEP" default:"0s" help:"how long events are kept, by their times; in ClickHouse it is the TTL of the table of events, which is changed where it has another. 0: for ever; in ClickHouse a new table keeps them for 365 days, and one that is there stays as it is" allow:"0, or 1d or more"`
	KeepMost      config.Size   `yaml:"keep_most" env:"TIDEMILL_ANALYTICS_KEEP_MOST" default:"0" help:"how many bytes of events are kept: in the embedded warehouse those of the rows, and the ones that were stored first make room; in ClickHouse those on the server's disks, and the oldest month makes room; 0: as many as the disk has" allow:"0, or 1MiB or more"`
	KeepLeast     time.Duration `yaml:"keep_least" env:"TIDEMILL_ANALYTICS_KEEP_LEAST" default:"0s" help:"events that are younger do not make room for others (keep_most), by their times; 0: none in the embedded warehouse, 30 days in ClickHouse" range:"[0,)"`
	Scripts       string        `yaml:"scripts" env:"TIDEMILL_ANALYTICS_SCRIPTS" help:"node_modules folder with posthog-js, @segment/analytics-next or both, for pages that load them by a snippet; empty: none are served"`
	GeoIP         GeoIP         `yaml:"geoip"`
	Heartbeat     string        `yaml:"heartbeat" env:"TIDEMILL_ANALYTICS_HEARTBEAT" help:"file whose content is renewed every 15s while the pipeline turns; empty: none"`

	c *config.Loaded // that they are a part of
}

// GeoIP says where countries come from.
type GeoIP struct {
	File string     `yaml:"file" env:"TIDEMILL_GEOIP_FILE" help:"country database (MMDB) on disk"`
	URL  config.URL `yaml:"url" env:"TIDEMILL_GEOIP_URL,GEOLITE2_COUNTRY_URL" help:"where to download one; renewed after 30 days" allow:"http:// or https://"`

	AllowPrivate config.Networks `yaml:"allow_private" env:"TIDEMILL_GEOIP_ALLOW_PRIVATE" help:"networks that it may be downloaded from though they are private: its own, where it redirects to, and a proxy of the environment" allow:"prefixes such as 10.1.0.0/16, separated by commas"`
}

// Configured says whether anything says that analytics is to run: one of its own
// settings, a project, or a server that is for it alone. A Kafka is, unless another system is
// configured that uses the same one.
func (a *Settings) Configured() bool {
	c := a.c
	if len(c.Projects) > 0 || c.ClickHouse.URL != "" || c.Kafka.Brokers != "" && !c.KafkaIsUsed() {
		return true
	}
	for path := range c.From {
		if strings.HasPrefix(path, Group.Name+".") && c.Given(path) {
			return true
		}
	}
	return false
}

// Flush is how many events are flushed together, and how long the first of them waits for
// the rest. A ClickHouse stores four thousand rows for little more than a thousand.
func (a *Settings) Flush() (events int, interval time.Duration) {
	events, interval = 2000, 200*time.Millisecond
	if a.c.ClickHouse.URL != "" {
		events, interval = 4000, 500*time.Millisecond
	}
	if a.FlushEvents > 0 {
		events = a.FlushEvents
	}
	if a.FlushInterval > 0 {
		interval = a.FlushInterval
	}
	return events, interval
}

// Least is how old events are that make room for others. In ClickHouse whole months go: without a word
// of the operator nothing of the last thirty days does.
func (a *Settings) Least() time.Duration {
	if a.KeepLeast == 0 && a.c.ClickHouse.URL != "" {
		return 30 * 24 * time.Hour
	}
	return a.KeepLeast
}

// Check refuses what cannot work.
func (a *Settings) Check() error {
	k := config.NewChecker(a.c, Group.Name)
	k.Limits()
	k.OK(a.Stream != "" && !strings.ContainsAny(a.Stream, "{}"), "stream")
	k.OK(a.Group != "", "group")
	k.OK(a.Topic != "", "topic")
	k.OK(a.FlushInterval == 0 || a.FlushInterval >= time.Millisecond, "flush_interval")
	k.OK(a.RateStatus == 503 || a.RateStatus == 429, "rate_status")
	k.OK(event.CheckCloudEventsID(a.CloudEventsID) == nil, "cloudevents_id")
	k.OK(a.Keep == 0 || a.Keep >= 24*time.Hour, "keep")
	k.OK(a.KeepMost == 0 || a.KeepMost >= 1<<20, "keep_most")
	if a.Keep > 0 && a.KeepLeast > a.Keep {
		k.Fail("keep_least", "it is more than analytics.keep, %v, after which events go in any case", a.Keep)
	}
	if a.GeoIP.URL != "" {
		u, err := url.Parse(string(a.GeoIP.URL))
		k.OK(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "geoip.url")
		if err := a.GeoIP.blocked(u); err != nil {
			k.Fail("geoip.url", "%v", err)
		}
	}
	return k.Err()
}

// GeoIPAllow is the setting of networks that a country database may be downloaded from.
const GeoIPAllow = "analytics.geoip.allow_private"

// blocked says why the database at a URL with an address for a host would not be downloaded.
func (g *GeoIP) blocked(u *url.URL) error {
	if u == nil || g.File != "" {
		return nil
	}
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name: what it leads to is judged when it is connected to
	}
	if err := httpguard.Check(a, g.AllowPrivate); err != nil {
		return fmt.Errorf("%w; if it is meant, set %s", err, GeoIPAllow)
	}
	return nil
}
