// Package windowsconfig has the settings of the windows system and what is refused of them.
package windowsconfig

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/urlsecret"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Group is what the settings are in a configuration. Beside our own variables they have those of
// the program that the system can replace, many of which (SERVER_PORT, RETRY_INTERVAL) other programs
// use too: so what is wrong with them is said to who runs the system.
var Group = config.Group{Name: "windows", New: func(c *config.Loaded) config.Settings { return &Settings{c: c} }, Late: true, Kafka: true}

// Of finds the settings in a configuration.
func Of(c *config.Loaded) *Settings { return config.Of[*Settings](c) }

// Settings tune the windows system.
type Settings struct {
	Window       time.Duration `yaml:"window" env:"TIDEMILL_WINDOWS_WINDOW,BATCH_PROCESSING_WINDOW_MS" default:"60s" range:"[10ms,72h]" help:"how long records of one batch id are collected, from the first one on"`
	Sweep        time.Duration `yaml:"sweep" env:"TIDEMILL_WINDOWS_SWEEP" default:"5s" range:"[10ms,10m]" help:"windows that are over are closed so often; closed ones are taken at once"`
	Header       string        `yaml:"header" env:"TIDEMILL_WINDOWS_HEADER" default:"X-Batch-ID" need:"true" help:"header that carries the batch id; batchId is read too"`
	ExpectHeader string        `yaml:"expect_header" env:"TIDEMILL_WINDOWS_EXPECT_HEADER" help:"header that tells how many records a batch has, which closes its window early; empty: none"`
	Project      string        `yaml:"project" env:"TIDEMILL_WINDOWS_PROJECT" help:"project whose batches come by Kafka, from files and from the command line; a batch id is one of its project. Empty: the only one there is, else the one named default"`
	Store        int           `yaml:"store" env:"TIDEMILL_WINDOWS_STORE" default:"1000" range:"[1,10000]" help:"records stored together, in one round trip"`
	AtOnce       int           `yaml:"at_once" env:"TIDEMILL_WINDOWS_AT_ONCE" default:"2" range:"[1,64]" help:"windows delivered at once by this instance"`
	Page         int           `yaml:"page" env:"TIDEMILL_WINDOWS_PAGE" default:"0" range:"[0,100000]" help:"records of a window that are in memory at a time; 0: 4000 with Kafka, else 1000"`
	Lease        time.Duration `yaml:"lease" env:"TIDEMILL_WINDOWS_LEASE" default:"30s" range:"[1s,1h]" help:"a window whose instance died is taken over after it"`
	Tries        int           `yaml:"tries" env:"TIDEMILL_WINDOWS_TRIES" default:"10" range:"[1,1000]" help:"tries of a window; then it is parked whole, and can be replayed. While nothing can be sent none is used up"`
	Backoff      time.Duration `yaml:"backoff" env:"TIDEMILL_WINDOWS_BACKOFF" default:"1s" range:"[1ms,1m]" help:"wait before the second try of a window, then twice as long each time, a minute at the most"`
	Life         time.Duration `yaml:"life" env:"TIDEMILL_WINDOWS_LIFE" default:"168h" range:"[1m,8760h]" help:"in Redis: how long records live that nobody works on any more; at least twice the window"`

	Transactional bool          `yaml:"transactional" env:"TIDEMILL_WINDOWS_TRANSACTIONAL" default:"false" help:"with Kafka: a window appears wholly or not at all to readers of what is committed" allow:"true|false"`
	Transaction   time.Duration `yaml:"transaction_timeout" env:"TIDEMILL_WINDOWS_TRANSACTION_TIMEOUT" default:"5m" range:"[1s,1h]" help:"a window's transaction is given up by the brokers after it: longer than the processors need for the largest window; their transaction.max.timeout.ms, 15 minutes as shipped, bounds it"`
	SentenceID    bool          `yaml:"sentence_id" env:"TIDEMILL_WINDOWS_SENTENCE_ID" default:"false" help:"the index has a document for each sentence of a mention, not one for all" allow:"true|false"`
	Retry         Retry         `yaml:"retry"`
	RateLimit     int           `yaml:"rate_limit" reload:"true" env:"TIDEMILL_WINDOWS_RATE_LIMIT" default:"0" range:"[0,1000000000]" help:"records a minute that a project may send by HTTP; more are answered 429; 0: any number"`
	QueueMax      int           `yaml:"queue_max" env:"TIDEMILL_WINDOWS_QUEUE_MAX" default:"10000000" range:"[1,)" help:"without Kafka: records that may wait for the index; when there are more, delivery waits. More than the largest window has, which is delivered as a whole"`
	DeadMax       int           `yaml:"dead_max" env:"TIDEMILL_WINDOWS_DEAD_MAX" default:"1000000" range:"[1,)" help:"dead letters that are kept; when full, work waits"`
	Shards        int           `yaml:"shards" env:"TIDEMILL_WINDOWS_SHARDS" default:"1" range:"[1,64]" help:"parts that windows are spread over in a Redis Cluster; all instances need the same number, and it cannot be changed while there are windows"`

	Service      string `yaml:"service" env:"TIDEMILL_WINDOWS_SERVICE,SERVICE_NAME" default:"em-processor" need:"true" help:"its consumer group in Kafka is this name and -group; all instances share it"`
	Instance     string `yaml:"instance" env:"TIDEMILL_WINDOWS_INSTANCE" help:"this instance's name, unlike that of any other and the same after a restart: what it left open ends at once, transactions and, only where it is set, its place in the consumer groups, which others get 45 seconds after it was stopped; empty: the host's name and the address that it listens on"`
	ServerPort   int    `yaml:"server_port" env:"SERVER_PORT" default:"8080" range:"[1,65535]" help:"a further port for records that are sent by HTTP; the default does not count: it is opened where it is set"`
	ActuatorPort int    `yaml:"actuator_port" env:"ACTUATOR_PORT" default:"8081" range:"[1,65535]" help:"a further port for health and metrics; the default does not count: it is opened where it is set"`

	Kafka  config.URL `yaml:"kafka" env:"TIDEMILL_WINDOWS_KAFKA,KAFKA_BOOTSTRAP_SERVERS" help:"the Kafka of its topics; empty: kafka.brokers, and where that is empty too records come by HTTP and from files, and topics are queues in Redis or the embedded database" allow:"as kafka.brokers"`
	Redis  Redis      `yaml:"redis"`
	Topics Topics     `yaml:"topics"`
	Files  Files      `yaml:"files"`
	Search Search     `yaml:"search"`

	Processors []Processor `yaml:"processors" reload:"true" help:"what is done with the records of a window before they are sent, in this order"`

	c *config.Loaded // that they are a part of
}

