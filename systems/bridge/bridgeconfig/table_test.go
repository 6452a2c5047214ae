package bridgeconfig

import (
	"runtime"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
)

// bridgeRow is a setting as the consumer that the bridge replaces knows it.
type bridgeRow struct {
	env, flag, file string
	get             func(*Settings) any
	otherwise       any // the default
}

// bridgeTable is written down from that consumer's documentation, not from the struct.
func bridgeTable() []bridgeRow {
	const s, ms = time.Second, time.Millisecond
	cpus := runtime.GOMAXPROCS(0)
	return []bridgeRow{
		{"APP_NAME", "app-name", "app.name", func(b *Settings) any { return b.App.Name }, "syslog-consumer"},
		{"APP_ENV", "app-env", "app.env", func(b *Settings) any { return b.App.Env }, "production"},
		{"LOG_LEVEL", "log-level", "log.level", func(b *Settings) any { return b.Log.Level }, "info"},
		{"LOG_FORMAT", "log-format", "log.format", func(b *Settings) any { return b.Log.Format }, "json"},
		{"APP_SHUTDOWN_TIMEOUT", "app-shutdown-timeout", "app.shutdown_timeout", func(b *Settings) any { return b.App.ShutdownTimeout }, 30 * s},
		{"APP_PENDING_OPS_GRACE", "app-pending-ops-grace-ms", "app.pending_ops_grace", func(b *Settings) any { return b.App.PendingOpsGrace }, 500 * ms},

		{"REDIS_ADDRESSES", "redis-addr", "redis.addresses", func(b *Settings) any { return []string(b.Redis.Addresses) }, []string{"localhost:6379"}},
		{"REDIS_PASSWORD", "redis-password", "redis.password", func(b *Settings) any { return b.Redis.Password }, tidemill.Secret{}},
		{"REDIS_DB", "redis-db", "redis.db", func(b *Settings) any { return b.Redis.DB }, 0},
		{"REDIS_STREAM", "redis-stream", "redis.stream", func(b *Settings) any { return b.Redis.Stream }, "syslog-stream"},
		{"REDIS_CONSUMER_GROUP", "redis-group", "redis.consumer_group", func(b *Settings) any { return b.Redis.ConsumerGroup }, "syslog-group"},
		{"REDIS_MAX_RETRIES", "redis-client-retries", "redis.max_retries", func(b *Settings) any { return b.Redis.MaxRetries }, 5},
		{"REDIS_RETRY_INTERVAL", "redis-client-retry-interval", "redis.retry_interval", func(b *Settings) any { return b.Redis.RetryInterval }, 1 * s},
		{"REDIS_CONNECT_TIMEOUT", "", "redis.connect_timeout", func(b *Settings) any { return b.Redis.ConnectTimeout }, 5 * s},
		{"REDIS_READ_TIMEOUT", "", "redis.read_timeout", func(b *Settings) any { return b.Redis.ReadTimeout }, 3 * s},
		{"REDIS_WRITE_TIMEOUT", "", "redis.write_timeout", func(b *Settings) any { return b.Redis.WriteTimeout }, 3 * s},
		{"REDIS_POOL_SIZE", "", "redis.pool_size", func(b *Settings) any { return b.Redis.PoolSize }, cpus * 10},
		{"REDIS_MIN_IDLE_CONNS", "", "redis.min_idle_conns", func(b *Settings) any { return b.Redis.MinIdleConns }, cpus},
		{"REDIS_MAX_CONN_AGE", "", "redis.max_conn_age", func(b *Settings) any { return b.Redis.MaxConnAge }, 30 * time.Minute},
		{"REDIS_IDLE_TIMEOUT", "", "redis.idle_timeout", func(b *Settings) any { return b.Redis.IdleTimeout }, 5 * time.Minute},
		{"REDIS_BATCH_SIZE", "redis-batch-size", "redis.batch_size", func(b *Settings) any { return b.Redis.BatchSize }, 100},
		{"REDIS_BLOCK_TIME", "redis-batch-timeout", "redis.block_time", func(b *Settings) any { return b.Redis.BlockTime }, 5 * s},
		{"REDIS_PENDING_CHECK_INTERVAL", "", "redis.pending_check_interval", func(b *Settings) any { return b.Redis.PendingCheckInterval }, 30 * s},
		{"REDIS_CLAIM_INTERVAL", "", "redis.claim_interval", func(b *Settings) any { return b.Redis.ClaimInterval }, 30 * s},
		{"REDIS_CLAIM_MIN_IDLE", "", "redis.claim_min_idle", func(b *Settings) any { return b.Redis.ClaimMinIdle }, time.Minute},
		{"REDIS_CLAIM_BATCH_SIZE", "", "redis.claim_batch_size", func(b *Settings) any { return b.Redis.ClaimBatchSize }, 1000},
		{"REDIS_AGGRESSIVE_CLAIM", "redis-aggressive-claim", "redis.aggressive_claim", func(b *Settings) any { return b.Redis.AggressiveClaim }, true},
		{"REDIS_CLAIM_CYCLE_DELAY", "redis-claim-cycle-delay", "redis.claim_cycle_delay", func(b *Settings) any { return b.Redis.ClaimCycleDelay }, 1 * s},
		{"REDIS_DRAIN_ENABLED", "redis-drain-enabled", "redis.drain_enabled", func(b *Settings) any { return b.Redis.DrainEnabled }, true},
		{"REDIS_DRAIN_INTERVAL", "redis-drain-interval", "redis.drain_interval", func(b *Settings) any { return b.Redis.DrainInterval }, time.Minute},
		{"REDIS_DRAIN_BATCH_SIZE", "redis-drain-batch-size", "redis.drain_batch_size", func(b *Settings) any { return b.Redis.DrainBatchSize }, 1000},
		{"REDIS_CONSUMER_CLEANUP_ENABLED", "redis-consumer-cleanup-enabled", "redis.consumer_cleanup_enabled", func(b *Settings) any { return b.Redis.ConsumerCleanupEnabled }, true},
		{"REDIS_CONSUMER_IDLE_TIMEOUT", "redis-consumer-idle-timeout", "redis.consumer_idle_timeout", func(b *Settings) any { return b.Redis.ConsumerIdleTimeout }, 5 * time.Minute},
		{"REDIS_CONSUMER_CLEANUP_INTERVAL", "redis-consumer-cleanup-interval", "redis.consumer_cleanup_interval", func(b *Settings) any { return b.Redis.ConsumerCleanupInterval }, time.Minute},

		{"MQTT_BROKERS", "mqtt-broker", "mqtt.brokers", func(b *Settings) any { return []string(b.MQTT.Brokers) }, []string{"tcp://localhost:1883"}},
		{"MQTT_CLIENT_ID", "mqtt-client-id", "mqtt.client_id", func(b *Settings) any { return b.MQTT.ClientID }, "syslog-consumer-box-42"},
		{"MQTT_QOS", "mqtt-qos", "mqtt.qos", func(b *Settings) any { return b.MQTT.QoS }, 2},
		{"MQTT_KEEP_ALIVE", "mqtt-keep-alive", "mqtt.keep_alive", func(b *Settings) any { return b.MQTT.KeepAlive }, 30 * s},
		{"MQTT_CONNECT_TIMEOUT", "mqtt-connect-timeout", "mqtt.connect_timeout", func(b *Settings) any { return b.MQTT.ConnectTimeout }, 10 * s},
		{"MQTT_MAX_RECONNECT_DELAY", "mqtt-max-reconnect-delay", "mqtt.max_reconnect_delay", func(b *Settings) any { return b.MQTT.MaxReconnectDelay }, 2 * time.Minute},
		{"MQTT_CLEAN_SESSION", "mqtt-clean-session", "mqtt.clean_session", func(b *Settings) any { return b.MQTT.CleanSession }, true},
		{"MQTT_ORDER_MATTERS", "mqtt-order-matters", "mqtt.order_matters", func(b *Settings) any { return b.MQTT.OrderMatters }, true},
		{"MQTT_PUBLISH_TOPIC", "mqtt-publish-topic", "mqtt.publish_topic", func(b *Settings) any { return b.MQTT.PublishTopic }, "syslog"},
		{"MQTT_SUBSCRIBE_TOPIC", "mqtt-subscribe-topic", "mqtt.subscribe_topic", func(b *Settings) any { return b.MQTT.SubscribeTopic }, "syslog/acknowledgement"},
		{"MQTT_USE_USER_PREFIX", "mqtt-use-user-prefix", "mqtt.use_user_prefix", func(b *Settings) any { return b.MQTT.UseUserPrefix }, true},
		{"MQTT_CUSTOM_PREFIX", "mqtt-custom-prefix", "mqtt.custom_prefix", func(b *Settings) any { return b.MQTT.CustomPrefix }, ""},
		{"MQTT_PUBLISHER_POOL_SIZE", "mqtt-publishers", "mqtt.publisher_pool_size", func(b *Settings) any { return b.MQTT.PublisherPoolSize }, 1},
		{"MQTT_MAX_INFLIGHT", "mqtt-max-inflight", "mqtt.max_inflight", func(b *Settings) any { return b.MQTT.MaxInflight }, 1000},
		{"MQTT_MESSAGE_CHANNEL_DEPTH", "mqtt-message-channel-depth", "mqtt.message_channel_depth", func(b *Settings) any { return b.MQTT.MessageChannelDepth }, 0},
		{"MQTT_WRITE_TIMEOUT", "mqtt-write-timeout", "mqtt.write_timeout", func(b *Settings) any { return b.MQTT.WriteTimeout }, 5 * s},
		{"MQTT_TLS_ENABLED", "", "mqtt.tls_enabled", func(b *Settings) any { return b.MQTT.TLSEnabled }, false},
		{"MQTT_CA_CERT", "mqtt-ca-cert", "mqtt.ca_cert", func(b *Settings) any { return b.MQTT.CACert }, ""},
		{"MQTT_CLIENT_CERT", "mqtt-client-cert", "mqtt.client_cert", func(b *Settings) any { return b.MQTT.ClientCert }, ""},
		{"MQTT_CLIENT_KEY", "mqtt-client-key", "mqtt.client_key", func(b *Settings) any { return b.MQTT.ClientKey }, ""},
		{"MQTT_TLS_INSECURE", "mqtt-tls-insecure", "mqtt.tls_insecure", func(b *Settings) any { return b.MQTT.TLSInsecure }, false},
		{"MQTT_TLS_SERVER_NAME", "mqtt-tls-server-name", "mqtt.tls_server_name", func(b *Settings) any { return b.MQTT.TLSServerName }, ""},
		{"MQTT_TLS_MIN_VERSION", "mqtt-tls-min-version", "mqtt.tls_min_version", func(b *Settings) any { return b.MQTT.TLSMinVersion }, "TLS1.2"},
		{"MQTT_TLS_CIPHER_SUITES", "mqtt-tls-cipher-suites", "mqtt.tls_cipher_suites", func(b *Settings) any { return []string(b.MQTT.TLSCipherSuites) }, []string(nil)},
		{"MQTT_TLS_PREFER_SERVER_CIPHERS", "mqtt-tls-prefer-server-ciphers", "mqtt.tls_prefer_server_ciphers", func(b *Settings) any { return b.MQTT.TLSPreferServerCiphers }, false},

		{"PIPELINE_BUFFER_SIZE", "pipeline-buffer-size", "pipeline.buffer_size", func(b *Settings) any { return b.Pipeline.BufferSize }, 1048576},
		{"PIPELINE_BATCH_SIZE", "pipeline-batch-size", "pipeline.batch_size", func(b *Settings) any { return b.Pipeline.BatchSize }, 1000},
		{"PIPELINE_BATCH_TIMEOUT", "pipeline-batch-timeout", "pipeline.batch_timeout", func(b *Settings) any { return b.Pipeline.BatchTimeout }, 100 * ms},
		{"PIPELINE_PROCESSING_TIMEOUT", "pipeline-processing-timeout", "pipeline.processing_timeout", func(b *Settings) any { return b.Pipeline.ProcessingTimeout }, 5 * s},
		{"PIPELINE_ZERO_COPY", "pipeline-zero-copy", "pipeline.zero_copy", func(b *Settings) any { return b.Pipeline.ZeroCopy }, true},
		{"PIPELINE_PREALLOCATE", "pipeline-preallocate", "pipeline.preallocate", func(b *Settings) any { return b.Pipeline.Preallocate }, true},
		{"PIPELINE_NUMA_AWARE", "pipeline-numa-aware", "pipeline.numa_aware", func(b *Settings) any { return b.Pipeline.NUMAAware }, false},
		{"PIPELINE_CPU_AFFINITY", "pipeline-cpu-affinity", "pipeline.cpu_affinity", func(b *Settings) any { return []int(b.Pipeline.CPUAffinity) }, []int(nil)},
		{"PIPELINE_BACKPRESSURE_THRESHOLD", "pipeline-backpressure-threshold", "pipeline.backpressure_threshold", func(b *Settings) any { return b.Pipeline.BackpressureThreshold }, 0.8},
		{"PIPELINE_DROP_POLICY", "pipeline-drop-policy", "pipeline.drop_policy", func(b *Settings) any { return b.Pipeline.DropPolicy }, "oldest"},
		{"PIPELINE_FLUSH_INTERVAL", "pipeline-flush-interval-ms", "pipeline.flush_interval", func(b *Settings) any { return b.Pipeline.FlushInterval }, 100 * ms},
		{"PIPELINE_BACKPRESSURE_POLL_INTERVAL", "pipeline-backpressure-poll-interval", "pipeline.backpressure_poll_interval", func(b *Settings) any { return b.Pipeline.BackpressurePollInterval }, 1 * s},
		{"PIPELINE_IDLE_POLL_SLEEP", "pipeline-idle-poll-sleep-ms", "pipeline.idle_poll_sleep", func(b *Settings) any { return b.Pipeline.IdlePollSleep }, 1 * ms},

		{"PIPELINE_RETRY_ENABLED", "pipeline-retry-enabled", "retry.enabled", func(b *Settings) any { return b.Retry.Enabled }, true},
		{"PIPELINE_RETRY_MAX_ATTEMPTS", "pipeline-retry-max-attempts", "retry.max_attempts", func(b *Settings) any { return b.Retry.MaxAttempts }, 5},
		{"PIPELINE_RETRY_INITIAL_BACKOFF", "pipeline-retry-initial-backoff", "retry.initial_backoff", func(b *Settings) any { return b.Retry.InitialBackoff }, 1 * s},
		{"PIPELINE_RETRY_MAX_BACKOFF", "pipeline-retry-max-backoff", "retry.max_backoff", func(b *Settings) any { return b.Retry.MaxBackoff }, 30 * s},
		{"PIPELINE_RETRY_MULTIPLIER", "pipeline-retry-multiplier", "retry.multiplier", func(b *Settings) any { return b.Retry.Multiplier }, 2.0},
		{"PIPELINE_DLQ_ENABLED", "pipeline-dlq-enabled", "dlq.enabled", func(b *Settings) any { return b.DLQ.Enabled }, true},
		{"PIPELINE_DLQ_TOPIC", "pipeline-dlq-topic", "dlq.topic", func(b *Settings) any { return b.DLQ.Topic }, "syslog/dlq"},

		{"CIRCUIT_BREAKER_ENABLED", "cb-enabled", "breaker.enabled", func(b *Settings) any { return b.Breaker.Enabled }, true},
		{"CIRCUIT_BREAKER_ERROR_THRESHOLD", "cb-error-threshold", "breaker.error_threshold", func(b *Settings) any { return b.Breaker.ErrorThreshold }, 50.0},
		{"CIRCUIT_BREAKER_SUCCESS_THRESHOLD", "cb-success-threshold", "breaker.success_threshold", func(b *Settings) any { return b.Breaker.SuccessThreshold }, 5},
		{"CIRCUIT_BREAKER_TIMEOUT", "cb-timeout", "breaker.timeout", func(b *Settings) any { return b.Breaker.Timeout }, 30 * s},
		{"CIRCUIT_BREAKER_MAX_CONCURRENT", "cb-max-concurrent", "breaker.max_concurrent", func(b *Settings) any { return b.Breaker.MaxConcurrent }, 100},
		{"CIRCUIT_BREAKER_REQUEST_VOLUME", "cb-request-volume", "breaker.request_volume", func(b *Settings) any { return b.Breaker.RequestVolume }, 20},

		{"RESOURCE_MIN_WORKERS", "", "resource.min_workers", func(b *Settings) any { return b.Resource.MinWorkers }, 1},
		{"RESOURCE_MAX_WORKERS", "redis-workers", "resource.max_workers", func(b *Settings) any { return b.Resource.MaxWorkers }, cpus * 4},
		{"RESOURCE_WORKER_STEP", "", "resource.worker_step", func(b *Settings) any { return b.Resource.WorkerStep }, 2},
		{"RESOURCE_CPU_HIGH", "resource-upper-cpu", "resource.cpu_high", func(b *Settings) any { return b.Resource.CPUHigh }, 80.0},
		{"RESOURCE_CPU_LOW", "resource-lower-cpu", "resource.cpu_low", func(b *Settings) any { return b.Resource.CPULow }, 30.0},
		{"RESOURCE_MEM_HIGH", "resource-upper-mem", "resource.mem_high", func(b *Settings) any { return b.Resource.MemHigh }, 80.0},
		{"RESOURCE_MEM_LOW", "resource-lower-mem", "resource.mem_low", func(b *Settings) any { return b.Resource.MemLow }, 30.0},
		{"RESOURCE_CHECK_INTERVAL", "", "resource.check_interval", func(b *Settings) any { return b.Resource.CheckInterval }, 5 * s},
		{"RESOURCE_SCALE_UP_COOLDOWN", "", "resource.scale_up_cooldown", func(b *Settings) any { return b.Resource.ScaleUpCooldown }, 30 * s},
		{"RESOURCE_SCALE_DOWN_COOLDOWN", "", "resource.scale_down_cooldown", func(b *Settings) any { return b.Resource.ScaleDownCooldown }, 2 * time.Minute},
		{"RESOURCE_PREDICTIVE_SCALING", "", "resource.predictive_scaling", func(b *Settings) any { return b.Resource.PredictiveScaling }, true},
		{"RESOURCE_HISTORY_WINDOW", "", "resource.history_window", func(b *Settings) any { return b.Resource.HistoryWindow }, 100},
		{"RESOURCE_PREDICTION_HORIZON", "", "resource.prediction_horizon", func(b *Settings) any { return b.Resource.PredictionHorizon }, 30 * s},

		{"HEALTH_ENABLED", "health-enabled", "health.enabled", func(b *Settings) any { return b.Health.Enabled }, true},
		{"HEALTH_PORT", "health-port", "health.port", func(b *Settings) any { return b.Health.Port }, 8080},
		{"HEALTH_READ_TIMEOUT", "health-read-timeout", "health.read_timeout", func(b *Settings) any { return b.Health.ReadTimeout }, 5 * s},
		{"HEALTH_WRITE_TIMEOUT", "health-write-timeout", "health.write_timeout", func(b *Settings) any { return b.Health.WriteTimeout }, 5 * s},
		{"HEALTH_CHECK_INTERVAL", "health-check-interval", "health.check_interval", func(b *Settings) any { return b.Health.CheckInterval }, 10 * s},
		{"HEALTH_REDIS_TIMEOUT", "health-redis-timeout", "health.redis_timeout", func(b *Settings) any { return b.Health.RedisTimeout }, 2 * s},
		{"HEALTH_MQTT_TIMEOUT", "health-mqtt-timeout", "health.mqtt_timeout", func(b *Settings) any { return b.Health.MQTTTimeout }, 2 * s},
		{"METRICS_ENABLED", "metrics-enabled", "metrics.enabled", func(b *Settings) any { return b.Metrics.Enabled }, true},
		{"METRICS_PORT", "metrics-port", "metrics.port", func(b *Settings) any { return b.Metrics.Port }, 9090},
		{"METRICS_COLLECT_INTERVAL", "metrics-collect-interval", "metrics.collect_interval", func(b *Settings) any { return b.Metrics.CollectInterval }, 10 * s},
		{"METRICS_NAMESPACE", "metrics-namespace", "metrics.namespace", func(b *Settings) any { return b.Metrics.Namespace }, "syslog_consumer"},
		{"METRICS_SUBSYSTEM", "metrics-subsystem", "metrics.subsystem", func(b *Settings) any { return b.Metrics.Subsystem }, ""},
		{"METRICS_HISTOGRAM_BUCKETS", "metrics-histogram-buckets", "metrics.histogram_buckets", func(b *Settings) any { return []float64(b.Metrics.HistogramBuckets) },
			[]float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}},
	}
}

