// Package bridgeconfig has the settings of the bridge and what is refused of them.
package bridgeconfig

import (
	"math/bits"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
)

// Group is what the settings are in a configuration. The variables, flags and defaults are those of
// the consumer that the bridge replaces; in the file a setting is called what its variable is called
// after the group's name, in small letters. Many of the variables (LOG_FORMAT, METRICS_PORT) have
// names that other programs use too. A duration without a unit is in seconds, and in milliseconds
// where the flag ends in -ms.
var Group = config.Group{Name: "bridge", New: func(c *config.Loaded) config.Settings { return &Settings{c: c} }, Unit: time.Second, Late: true}

// Of finds the settings in a configuration.
func Of(c *config.Loaded) *Settings { return config.Of[*Settings](c) }

// Settings tune the bridge from a Redis stream to an MQTT broker.
type Settings struct {
	App      App      `yaml:"app"`
	Log      Log      `yaml:"log"`
	Redis    Redis    `yaml:"redis"`
	MQTT     MQTT     `yaml:"mqtt"`
	Broker   Broker   `yaml:"broker"`
	Pipeline Pipeline `yaml:"pipeline"`
	Retry    Retry    `yaml:"retry"`
	DLQ      DLQ      `yaml:"dlq"`
	Breaker  Breaker  `yaml:"breaker"`
	Resource Resource `yaml:"resource"`
	Health   Health   `yaml:"health"`
	Metrics  Metrics  `yaml:"metrics"`

	c *config.Loaded // that they are a part of
}

// Embedded says whether the bridge works without servers, on the embedded queue, the
// embedded broker and the common listener: neither the addresses of a Redis nor those of
// an MQTT broker were given. With one of them given the defaults hold for the other one,
// and for all the rest, ports included.
func (b *Settings) Embedded() bool {
	return !b.c.Given("bridge.redis.addresses") && !b.c.Given("bridge.mqtt.brokers")
}

// Configured says whether anything says that the bridge is to run: a server of its own.
func (b *Settings) Configured() bool { return !b.Embedded() }

// OwnLog is the log as the bridge's own variables and flags say it. It is the default where the
// bridge works on servers, as the consumer that it replaces does. LOG_LEVEL means both logs: they
// know the same words. LOG_FORMAT means the bridge's alone.
func (b *Settings) OwnLog() (log config.Log, byDefault bool) {
	return config.Log(b.Log), !b.Embedded()
}

// Log is the log where the bridge runs.
type Log struct {
	Level  string `yaml:"level" reload:"true" env:"TIDEMILL_LOG_LEVEL,LOG_LEVEL" flag:"log-level" default:"info" of:"trace|debug|info|warn|error|fatal|panic" help:"the least level that is logged where the bridge runs"`
	Format string `yaml:"format" env:"TIDEMILL_LOG_FORMAT,LOG_FORMAT" flag:"log-format" default:"json" of:"json|text" help:"text for people, json for machines, where the bridge runs"`
}

// App is the process as a whole.
type App struct {
	Name            string        `yaml:"name" env:"APP_NAME" flag:"app-name" default:"syslog-consumer" need:"true" help:"name of this service in its log, and of its connections to Redis"`
	Env             string        `yaml:"env" env:"APP_ENV" flag:"app-env" default:"production" help:"environment it is deployed in, for its log"`
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" env:"APP_SHUTDOWN_TIMEOUT" flag:"app-shutdown-timeout" default:"30s" range:"(0,)" help:"how long an orderly stop may take"`
	PendingOpsGrace time.Duration `yaml:"pending_ops_grace" env:"APP_PENDING_OPS_GRACE" flag:"app-pending-ops-grace-ms" default:"500ms" range:"[0,)" help:"how long a stop waits for acknowledgments that are under way"`
}

