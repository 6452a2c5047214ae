// Package config is the one description of every setting: its name, environment
// variables, default, meaning and what is allowed. Parsing, checking, the reference and
// `config show` all follow from the struct Config.
//
// Later ones win: defaults, then the file, then the environment, then flags.
package config

import (
	"time"

	"github.com/tidemill/tidemill"
)

// Config is everything that can be set. The tags: yaml is the name in the file, env the
// environment variables (the first one set wins; a bare number in one that ends in _MS is
// milliseconds), default the default as it would be written, help the meaning, allow
// what is allowed where the type does not say it.
type Config struct {
	Data     string    `yaml:"data" env:"TIDEMILL_DATA" default:"./tidemill-data" help:"folder of the embedded database, keys and caches"`
	Listen   string    `yaml:"listen" env:"TIDEMILL_LISTEN" default:"127.0.0.1:8484" help:"address of ingest, API, metrics and health" allow:"host:port; beyond loopback admin.key is needed"`
	Log      Log       `yaml:"log"`
	Admin    Admin     `yaml:"admin"`
	HTTP     HTTP      `yaml:"http"`
	Projects []Project `yaml:"projects" help:"projects and their ingest keys; with none, one named default is made and its key printed"`

	Analytics Analytics `yaml:"analytics"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level" env:"TIDEMILL_LOG_LEVEL,LOG_LEVEL" default:"info" help:"the least level that is logged" allow:"debug|info|warn|error"`
	Format string `yaml:"format" env:"TIDEMILL_LOG_FORMAT" default:"text" help:"text for people, json for machines" allow:"text|json"`
}

// Admin guards the API that operators use.
type Admin struct {
	Key tidemill.Secret `yaml:"key" env:"TIDEMILL_TOKEN" help:"bearer token of the API; empty: only callers on this machine, and only while listening on loopback"`
}

// HTTP bounds what a client may ask of the listener.
type HTTP struct {
	MaxBody     Size          `yaml:"max_body" env:"TIDEMILL_HTTP_MAX_BODY" default:"20MiB" help:"largest batch of events, unpacked; a protocol's own limit may be lower" allow:"1KiB to 40MiB"`
	BodyTimeout time.Duration `yaml:"body_timeout" env:"TIDEMILL_HTTP_BODY_TIMEOUT" default:"2m" help:"time a client has to send its body" allow:"1s or more"`
	Connections int           `yaml:"connections" env:"TIDEMILL_HTTP_CONNECTIONS" default:"4096" help:"connections open at once; more wait" allow:"1 or more"`
	TrustProxy  []string      `yaml:"trust_proxy" env:"TIDEMILL_HTTP_TRUST_PROXY" help:"networks whose X-Forwarded-For is believed, e.g. 10.0.0.0/8" allow:"prefixes, separated by commas"`
}

// Project is a tenant of ingest and one of its keys.
type Project struct {
	Name string          `yaml:"name" help:"a name, or a UUID that is the project's id"`
	Key  tidemill.Secret `yaml:"key" help:"ingest key that SDKs send"`
}

// Analytics tunes the analytics system.
type Analytics struct {
	FlushEvents   int           `yaml:"flush_events" env:"TIDEMILL_ANALYTICS_FLUSH_EVENTS" default:"2000" help:"events flushed together" allow:"1 to 100000"`
	FlushInterval time.Duration `yaml:"flush_interval" env:"TIDEMILL_ANALYTICS_FLUSH_INTERVAL,PROCESSOR_FLUSH_INTERVAL_MS" default:"200ms" help:"longest wait of an event for its batch" allow:"1ms or more"`
	Lanes         int           `yaml:"lanes" env:"TIDEMILL_ANALYTICS_LANES" default:"2" help:"flushes at once" allow:"1 to 64"`
	Backpressure  int           `yaml:"backpressure" env:"TIDEMILL_ANALYTICS_BACKPRESSURE,PROCESSOR_BACKPRESSURE_THRESHOLD" default:"2000" help:"events in memory, beside those being flushed, at which reading pauses" allow:"1 to 1000000"`
	QueueMax      int           `yaml:"queue_max" env:"TIDEMILL_ANALYTICS_QUEUE_MAX" default:"10000000" help:"events that may wait; more are answered 503" allow:"1 or more"`
	Handouts      int           `yaml:"handouts" env:"TIDEMILL_ANALYTICS_HANDOUTS" default:"100" help:"hand-outs after which an event is a dead letter, unread" allow:"1 or more"`
	DeadMax       int           `yaml:"dead_max" env:"TIDEMILL_ANALYTICS_DEAD_MAX" default:"100000" help:"dead letters that are kept; when full, flushing pauses" allow:"1 or more"`
	DeadTrim      bool          `yaml:"dead_trim" env:"TIDEMILL_ANALYTICS_DEAD_TRIM" default:"false" help:"when full, drop the oldest dead letters instead (counted as lost)"`
	ReplayEvery   time.Duration `yaml:"replay_every" env:"TIDEMILL_ANALYTICS_REPLAY_EVERY" default:"5m" help:"how often failed batches are replayed; negative: never"`
	ReplayBatch   int           `yaml:"replay_batch" env:"TIDEMILL_ANALYTICS_REPLAY_BATCH" default:"100" help:"dead letters a replay takes" allow:"1 to 10000"`
	Overflow      []string      `yaml:"overflow" env:"TIDEMILL_ANALYTICS_OVERFLOW" help:"projects that dominate: their events have a queue and a pipeline of their own" allow:"names or ids, separated by commas"`
	RateLimit     int           `yaml:"rate_limit" env:"TIDEMILL_ANALYTICS_RATE_LIMIT" default:"0" help:"events a minute that a project may send; 0: no limit" allow:"0 or more"`
	Quota         int           `yaml:"quota" env:"TIDEMILL_ANALYTICS_QUOTA" default:"0" help:"events a month (UTC) that a project may send; more are answered well and dropped, with a warning; counted anew when the process starts; 0: no quota" allow:"0 or more"`
	RateStatus    int           `yaml:"rate_status" env:"TIDEMILL_ANALYTICS_RATE_STATUS" default:"503" help:"answer over the limit; clients throw a batch away on 429" allow:"503|429"`
	GeoIP         GeoIP         `yaml:"geoip"`
	Heartbeat     string        `yaml:"heartbeat" env:"TIDEMILL_ANALYTICS_HEARTBEAT" help:"file whose content is renewed every 15s while the pipeline turns; empty: none"`
}

// GeoIP says where countries come from.
type GeoIP struct {
	File string `yaml:"file" env:"TIDEMILL_GEOIP_FILE" help:"country database (MMDB) on disk"`
	URL  URL    `yaml:"url" env:"TIDEMILL_GEOIP_URL,GEOLITE2_COUNTRY_URL" help:"where to download one; renewed after 30 days" allow:"http:// or https://"`
}