// bridgeAdditions are settings that the consumer did not have.
func bridgeAdditions() []bridgeRow {
	return []bridgeRow{
		{"REDIS_USERNAME", "redis-username", "redis.username", func(b *Settings) any { return b.Redis.Username }, ""},
		{"REDIS_MASTER_NAME", "redis-master-name", "redis.master_name", func(b *Settings) any { return b.Redis.MasterName }, ""},
		{"REDIS_TLS_ENABLED", "redis-tls-enabled", "redis.tls_enabled", func(b *Settings) any { return b.Redis.TLSEnabled }, false},
		{"REDIS_CONSUMER_NAME", "redis-consumer-name", "redis.consumer_name", func(b *Settings) any { return b.Redis.ConsumerName }, ""},
		{"MQTT_USERNAME", "mqtt-username", "mqtt.username", func(b *Settings) any { return b.MQTT.Username }, ""},
		{"MQTT_PASSWORD", "", "mqtt.password", func(b *Settings) any { return b.MQTT.Password }, tidemill.Secret{}},
		{"TIDEMILL_BRIDGE_BROKER_LISTEN", "", "broker.listen", func(b *Settings) any { return b.Broker.Listen }, "127.0.0.1:1883"},
		{"TIDEMILL_BRIDGE_BROKER_USER", "", "broker.user", func(b *Settings) any { return b.Broker.User }, ""},
		{"TIDEMILL_BRIDGE_BROKER_PASSWORD", "", "broker.password", func(b *Settings) any { return b.Broker.Password }, tidemill.Secret{}},
		{"TIDEMILL_BRIDGE_BROKER_ADMIN_USER", "", "broker.admin_user", func(b *Settings) any { return b.Broker.AdminUser }, ""},
		{"TIDEMILL_BRIDGE_BROKER_ADMIN_PASSWORD", "", "broker.admin_password", func(b *Settings) any { return b.Broker.AdminPassword }, tidemill.Secret{}},
		{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS", "", "broker.connections", func(b *Settings) any { return b.Broker.Connections }, 1000},
		{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS", "", "broker.connections_per_address", func(b *Settings) any { return b.Broker.PerAddress }, 0},
		{"TIDEMILL_BRIDGE_BROKER_CONNECT_TIMEOUT", "", "broker.connect_timeout", func(b *Settings) any { return b.Broker.ConnectTimeout }, 10 * time.Second},
		{"TIDEMILL_BRIDGE_BROKER_SESSIONS", "", "broker.sessions", func(b *Settings) any { return b.Broker.Sessions }, 1000},
		{"TIDEMILL_BRIDGE_BROKER_WAITING", "", "broker.waiting", func(b *Settings) any { return b.Broker.Waiting }, config.Size(256 << 20)},
		{"TIDEMILL_BRIDGE_BROKER_RETAINED", "", "broker.retained", func(b *Settings) any { return b.Broker.Retained }, 10_000},
		{"TIDEMILL_BRIDGE_BROKER_RETAINED_SIZE", "", "broker.retained_size", func(b *Settings) any { return b.Broker.RetainedSize }, config.Size(64 << 20)},
	}
}