// Broker is the embedded MQTT broker, used where the bridge is Embedded.
type Broker struct {
	Listen   string          `yaml:"listen" env:"TIDEMILL_BRIDGE_BROKER_LISTEN" default:"127.0.0.1:1883" help:"address of the embedded MQTT broker" allow:"host:port; beyond loopback user and password are needed"`
	User     string          `yaml:"user" env:"TIDEMILL_BRIDGE_BROKER_USER" help:"user that clients of the embedded broker give; empty: anybody"`
	Password tidemill.Secret `yaml:"password" env:"TIDEMILL_BRIDGE_BROKER_PASSWORD" help:"the user's password"`

	AdminUser     string          `yaml:"admin_user" env:"TIDEMILL_BRIDGE_BROKER_ADMIN_USER" help:"another user, who may also read what the broker tells of itself (its SYS topics); empty: nobody may"`
	AdminPassword tidemill.Secret `yaml:"admin_password" env:"TIDEMILL_BRIDGE_BROKER_ADMIN_PASSWORD" help:"that user's password"`

	Connections    int           `yaml:"connections" env:"TIDEMILL_BRIDGE_BROKER_CONNECTIONS" default:"1000" range:"[1,1048576]" help:"connections of the embedded broker open at once; where there are more, those that have not logged in are closed first"`
	PerAddress     int           `yaml:"connections_per_address" env:"TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS" default:"0" range:"[-1,)" help:"of them from one address (of IPv6 a network of 64 bits); 0: half, 64 at least; -1: any number"`
	ConnectTimeout time.Duration `yaml:"connect_timeout" env:"TIDEMILL_BRIDGE_BROKER_CONNECT_TIMEOUT" default:"10s" range:"(0,)" help:"time a client has to send its CONNECT, of at most 32 KiB"`
	Sessions       int           `yaml:"sessions" env:"TIDEMILL_BRIDGE_BROKER_SESSIONS" default:"1000" range:"[1,1048576]" help:"sessions kept for clients that go and come again; more are refused"`
	Waiting        config.Size   `yaml:"waiting" env:"TIDEMILL_BRIDGE_BROKER_WAITING" default:"256MiB" help:"messages at QoS 1 and 2 that wait for all subscribers; over it publishers are held back, then refused"`
	Retained       int           `yaml:"retained" env:"TIDEMILL_BRIDGE_BROKER_RETAINED" default:"10000" range:"[1,16777216]" help:"retained messages; more are refused, at QoS 0 passed on and not retained"`
	RetainedSize   config.Size   `yaml:"retained_size" env:"TIDEMILL_BRIDGE_BROKER_RETAINED_SIZE" default:"64MiB" help:"what the retained messages may have together"`
}

// Pipeline is what happens between Redis and MQTT.
type Pipeline struct {
	BufferSize               int           `yaml:"buffer_size" env:"PIPELINE_BUFFER_SIZE" flag:"pipeline-buffer-size" default:"1048576" range:"[1,4294967295]" help:"entries the ring buffer holds, rounded up to a power of two"`
	BatchSize                int           `yaml:"batch_size" env:"PIPELINE_BATCH_SIZE" flag:"pipeline-batch-size" default:"1000" range:"[1,)" help:"entries processed together, at most the buffer size"`
	BatchTimeout             time.Duration `yaml:"batch_timeout" env:"PIPELINE_BATCH_TIMEOUT" flag:"pipeline-batch-timeout" default:"100ms" range:"(0,)" help:"longest wait for a batch to fill"`
	ProcessingTimeout        time.Duration `yaml:"processing_timeout" env:"PIPELINE_PROCESSING_TIMEOUT" flag:"pipeline-processing-timeout" default:"5s" range:"(0,)" help:"longest time that processing a batch may take"`
	ZeroCopy                 bool          `yaml:"zero_copy" env:"PIPELINE_ZERO_COPY" flag:"pipeline-zero-copy" default:"true" help:"publish a payload that is JSON as it is, without decoding it"`
	Preallocate              bool          `yaml:"preallocate" env:"PIPELINE_PREALLOCATE" flag:"pipeline-preallocate" default:"true" help:"allocate the buffers at start"`
	NUMAAware                bool          `yaml:"numa_aware" env:"PIPELINE_NUMA_AWARE" flag:"pipeline-numa-aware" default:"false" help:"keep to one NUMA node, as far as the system does it"`
	CPUAffinity              config.CPUSet `yaml:"cpu_affinity" env:"PIPELINE_CPU_AFFINITY" flag:"pipeline-cpu-affinity" help:"CPUs the process keeps to, as far as the system does it; empty: all" allow:"numbers and ranges, like 0,2-3"`
	BackpressureThreshold    float64       `yaml:"backpressure_threshold" env:"PIPELINE_BACKPRESSURE_THRESHOLD" flag:"pipeline-backpressure-threshold" default:"0.8" range:"(0,1]" help:"part of the buffer in use at which the drop policy begins"`
	DropPolicy               string        `yaml:"drop_policy" env:"PIPELINE_DROP_POLICY" flag:"pipeline-drop-policy" default:"oldest" of:"oldest|newest|none" help:"what makes room over the threshold: the oldest entries of the buffer leave it, new ones are refused, or reading waits; entries that are dropped stay in Redis and come again"`
	FlushInterval            time.Duration `yaml:"flush_interval" env:"PIPELINE_FLUSH_INTERVAL" flag:"pipeline-flush-interval-ms" default:"100ms" range:"(0,)" help:"how often an incomplete batch is processed"`
	BackpressurePollInterval time.Duration `yaml:"backpressure_poll_interval" env:"PIPELINE_BACKPRESSURE_POLL_INTERVAL" flag:"pipeline-backpressure-poll-interval" default:"1s" range:"(0,)" help:"how often the use of the buffer is looked at"`
	IdlePollSleep            time.Duration `yaml:"idle_poll_sleep" env:"PIPELINE_IDLE_POLL_SLEEP" flag:"pipeline-idle-poll-sleep-ms" default:"1ms" range:"[0,)" help:"pause of a loop that finds nothing to do"`
}

