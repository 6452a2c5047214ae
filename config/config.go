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
// cannot say it; reload="true" that a reload applies it while the process runs: what has no such
// tag needs a restart; stored what an element of a list is called that a database may have, beside the
// file; unit="ms" makes a bare number milliseconds. The settings of systems are commented out in the file that
// init writes, because that one of them is given says something.
type Config struct {
	Systems   []string  `yaml:"systems" env:"TIDEMILL_SYSTEMS" help:"the systems that run; tidemill run with names of its own runs those instead. Empty: all that are configured, and analytics where none is" allow:"names, separated by commas"`
	Data      string    `yaml:"data" env:"TIDEMILL_DATA" default:"./tidemill-data" help:"folder of the embedded database, keys and caches"`
	Listen    string    `yaml:"listen" env:"TIDEMILL_LISTEN" default:"127.0.0.1:8484" help:"address of ingest, API, metrics and health" allow:"host:port; beyond loopback admin.key is needed, with 16 characters or more"`
	Ports     string    `yaml:"ports_address" env:"TIDEMILL_PORTS_ADDRESS" help:"address of the ports that the bridge and windows have beside it (HEALTH_PORT, METRICS_PORT, SERVER_PORT, ACTUATOR_PORT); empty: that of listen" allow:"an IP address; 0.0.0.0 or ::: all of the machine's"`
	Log       Log       `yaml:"log"`
	LogFiles  LogFiles  `yaml:"log_files"`
	Admin     Admin     `yaml:"admin"`
	Telemetry Telemetry `yaml:"telemetry"`
	Console   Console   `yaml:"console"`
	HTTP      HTTP      `yaml:"http"`
	Projects  []Project `yaml:"projects" reload:"true" help:"projects and their ingest keys; with none, one named default is made and its key printed"`

	Redis      Redis      `yaml:"redis"`
	Postgres   Postgres   `yaml:"postgres"`
	ClickHouse ClickHouse `yaml:"clickhouse"`
	Kafka      Kafka      `yaml:"kafka"`
	Dead       Dead       `yaml:"dead_letters"`
	Strict     bool       `yaml:"strict" env:"TIDEMILL_STRICT" default:"false" help:"refuse to start with a server whose settings could lose acknowledged events (tidemill doctor lists them)" allow:"true|false"`
}

// Dead is what becomes of dead letters that nobody looks after.
type Dead struct {
	Keep time.Duration `yaml:"keep" env:"TIDEMILL_DEAD_LETTERS_KEEP" default:"0s" help:"how long dead letters are kept since they died last, of all systems; then they are discarded, and counted. 0: until somebody replays or deletes them" allow:"0, or 1h or more"`
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
	Rates  Rates           `yaml:"rates"`
}

// Rates bound what each caller asks of the API and the console: a person, a token, or a key, from
// wherever it comes. What takes events in is not bound.
type Rates struct {
	Reads        float64 `yaml:"reads" reload:"true" env:"TIDEMILL_ADMIN_RATES_READS" default:"20" range:"[0,1000000]" help:"reads a second of a caller of the API, a page of the console being one; more are answered 429. 0: any number"`
	ReadsBurst   int     `yaml:"reads_burst" reload:"true" env:"TIDEMILL_ADMIN_RATES_READS_BURST" default:"60" range:"[1,1000000]" help:"reads at once after a rest"`
	Changes      float64 `yaml:"changes" reload:"true" env:"TIDEMILL_ADMIN_RATES_CHANGES" default:"2" range:"[0,1000000]" help:"changes a second of a caller of the API or the console; more are answered 429. 0: any number"`
	ChangesBurst int     `yaml:"changes_burst" reload:"true" env:"TIDEMILL_ADMIN_RATES_CHANGES_BURST" default:"10" range:"[1,1000000]" help:"changes at once after a rest"`
	Dear         int     `yaml:"dear" reload:"true" env:"TIDEMILL_ADMIN_RATES_DEAR" default:"1" range:"[0,1000000]" help:"dear requests of a caller at a time, such as an audit, a backup, an exact count or a whole listing; others wait for a second, and are answered 429 then. 0: any number"`
	DearOfAll    int     `yaml:"dear_of_all" reload:"true" env:"TIDEMILL_ADMIN_RATES_DEAR_OF_ALL" default:"4" range:"[0,1000000]" help:"dear requests of all callers at a time, of this instance. 0: any number"`
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

// Runs says whether a system may run: it is one of Systems, or these are left to what is
// configured.
func (c *Config) Runs(system string) bool {
	return len(c.Systems) == 0 || slices.Contains(c.Systems, system)
}

// UsesFile says whether anything stays in the embedded database: what has no address.
func (c *Config) UsesFile() bool {
	return c.Redis.URL == "" || c.Postgres.URL == "" || c.ClickHouse.URL == ""
}
