// Package config is the one description of every setting: its name, environment
// variables, default, meaning and what is allowed. Parsing, checking, the reference and
// `config show` all follow from the struct Config and those of the systems in a Schema.
//
// Later ones win: defaults, then the file, then the environment, then flags.
package config

import (
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// Config is everything that can be set. The tags: yaml is the name in the file, env the
// environment variables (the first one set wins; an empty one counts as not set; a bare
// number in one that ends in _MS is milliseconds), flag the flag of tidemill run, default
// the default as it would be written or the rule for it (see Machine), help the meaning;
// of, range and need what is allowed (see limits), allow the same in words where they
// cannot say it; unit="ms" makes a bare number milliseconds. A group with init="commented" is commented out in the file that init
// writes, because that one of its settings is given says something.
type Config struct {
	Systems  []string  `yaml:"systems" env:"TIDEMILL_SYSTEMS" help:"the systems that run; tidemill run with names of its own runs those instead. Empty: all that are configured, and analytics where none is" allow:"names, separated by commas"`
	Data     string    `yaml:"data" env:"TIDEMILL_DATA" default:"./tidemill-data" help:"folder of the embedded database, keys and caches"`
	Listen   string    `yaml:"listen" env:"TIDEMILL_LISTEN" default:"127.0.0.1:8484" help:"address of ingest, API, metrics and health" allow:"host:port; beyond loopback admin.key is needed, with 16 characters or more"`
	Ports    string    `yaml:"ports_address" env:"TIDEMILL_PORTS_ADDRESS" help:"address of the ports that the bridge and windows have beside it (HEALTH_PORT, METRICS_PORT, SERVER_PORT, ACTUATOR_PORT); empty: that of listen" allow:"an IP address; 0.0.0.0 or ::: all of the machine's"`
	Log      Log       `yaml:"log"`
	LogFiles LogFiles  `yaml:"log_files"`
	Admin    Admin     `yaml:"admin"`
	HTTP     HTTP      `yaml:"http"`
	Projects []Project `yaml:"projects" help:"projects and their ingest keys; with none, one named default is made and its key printed"`

	Redis      Redis      `yaml:"redis"`
	Postgres   Postgres   `yaml:"postgres"`
	ClickHouse ClickHouse `yaml:"clickhouse"`
	Kafka      Kafka      `yaml:"kafka"`
	Strict     bool       `yaml:"strict" env:"TIDEMILL_STRICT" default:"false" help:"refuse to start with a server whose settings could lose acknowledged events (tidemill doctor lists them)" allow:"true|false"`

	Analytics Analytics `yaml:"analytics" init:"commented"`
}

// Redis is where streams, dead letters, locks and caches are once its address is set.
type Redis struct {
	URL URL `yaml:"url" env:"TIDEMILL_REDIS_URL,REDIS_URL" help:"a Redis: the waiting events, dead letters, locks and caches are there instead of in the embedded database" allow:"redis://[user:password@]host:port[/db], rediss:// for TLS, several hosts with commas and ?cluster=true, redis+sentinel://host,host/master"`
}

// Postgres is where persons, definitions and projects are once its address is set.
type Postgres struct {
	URL         URL `yaml:"url" env:"TIDEMILL_POSTGRES_URL,DATABASE_URL" help:"a PostgreSQL: persons, definitions and projects are there instead of in the embedded database" allow:"postgres://user:password@host:port/database"`
	Connections int `yaml:"connections" env:"TIDEMILL_POSTGRES_CONNECTIONS" default:"8" help:"connections open at once, of all systems of a process together" allow:"2 to 1000"`
}

// ClickHouse is the warehouse once its address is set.
type ClickHouse struct {
	URL      URL             `yaml:"url" env:"TIDEMILL_CLICKHOUSE_URL,CLICKHOUSE_URL" help:"the HTTP interface of a ClickHouse: the events are there instead of in the embedded database" allow:"http://host:port or https://host:port"`
	Database string          `yaml:"database" env:"TIDEMILL_CLICKHOUSE_DB,CLICKHOUSE_DB" default:"qurvo_analytics" help:"its database, made if it is not there" allow:"letters, digits and _"`
	User     string          `yaml:"user" env:"TIDEMILL_CLICKHOUSE_USER,CLICKHOUSE_USER" default:"default" help:"its user"`
	Password tidemill.Secret `yaml:"password" env:"TIDEMILL_CLICKHOUSE_PASSWORD,CLICKHOUSE_PASSWORD" help:"the user's password"`

	Collection string `yaml:"collection" env:"TIDEMILL_CLICKHOUSE_COLLECTION" help:"a named collection of the server, with the user and the password that the dictionary person_overrides_dict reads as; empty: it is made only where the user is default without a password"`
}

// Kafka is where events wait once its brokers are set: scale-out by partitions.
type Kafka struct {
	Partitions int    `yaml:"partitions" env:"TIDEMILL_KAFKA_PARTITIONS" default:"12" help:"partitions of a topic that is made because it is not there: as many instances can share it" allow:"1 to 10000"`
	Brokers    URL    `yaml:"brokers" env:"TIDEMILL_KAFKA_BROKERS,KAFKA_BROKERS" help:"a Kafka: the waiting events are in its topic instead of in Redis or the embedded database" allow:"host:port, several with commas; or kafka://user:password@host:port, kafka+tls://"`
	OnLost     string `yaml:"on_lost" env:"TIDEMILL_KAFKA_ON_LOST" default:"stop" help:"where records are gone that nobody had settled, by retention or with a topic made anew: stop and say so, or count them as lost and go on" allow:"stop|continue"`
}

// Admin guards the API that operators use.
type Admin struct {
	Key    tidemill.Secret `yaml:"key" env:"TIDEMILL_TOKEN" help:"bearer token of the API; empty: one that is made at the first start, in the file api.token of the data folder" allow:"any; needed to listen beyond loopback, with 16 characters or more"`
	Listen string          `yaml:"listen" env:"TIDEMILL_ADMIN_LISTEN" help:"a further address for the API, metrics and health alone, with connections of its own that senders cannot take; empty: none" allow:"host:port; beyond loopback admin.key is needed"`
}

// HTTP bounds what a client may ask of the listener.
type HTTP struct {
	MaxBody     Size          `yaml:"max_body" env:"TIDEMILL_HTTP_MAX_BODY" default:"20MiB" help:"largest batch of events, unpacked; a protocol's own limit may be lower" allow:"1KiB to 40MiB"`
	BodyTimeout time.Duration `yaml:"body_timeout" env:"TIDEMILL_HTTP_BODY_TIMEOUT" default:"2m" help:"time a client has to send its body" allow:"1s or more"`
	Connections int           `yaml:"connections" env:"TIDEMILL_HTTP_CONNECTIONS" default:"4096" help:"connections open at once; where there are more, silent and idle ones are closed, and when all are at work only probes and the API are answered" allow:"1 or more"`
	PerAddress  int           `yaml:"connections_per_address" env:"TIDEMILL_HTTP_CONNECTIONS_PER_ADDRESS" default:"0" help:"connections open at once from one address (of IPv6 a network of 64 bits), but for those of trust_proxy; 0: half of connections, 64 at least; -1: any number" allow:"-1 or more"`
	TrustProxy  []string      `yaml:"trust_proxy" env:"TIDEMILL_HTTP_TRUST_PROXY" help:"networks of your own proxies, whose X-Forwarded-For is believed and who may have any number of connections, e.g. 10.0.0.0/8" allow:"prefixes, separated by commas"`
}

// Project is a tenant of ingest and one of its keys.
type Project struct {
	Name string          `yaml:"name" help:"a name, or a UUID that is the project's id"`
	Key  tidemill.Secret `yaml:"key" help:"ingest key that SDKs send"`
}

// Analytics tunes the analytics system.
type Analytics struct {
	FlushEvents   int           `yaml:"flush_events" env:"TIDEMILL_ANALYTICS_FLUSH_EVENTS" default:"0" help:"events flushed together; 0: 2000, and 4000 where the warehouse is a ClickHouse" allow:"0 to 100000"`
	FlushInterval time.Duration `yaml:"flush_interval" env:"TIDEMILL_ANALYTICS_FLUSH_INTERVAL,PROCESSOR_FLUSH_INTERVAL_MS" default:"0s" help:"longest wait of an event for its batch; 0: 200ms, and 500ms where the warehouse is a ClickHouse" allow:"0, or 1ms or more"`
	Lanes         int           `yaml:"lanes" env:"TIDEMILL_ANALYTICS_LANES" default:"2" help:"flushes at once" allow:"1 to 64"`
	Backpressure  int           `yaml:"backpressure" env:"TIDEMILL_ANALYTICS_BACKPRESSURE,PROCESSOR_BACKPRESSURE_THRESHOLD" default:"2000" help:"events in memory, beside those being flushed, at which reading pauses" allow:"1 to 1000000"`
	QueueMax      int           `yaml:"queue_max" env:"TIDEMILL_ANALYTICS_QUEUE_MAX" default:"10000000" help:"events that may wait; more are answered 503" allow:"1 or more"`
	Handouts      int           `yaml:"handouts" env:"TIDEMILL_ANALYTICS_HANDOUTS" default:"100" help:"hand-outs after which an event is a dead letter, unread" allow:"1 or more"`
	DeadMax       int           `yaml:"dead_max" env:"TIDEMILL_ANALYTICS_DEAD_MAX" default:"100000" help:"dead letters that are kept; when full, flushing pauses" allow:"1 or more"`
	DeadTrim      bool          `yaml:"dead_trim" env:"TIDEMILL_ANALYTICS_DEAD_TRIM" default:"false" help:"when full, drop the oldest dead letters instead (counted as lost)"`
	ReplayEvery   time.Duration `yaml:"replay_every" env:"TIDEMILL_ANALYTICS_REPLAY_EVERY" default:"5m" help:"how often failed batches are replayed; negative: never"`
	ReplayBatch   int           `yaml:"replay_batch" env:"TIDEMILL_ANALYTICS_REPLAY_BATCH" default:"100" help:"dead letters a replay takes" allow:"1 to 10000"`
	Stream        string        `yaml:"stream" env:"TIDEMILL_ANALYTICS_STREAM" default:"events:incoming" help:"the Redis stream that events are read from and ingest writes to"`
	Group         string        `yaml:"group" env:"TIDEMILL_ANALYTICS_GROUP" default:"processor-group" help:"the consumer group in Redis and in Kafka; all instances share it"`
	Consumer      string        `yaml:"consumer" env:"TIDEMILL_ANALYTICS_CONSUMER,PROCESSOR_CONSUMER_NAME" help:"this instance's name in the Redis group, unlike that of any other; empty: made from the process"`
	Claim         time.Duration `yaml:"claim" env:"TIDEMILL_ANALYTICS_CLAIM" default:"60s" help:"after this time without a sign of life an instance's events are taken over by another" allow:"3s to 1h"`
	Topic         string        `yaml:"topic" env:"TIDEMILL_ANALYTICS_TOPIC" default:"events" help:"the Kafka topic that events are read from and ingest writes to"`
	Overflow      []string      `yaml:"overflow" env:"TIDEMILL_ANALYTICS_OVERFLOW" help:"projects that dominate: their events have a queue and a pipeline of their own" allow:"names or ids, separated by commas"`
	RateLimit     int           `yaml:"rate_limit" env:"TIDEMILL_ANALYTICS_RATE_LIMIT" default:"0" help:"events a minute that a project may send; 0: no limit" allow:"0 or more"`
	Quota         int           `yaml:"quota" env:"TIDEMILL_ANALYTICS_QUOTA" default:"0" help:"events a month (UTC) that a project may send; more are answered well and dropped, with a warning; counted anew when the process starts, unless there is a Redis; 0: no quota" allow:"0 or more"`
	RateStatus    int           `yaml:"rate_status" env:"TIDEMILL_ANALYTICS_RATE_STATUS" default:"503" help:"answer over the limit; clients throw a batch away on 429" allow:"503|429"`
	CloudEventsID []string      `yaml:"cloudevents_id" env:"TIDEMILL_ANALYTICS_CLOUDEVENTS_ID" default:"subject,data.distinct_id,source" help:"where the distinct id of a CloudEvent is looked for; the first place that has one counts" allow:"attributes or extensions (subject, source, userid), or data.<member>, separated by commas"`
	Identified    string        `yaml:"merge_identified" env:"TIDEMILL_ANALYTICS_MERGE_IDENTIFIED" default:"event" help:"which events may merge a person that is identified already into another: never: none, event: $merge_dangerously, always: $identify and $create_alias too (on a shared device two users become one, for good)" allow:"never|event|always"`
	ClockBehind   time.Duration `yaml:"clock_behind" env:"TIDEMILL_ANALYTICS_CLOCK_BEHIND" default:"5m" help:"a client whose time of sending is older than this has a slow clock: its events' times are corrected; what retries longer than this with the time of its first try is moved too" allow:"1s or more"`
	ClockAhead    time.Duration `yaml:"clock_ahead" env:"TIDEMILL_ANALYTICS_CLOCK_AHEAD" default:"1m" help:"a client whose time of sending, or whose events' times, are more than this in the future has a fast clock: its events' times are corrected" allow:"1s or more"`
	EventsBehind  time.Duration `yaml:"events_behind" env:"TIDEMILL_ANALYTICS_EVENTS_BEHIND" default:"1826d" help:"how old an event may be (five years), and the rest of that month; an older one is stored with the start of that month, with a warning, and its time as the property $given_timestamp; raise it to import older history" allow:"1d or more"`
	EventsAhead   time.Duration `yaml:"events_ahead" env:"TIDEMILL_ANALYTICS_EVENTS_AHEAD" default:"1d" help:"how far in the future an event may lie whose time is kept as it is given; a later one is stored with that time, with a warning, and its own as the property $given_timestamp" allow:"1h or more"`
	Scripts       string        `yaml:"scripts" env:"TIDEMILL_ANALYTICS_SCRIPTS" help:"node_modules folder with posthog-js, @segment/analytics-next or both, for pages that load them by a snippet; empty: none are served"`
	GeoIP         GeoIP         `yaml:"geoip"`
	Heartbeat     string        `yaml:"heartbeat" env:"TIDEMILL_ANALYTICS_HEARTBEAT" help:"file whose content is renewed every 15s while the pipeline turns; empty: none"`
}

// Runs says whether a system may run: it is one of Systems, or these are left to what is
// configured.
func (c *Config) Runs(system string) bool {
	return len(c.Systems) == 0 || slices.Contains(c.Systems, system)
}

// UsesFile says whether anything stays in the embedded database: what has no address.
func (c *Config) UsesFile() bool {
	return c.Redis.URL == "" || c.Postgres.URL == "" || c.ClickHouse.URL == ""
}

// Flush is how many events are flushed together, and how long the first of them waits for
// the rest. A ClickHouse stores four thousand rows for little more than a thousand.
func (c *Config) Flush() (events int, interval time.Duration) {
	events, interval = 2000, 200*time.Millisecond
	if c.ClickHouse.URL != "" {
		events, interval = 4000, 500*time.Millisecond
	}
	if c.Analytics.FlushEvents > 0 {
		events = c.Analytics.FlushEvents
	}
	if c.Analytics.FlushInterval > 0 {
		interval = c.Analytics.FlushInterval
	}
	return events, interval
}

// GeoIP says where countries come from.
type GeoIP struct {
	File string `yaml:"file" env:"TIDEMILL_GEOIP_FILE" help:"country database (MMDB) on disk"`
	URL  URL    `yaml:"url" env:"TIDEMILL_GEOIP_URL,GEOLITE2_COUNTRY_URL" help:"where to download one; renewed after 30 days" allow:"http:// or https://"`

	AllowPrivate Networks `yaml:"allow_private" env:"TIDEMILL_GEOIP_ALLOW_PRIVATE" help:"networks that it may be downloaded from though they are private: its own, where it redirects to, and a proxy of the environment" allow:"prefixes such as 10.1.0.0/16, separated by commas"`
}