// Capacity is how many entries the ring buffer holds: BufferSize rounded up to a power of
// two.
func (p *Pipeline) Capacity() int {
	if p.BufferSize <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(p.BufferSize-1))
}

// Retry says when a message that could not be published is tried again.
type Retry struct {
	Enabled        bool          `yaml:"enabled" env:"PIPELINE_RETRY_ENABLED" flag:"pipeline-retry-enabled" default:"true" help:"try a message that could not be published again; without, the first failure is the last"`
	MaxAttempts    int           `yaml:"max_attempts" env:"PIPELINE_RETRY_MAX_ATTEMPTS" flag:"pipeline-retry-max-attempts" default:"5" range:"[0,)" help:"retries until it is a dead letter"`
	InitialBackoff time.Duration `yaml:"initial_backoff" env:"PIPELINE_RETRY_INITIAL_BACKOFF" flag:"pipeline-retry-initial-backoff" default:"1s" range:"[0,)" help:"wait before the first retry"`
	MaxBackoff     time.Duration `yaml:"max_backoff" env:"PIPELINE_RETRY_MAX_BACKOFF" flag:"pipeline-retry-max-backoff" default:"30s" range:"[0,)" help:"longest wait before a retry"`
	Multiplier     float64       `yaml:"multiplier" env:"PIPELINE_RETRY_MULTIPLIER" flag:"pipeline-retry-multiplier" default:"2" range:"[1,)" help:"how many times longer each wait is than the one before"`
}

// DLQ is where messages go whose retries are used up.
type DLQ struct {
	Enabled bool   `yaml:"enabled" env:"PIPELINE_DLQ_ENABLED" flag:"pipeline-dlq-enabled" default:"true" help:"publish messages whose retries are used up as dead letters; without, they stay pending in Redis"`
	Topic   string `yaml:"topic" env:"PIPELINE_DLQ_TOPIC" flag:"pipeline-dlq-topic" default:"syslog/dlq" help:"topic of the dead letters"`
}

// Breaker stops publishing for a while where most of it fails.
type Breaker struct {
	Enabled          bool          `yaml:"enabled" env:"CIRCUIT_BREAKER_ENABLED" flag:"cb-enabled" default:"true" help:"stop publishing for a while where too much of it fails"`
	ErrorThreshold   float64       `yaml:"error_threshold" env:"CIRCUIT_BREAKER_ERROR_THRESHOLD" flag:"cb-error-threshold" default:"50" range:"(0,100]" help:"percentage of failures in a minute that opens the breaker"`
	SuccessThreshold int           `yaml:"success_threshold" env:"CIRCUIT_BREAKER_SUCCESS_THRESHOLD" flag:"cb-success-threshold" default:"5" range:"[1,)" help:"successes in a row that close a half-open breaker"`
	Timeout          time.Duration `yaml:"timeout" env:"CIRCUIT_BREAKER_TIMEOUT" flag:"cb-timeout" default:"30s" range:"(0,)" help:"how long the breaker stays open"`
	MaxConcurrent    int           `yaml:"max_concurrent" env:"CIRCUIT_BREAKER_MAX_CONCURRENT" flag:"cb-max-concurrent" default:"100" range:"[1,)" help:"callers at once; more wait"`
	RequestVolume    int           `yaml:"request_volume" env:"CIRCUIT_BREAKER_REQUEST_VOLUME" flag:"cb-request-volume" default:"20" range:"[1,)" help:"publishes in a minute below which the breaker stays closed"`
}