// Retry is about single records; windows have Tries.
type Retry struct {
	Attempts int           `yaml:"attempts" env:"RETRY_MAX_ATTEMPTS" default:"3" range:"[0,1000]" help:"tries after the first of a record that fails by itself; then it is a dead letter"`
	Interval time.Duration `yaml:"interval" env:"RETRY_INTERVAL" unit:"ms" default:"1s" range:"[0,1h]" help:"wait before each"`
}

// Redis is where windows are.
type Redis struct {
	URL      config.URL      `yaml:"url" env:"TIDEMILL_WINDOWS_REDIS_URL" help:"a Redis of its own: windows and dead letters are there; empty: redis.host, then the common redis.url, and where that is empty too the embedded database" allow:"as redis.url"`
	Host     string          `yaml:"host" env:"SPRING_DATA_REDIS_HOST" help:"host of that Redis, where url is not set"`
	Port     int             `yaml:"port" env:"SPRING_DATA_REDIS_PORT" default:"6379" range:"[1,65535]" help:"its port"`
	Password tidemill.Secret `yaml:"password" env:"SPRING_DATA_REDIS_PASSWORD" help:"its password"`
	Database int             `yaml:"database" env:"SPRING_DATA_REDIS_DATABASE" default:"0" range:"[0,15]" help:"its database"`
}

