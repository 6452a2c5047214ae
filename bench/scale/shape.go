package scale

import (
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/bench/load"
)

// shape is a system on its servers.
type shape struct {
	of        string // names of the system and of its servers
	system    load.System
	servers   []string // by their names in scripts/services
	instances int
	more      string   // what else the row's name says
	settings  []string // in the form of the environment
}

func (s *shape) name() string {
	n := fmt.Sprint(s.of, ": ", s.instances, " instance")
	if s.instances > 1 {
		n += "s"
	}
	return n + s.more
}

// shapes are all that are measured. The first of a system is what its others are compared with.
func shapes() (all []*shape) {
	add := func(of, system string, servers []string, more string, settings []string, instances ...int) {
		i := slices.IndexFunc(load.Systems, func(s load.System) bool { return s.Name == system })
		for _, n := range instances {
			all = append(all, &shape{of: of, system: load.Systems[i], servers: servers, instances: n, more: more, settings: settings})
		}
	}
	redis, cluster := []string{"redis"}, []string{"redis-cluster"}
	add("delivery, Redis", "delivery", redis, "", nil, 1, 2, 3)
	for _, shards := range []int{3, 12, 48} {
		add("delivery, Redis", "delivery", redis, fmt.Sprintf(", %d shards", shards), []string{fmt.Sprint("TIDEMILL_DELIVERY_SHARDS=", shards)}, 1)
	}
	add("delivery, Redis", "delivery", cluster, ", 12 shards, cluster of 3", []string{"TIDEMILL_DELIVERY_SHARDS=12"}, 1, 3)

	add("crm, Redis and PostgreSQL", "crm", []string{"redis", "postgres"}, "", nil, 1, 2, 3)
	add("crm, Redis and PostgreSQL", "crm", []string{"redis-cluster", "postgres"}, ", 12 shards, cluster of 3", []string{"TIDEMILL_CRM_SHARDS=12"}, 3)

	add("analytics, Redis, PostgreSQL and ClickHouse", "analytics", []string{"redis", "postgres", "clickhouse"}, "", nil, 1, 2, 3)
	for _, partitions := range []int{3, 12, 48} {
		add("analytics, Kafka, PostgreSQL and ClickHouse", "analytics", []string{"kafka", "postgres", "clickhouse"}, fmt.Sprintf(", %d partitions", partitions), inPartitions(partitions), 1, 3)
	}

	for _, partitions := range []int{3, 12, 48} {
		add("windows, Kafka and Redis", "windows", []string{"kafka", "redis"}, fmt.Sprintf(", %d partitions", partitions), inPartitions(partitions), 1, 3)
	}
	add("windows, Kafka and Redis", "windows", []string{"kafka", "redis-cluster"}, ", 12 partitions, 12 shards, cluster of 3", append(inPartitions(12), "TIDEMILL_WINDOWS_SHARDS=12"), 3)

	add("bridge, Redis and MQTT", "bridge", []string{"redis", "mosquitto"}, "", nil, 1, 2, 3)
	return all
}

// inPartitions are the settings by which every topic has so many.
func inPartitions(n int) []string {
	all := []string{"TIDEMILL_WINDOWS_SEARCH_ENABLED=false"}
	for _, variable := range []string{"TIDEMILL_KAFKA_PARTITIONS", "KAFKA_TOPIC_DLQ_CONNECT_EVENT_PARTITIONS", "KAFKA_TOPIC_DLQ_CONNECT_MENTION_PARTITIONS"} {
		all = append(all, fmt.Sprint(variable, "=", n))
	}
	return all
}