// Resource says how many workers there are, by the load of the machine.
type Resource struct {
	MinWorkers        int           `yaml:"min_workers" env:"RESOURCE_MIN_WORKERS" default:"1" range:"[1,)" help:"workers at least"`
	MaxWorkers        int           `yaml:"max_workers" env:"RESOURCE_MAX_WORKERS" flag:"redis-workers" default:"CPUs × 4" range:"[1,)" help:"workers at most"`
	WorkerStep        int           `yaml:"worker_step" env:"RESOURCE_WORKER_STEP" default:"2" range:"[1,)" help:"workers that are added or taken away at a time"`
	CPUHigh           float64       `yaml:"cpu_high" env:"RESOURCE_CPU_HIGH" flag:"resource-upper-cpu" default:"80" range:"(0,100]" help:"percentage of CPU in use above which no worker is added"`
	CPULow            float64       `yaml:"cpu_low" env:"RESOURCE_CPU_LOW" flag:"resource-lower-cpu" default:"30" range:"(0,100]" help:"percentage of CPU in use below which workers may be added"`
	MemHigh           float64       `yaml:"mem_high" env:"RESOURCE_MEM_HIGH" flag:"resource-upper-mem" default:"80" range:"(0,100]" help:"percentage of memory in use above which no worker is added"`
	MemLow            float64       `yaml:"mem_low" env:"RESOURCE_MEM_LOW" flag:"resource-lower-mem" default:"30" range:"(0,100]" help:"percentage of memory in use below which workers may be added"`
	CheckInterval     time.Duration `yaml:"check_interval" env:"RESOURCE_CHECK_INTERVAL" default:"5s" range:"(0,)" help:"how often the load is looked at"`
	ScaleUpCooldown   time.Duration `yaml:"scale_up_cooldown" env:"RESOURCE_SCALE_UP_COOLDOWN" default:"30s" range:"[0,)" help:"least time between two additions of workers"`
	ScaleDownCooldown time.Duration `yaml:"scale_down_cooldown" env:"RESOURCE_SCALE_DOWN_COOLDOWN" default:"2m" range:"[0,)" help:"least time until workers are taken away again"`
	PredictiveScaling bool          `yaml:"predictive_scaling" env:"RESOURCE_PREDICTIVE_SCALING" default:"true" help:"scale by the load that the trend promises"`
	HistoryWindow     int           `yaml:"history_window" env:"RESOURCE_HISTORY_WINDOW" default:"100" range:"[1,)" help:"measurements that the trend is made of"`
	PredictionHorizon time.Duration `yaml:"prediction_horizon" env:"RESOURCE_PREDICTION_HORIZON" default:"30s" range:"(0,)" help:"how far the trend looks ahead"`
}

// Health is the listener of the health probes. Where the bridge is Embedded they are
// on the common listener instead.
type Health struct {
	Enabled       bool          `yaml:"enabled" env:"HEALTH_ENABLED" flag:"health-enabled" default:"true" help:"answer health probes"`
	Port          int           `yaml:"port" env:"HEALTH_PORT" flag:"health-port" default:"8080" range:"[1,65535]" help:"port of the health probes"`
	ReadTimeout   time.Duration `yaml:"read_timeout" env:"HEALTH_READ_TIMEOUT" flag:"health-read-timeout" default:"5s" range:"(0,)" help:"time a probe has to send its request"`
	WriteTimeout  time.Duration `yaml:"write_timeout" env:"HEALTH_WRITE_TIMEOUT" flag:"health-write-timeout" default:"5s" range:"(0,)" help:"time an answer to a probe may take"`
	CheckInterval time.Duration `yaml:"check_interval" env:"HEALTH_CHECK_INTERVAL" flag:"health-check-interval" default:"10s" range:"(0,)" help:"how often Redis and MQTT are checked"`
	RedisTimeout  time.Duration `yaml:"redis_timeout" env:"HEALTH_REDIS_TIMEOUT" flag:"health-redis-timeout" default:"2s" range:"(0,)" help:"time Redis has to answer a check"`
	MQTTTimeout   time.Duration `yaml:"mqtt_timeout" env:"HEALTH_MQTT_TIMEOUT" flag:"health-mqtt-timeout" default:"2s" range:"(0,)" help:"time MQTT has to answer a check"`
}

// Metrics is the listener of the metrics, and their names. Where the bridge is
// Embedded they are on the common listener instead.
type Metrics struct {
	Enabled          bool           `yaml:"enabled" env:"METRICS_ENABLED" flag:"metrics-enabled" default:"true" help:"answer with metrics"`
	Port             int            `yaml:"port" env:"METRICS_PORT" flag:"metrics-port" default:"9090" range:"[1,65535]" help:"port of the metrics"`
	CollectInterval  time.Duration  `yaml:"collect_interval" env:"METRICS_COLLECT_INTERVAL" flag:"metrics-collect-interval" default:"10s" range:"(0,)" help:"how often what has to be measured is measured"`
	Namespace        string         `yaml:"namespace" env:"METRICS_NAMESPACE" flag:"metrics-namespace" default:"syslog_consumer" help:"what the names of the metrics begin with" allow:"letters, digits and _, not empty"`
	Subsystem        string         `yaml:"subsystem" env:"METRICS_SUBSYSTEM" flag:"metrics-subsystem" help:"what follows the namespace in the names of the metrics" allow:"letters, digits and _"`
	HistogramBuckets config.Buckets `yaml:"histogram_buckets" env:"METRICS_HISTOGRAM_BUCKETS" flag:"metrics-histogram-buckets" default:"0.001,0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10" help:"upper bounds of the histograms' buckets, in seconds" allow:"growing numbers, at least one"`
}

// Prefix is what the name of every metric of the bridge begins with, without the last _.
func (m *Metrics) Prefix() string {
	if m.Subsystem == "" {
		return m.Namespace
	}
	return m.Namespace + "_" + m.Subsystem
}