// Topics are the names of topics.
type Topics struct {
	AdapterEvent     string `yaml:"adapter_event" env:"KAFKA_TOPIC_ADAPTER_EVENT" default:"adapter-event" need:"true" help:"topic that events come from"`
	AdapterMention   string `yaml:"adapter_mention" env:"KAFKA_TOPIC_ADAPTER_MENTION" default:"adapter-mention" need:"true" help:"topic that mentions come from"`
	ProcessorEvent   string `yaml:"processor_event" env:"KAFKA_TOPIC_PROCESSOR_EVENT" default:"processor-event" need:"true" help:"topic that events go to, and the index reads"`
	ProcessorMention string `yaml:"processor_mention" env:"KAFKA_TOPIC_PROCESSOR_MENTION" default:"processor-mention" need:"true" help:"topic that mentions go to, and the index reads"`
	Results          string `yaml:"results" env:"TIDEMILL_WINDOWS_TOPICS_RESULTS" help:"topic of what processors found out about a batch, with Kafka; empty: it is logged"`

	IndexDead IndexDead `yaml:"index_dead"`
}

// IndexDead are the topics of records that the index refuses. They are dead letters
// too.
type IndexDead struct {
	Event             string `yaml:"event" env:"KAFKA_TOPIC_DLQ_CONNECT_EVENT_NAME" default:"dlq-gdelt-event-topic" need:"true" help:"topic of events that the index refuses, with the cause in headers; made if it is not there"`
	EventPartitions   int    `yaml:"event_partitions" env:"KAFKA_TOPIC_DLQ_CONNECT_EVENT_PARTITIONS" default:"3" range:"[1,10000]" help:"its partitions"`
	EventReplicas     int    `yaml:"event_replicas" env:"KAFKA_TOPIC_DLQ_CONNECT_EVENT_REPLICAS" default:"1" range:"[1,100]" help:"its replicas"`
	Mention           string `yaml:"mention" env:"KAFKA_TOPIC_DLQ_CONNECT_MENTION_NAME" default:"dlq-gdelt-mention-topic" need:"true" help:"the same of mentions"`
	MentionPartitions int    `yaml:"mention_partitions" env:"KAFKA_TOPIC_DLQ_CONNECT_MENTION_PARTITIONS" default:"3" range:"[1,10000]" help:"its partitions"`
	MentionReplicas   int    `yaml:"mention_replicas" env:"KAFKA_TOPIC_DLQ_CONNECT_MENTION_REPLICAS" default:"1" range:"[1,100]" help:"its replicas"`
}

// Files are GDELT files that are read, from a folder or from a list behind a URL.
type Files struct {
	Folder string        `yaml:"folder" env:"TIDEMILL_WINDOWS_FILES_FOLDER" help:"folder whose GDELT files (export and mentions, plain or zipped) are read, by one instance; empty: none"`
	URL    config.URL    `yaml:"url" env:"TIDEMILL_WINDOWS_FILES_URL" help:"list of such files, such as GDELT's lastupdate.txt; empty: none" allow:"http:// or https://"`
	Since  string        `yaml:"since" env:"TIDEMILL_WINDOWS_FILES_SINCE" help:"files with an earlier batch id than this are passed over, e.g. 20260101000000"`
	Every  time.Duration `yaml:"every" env:"TIDEMILL_WINDOWS_FILES_EVERY" default:"10s" range:"[10ms,24h]" help:"new files are looked for so often"`
	Quiet  time.Duration `yaml:"quiet" env:"TIDEMILL_WINDOWS_FILES_QUIET" default:"10s" range:"[0,24h]" help:"a file of the folder is complete when it has not changed for so long; 0: at once, files are renamed in"`
	Remove bool          `yaml:"remove" env:"TIDEMILL_WINDOWS_FILES_REMOVE" default:"false" help:"remove a file of the folder when all its rows have ended" allow:"true|false"`
	HTTP   bool          `yaml:"http" env:"TIDEMILL_WINDOWS_FILES_HTTP" default:"false" help:"fetch them unencrypted where their URLs say http, as GDELT's own lists do" allow:"true|false"`

	AllowPrivate config.Networks `yaml:"allow_private" env:"TIDEMILL_WINDOWS_FILES_ALLOW_PRIVATE" help:"networks that lists and files may be fetched from though they are private" allow:"prefixes such as 10.1.0.0/16, separated by commas"`
}

// Search is the index.
type Search struct {
	Enabled    bool          `yaml:"enabled" env:"TIDEMILL_WINDOWS_SEARCH_ENABLED" default:"true" help:"index what is sent; without, topics are for others to read, so Kafka is needed" allow:"true|false"`
	URL        config.URL    `yaml:"url" env:"TIDEMILL_WINDOWS_SEARCH_URL,OPENSEARCH_URL,ELASTICSEARCH_URL" help:"an OpenSearch or Elasticsearch: the index is there instead of in the embedded database" allow:"http://[user:password@]host:port or https://, ?api_key=… for Elasticsearch"`
	Keep       time.Duration `yaml:"keep" env:"TIDEMILL_WINDOWS_SEARCH_KEEP" default:"720h" range:"[0,)" help:"days of the index are deleted when they are so old; 0: never. On a server only days as young as this (0: as five years) have an index each, all others share one"`
	KeepMost   config.Size   `yaml:"keep_most" env:"TIDEMILL_WINDOWS_SEARCH_KEEP_MOST" default:"0" help:"how many bytes the index may have: the days that were made first make room. On a server those of its disks, with replicas; embedded those of the documents; 0: no bound" allow:"0, or 1MiB or more"`
	KeepLeast  time.Duration `yaml:"keep_least" env:"TIDEMILL_WINDOWS_SEARCH_KEEP_LEAST" default:"24h" range:"[0,)" help:"days of the index that were made later than this ago do not make room for others (keep_most)"`
	NewIndices int           `yaml:"new_indices" env:"TIDEMILL_WINDOWS_SEARCH_NEW_INDICES" default:"200" range:"[1,10000]" help:"indices that an instance makes on a server within an hour at most; documents of more days share one"`
	Unmanaged  bool          `yaml:"unmanaged" env:"TIDEMILL_WINDOWS_SEARCH_UNMANAGED" default:"false" help:"index templates are somebody else's to make" allow:"true|false"`
}

// Configured says whether anything says that windows are to run.
func (w *Settings) Configured() bool {
	if len(w.Processors) > 0 {
		return true
	}
	for _, path := range []string{"kafka", "redis.url", "redis.host", "topics.adapter_event", "topics.adapter_mention", "files.folder", "files.url", "window", "search.url"} {
		if w.Given(path) {
			return true
		}
	}
	return false
}

// Given says whether a setting, by its path in the group, came from the file, the environment
// or a flag.
func (w *Settings) Given(path string) bool {
	return w.c.Given(Group.Name + "." + path)
}

// Brokers are the Kafka of windows; empty: it has none.
func (w *Settings) Brokers() config.URL { return cmp.Or(w.Kafka, w.c.Kafka.Brokers) }

// ProjectName is the project of records that nobody sends with a key; empty: nothing is
// configured that says it.
func (w *Settings) ProjectName() string {
	name := w.Project
	for _, p := range w.c.Projects {
		switch {
		case w.Project != "":
		case name == "" || project.ID(name) == project.ID(p.Name):
			name = p.Name
		default:
			return "default"
		}
	}
	return name
}

// RedisURL is the Redis of windows; empty: it has none.
func (w *Settings) RedisURL() config.URL {
	r := &w.Redis
	switch {
	case r.URL != "":
		return r.URL
	case r.Host == "":
		return w.c.Redis.URL
	}
	u := url.URL{Scheme: "redis", Host: net.JoinHostPort(r.Host, fmt.Sprint(r.Port))}
	if !r.Password.IsZero() {
		u.User = url.UserPassword("", r.Password.Reveal())
	}
	if r.Database != 0 {
		u.Path = fmt.Sprintf("/%d", r.Database)
	}
	return config.URL(u.String())
}

// Schemas are the families of the index.
func (w *Settings) Schemas() (events, mentions *search.Schema, err error) {
	kept := func(s *search.Schema) (*search.Schema, error) {
		d := s.Definition
		d.Keep = w.Search.Keep
		return search.New(d)
	}
	if events, err = kept(search.Events()); err != nil {
		return nil, nil, err
	}
	mentions, err = kept(search.Mentions())
	return events, mentions, err
}

// Processor is one thing that is done with records: exactly one of the groups.
type Processor struct {
	Name    string `yaml:"name" help:"in metrics and logs; empty: what it does"`
	Kind    string `yaml:"kind" help:"event or mention; empty: both"`
	OnError string `yaml:"on_error" help:"pass, retry or dead; empty: pass"`

	Filter    *Filter         `yaml:"filter" help:"keeps some of the records"`
	Validate  []process.Rule  `yaml:"validate" help:"rules for valid records; what breaks one is a dead letter"`
	Map       []process.Value `yaml:"map" help:"values that are added"`
	Geo       *Geo            `yaml:"geo" help:"takes places away that are on no globe"`
	Dedup     *Dedup          `yaml:"dedup" help:"skips records that are the same as one before"`
	Aggregate *Aggregate      `yaml:"aggregate" help:"counts records in groups"`
	HTTP      *HTTP           `yaml:"http" help:"asks a service about records"`
}

// Filter keeps the records for which an expression is true.
type Filter struct {
	Keep   string `yaml:"keep" help:"expression that is true for the records to keep"`
	Reason string `yaml:"reason" help:"of those that are skipped; empty: filtered"`
}

// Geo takes places away that are on no globe.
type Geo struct {
	Zero  bool   `yaml:"zero" help:"0/0 is no place either"`
	Point string `yaml:"point" help:"adds the first place that there is under this name; empty: not"`
}

// Dedup skips records of a window that are the same as one before by some values.
type Dedup struct {
	By  []string `yaml:"by" help:"names of the values that are compared"`
	Max int      `yaml:"max" help:"records remembered; 0: a million"`
	Any bool     `yaml:"any" help:"those of which all these values are null, too"`
}

// Aggregate counts the records of a window in groups.
type Aggregate struct {
	By  []string `yaml:"by" help:"names of the values that make groups; empty: one group"`
	Sum []string `yaml:"sum" help:"names of numbers that are added up"`
	Max int      `yaml:"max" help:"groups; 0: 10,000"`
}

// HTTP asks a service about records.
type HTTP struct {
	URL          string            `yaml:"url" help:"its address: https, or http where allowHttp is set"`
	Headers      map[string]string `yaml:"headers" help:"of every request"`
	HeadersEnv   map[string]string `yaml:"headers_env" help:"the same, whose values are in variables, or NAME_FILE"`
	Fields       []string          `yaml:"fields" help:"names of values that are sent; empty: all"`
	Items        int               `yaml:"items" help:"records in a request; 0: 100"`
	Parallel     int               `yaml:"parallel" help:"requests at once; 0: 1"`
	Timeout      time.Duration     `yaml:"timeout" help:"0: 10s"`
	Retries      int               `yaml:"retries" help:"after the first, half a second apart and more"`
	AllowPrivate []string          `yaml:"allowPrivate" help:"networks that may be reached though they are private, e.g. 10.1.0.0/16"`
	AllowHTTP    bool              `yaml:"allowHttp" help:"it may be reached unencrypted"`
}

// Of is the kind of records that it is shown; zero: all.
func (p *Processor) Of() (record.Kind, error) {
	if p.Kind == "" {
		return 0, nil
	}
	return record.ParseKind(p.Kind)
}

// Shown is the processor without what may be a key.
func (p Processor) Shown() any {
	if p.HTTP != nil {
		h := *p.HTTP
		h.Headers, h.URL = urlsecret.Headers(h.Headers), urlsecret.Show(h.URL)
		p.HTTP = &h
	}
	return p
}

// Example shows what the lists of the group hold, in the file that init writes.
func (*Settings) Example() string {
	return `  # what is done with the records of a window before they are sent, in this order; each is one
  # of filter, validate, map, geo, dedup, aggregate and http
  #processors:
  #  - filter: {keep: 'kind == "mention" || numMentions > 1', reason: single}
  #  - kind: event                     # or mention; left out: both
  #    validate:
  #      - {must: '(actionGeoLat ?? 0) <= 90', why: 'the place is on no globe'}
  #  - map: [{name: source, from: '"gdelt"'}]
  #  - geo: {zero: true, point: place} # 0/0 is no place; the first place is added as place
  #  - kind: mention
  #    dedup: {by: [globalEventId, mentionIdentifier, sentenceId]}
  #  - kind: event
  #    aggregate: {by: [actionGeoCountryCode], sum: [numMentions]}
  #  - name: sentiment
  #    kind: mention
  #    on_error: pass                  # the record goes on as it was; or retry (the window), or dead
  #    http:
  #      url: https://sentiment.example.com/v1
  #      fields: [mentionIdentifier]
  #      items: 100                    # records in a request
  #      timeout: 10s
  #      retries: 2
  #      headers_env: {Authorization: SENTIMENT_TOKEN}
  #      allowPrivate: [10.1.0.0/16]   # networks that may be reached though they are private
  #      allowHttp: false
`
}
