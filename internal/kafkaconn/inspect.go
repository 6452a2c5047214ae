package kafkaconn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill/internal/preflight"
)

const (
	shortRetention = 24 * time.Hour // an outage over night must not lose what waits
	metadataBytes  = 4096           // of an offset commit: the most that books and early settlements need
)

// Inspect checks the brokers and topics: whether waiting events survive the loss of a broker,
// and how long they may wait before they are deleted unread. An error while reading is a
// finding too.
func (c *Cluster) Inspect(ctx context.Context, client *kgo.Client, topics ...string) []preflight.Finding {
	i := &inspection{admin: kadm.NewClient(client)}
	if c.user != "" && c.mechanism == "plain" && !c.tls {
		i.warn("password", "it is sent readable for everybody on the way", "use kafka+tls:// or sasl=scram-sha-512")
	}
	brokers, err := i.admin.BrokerMetadata(ctx)
	if err != nil {
		i.fail("brokers", err.Error(), "start them, or correct the address: nothing works without")
		return i.found
	}
	i.brokers(ctx, brokers)
	for _, i.topic = range topics {
		if i.topicThere(ctx) {
			i.topicSettings(ctx)
		}
	}
	i.offsets(ctx, brokers)
	return i.found
}

type inspection struct {
	admin *kadm.Client
	topic string
	found []preflight.Finding
}

func (i *inspection) add(check, verdict, detail, advice string) {
	i.found = append(i.found, preflight.Finding{Check: "kafka: " + check, Verdict: verdict, Detail: detail, Advice: advice})
}

func (i *inspection) ok(check, detail string)           { i.add(check, preflight.OK, detail, "") }
func (i *inspection) warn(check, detail, advice string) { i.add(check, preflight.Warn, detail, advice) }
func (i *inspection) fail(check, detail, advice string) { i.add(check, preflight.Fail, detail, advice) }

// unread reports a setting that could not be read.
func (i *inspection) unread(check string, err error) {
	i.warn(check, "cannot be read: "+err.Error(), "allow us to describe topics and brokers, or judge it yourself")
}

func (i *inspection) brokers(ctx context.Context, m kadm.Metadata) {
	detail := fmt.Sprintf("%d", len(m.Brokers))
	versions, err := i.admin.ApiVersions(ctx)
	for _, v := range versions.Sorted() {
		if v.Err == nil {
			detail += ", version " + v.VersionGuess()
			break
		}
	}
	if err != nil {
		i.unread("brokers", err)
		return
	}
	if len(m.Brokers) < 3 {
		i.warn("brokers", detail, "with fewer than three, one that fails stops everything or costs events")
		return
	}
	i.ok("brokers", detail)
}

// topicThere checks partitions and replicas; false: the topic does not exist.
func (i *inspection) topicThere(ctx context.Context) bool {
	check := "topic " + i.topic
	topics, err := i.admin.ListTopics(ctx, i.topic)
	if err != nil {
		i.unread(check, err)
		return false
	}
	t, ok := topics[i.topic]
	if !ok || t.Err != nil {
		detail := "it does not exist"
		if t.Err != nil {
			detail = t.Err.Error()
		}
		i.fail(check, detail, "create it: with as many partitions as instances will ever share the work, and three replicas")
		return false
	}
	replicas, down := 1<<30, 0
	for _, p := range t.Partitions {
		replicas = min(replicas, len(p.Replicas))
		if p.Err != nil || len(p.ISR) < len(p.Replicas) {
			down++
		}
	}
	i.ok(check, fmt.Sprintf("%d partitions", len(t.Partitions)))
	switch detail := fmt.Sprintf("replication factor %d", replicas); {
	case replicas < 2:
		i.fail(check+" replicas", detail, "the loss of one broker's disk is the loss of what waits there: use three replicas")
	case down > 0:
		i.warn(check+" replicas", fmt.Sprintf("%s, and %d partitions are behind on some", detail, down), "bring all brokers back")
	default:
		i.ok(check+" replicas", detail)
	}
	return true
}

func (i *inspection) topicSettings(ctx context.Context) {
	check := "topic " + i.topic
	all, err := i.admin.DescribeTopicConfigs(ctx, i.topic)
	set, err := settings(all, err)
	if err != nil {
		i.unread(check+" settings", err)
		return
	}
	if v := set["min.insync.replicas"]; v == "1" || v == "" {
		i.warn(check+" min.insync.replicas", or(v, "not known"), "at 2, no event is acknowledged that one broker alone has")
	} else {
		i.ok(check+" min.insync.replicas", v)
	}
	if v := set["unclean.leader.election.enable"]; v != "false" {
		i.fail(check+" unclean.leader.election.enable", or(v, "not known"), "set it to false: a broker that lags behind would take over and events would be gone")
	} else {
		i.ok(check+" unclean.leader.election.enable", v)
	}
	if v := set["cleanup.policy"]; v != "delete" {
		i.fail(check+" cleanup.policy", or(v, "not known"), "set it to delete: compaction removes events that nobody has read")
	} else {
		i.ok(check+" cleanup.policy", v)
	}
	i.retention(check, set)
}

// retention checks how long unread events may wait.
func (i *inspection) retention(check string, set map[string]string) {
	ms, err := strconv.ParseInt(set["retention.ms"], 10, 64)
	switch age := time.Duration(ms) * time.Millisecond; {
	case err != nil:
		i.unread(check+" retention.ms", err)
	case ms < 0 || ms > int64(shortRetention/time.Millisecond)*36500:
		i.ok(check+" retention.ms", "for ever")
	case age < shortRetention:
		i.warn(check+" retention.ms", age.String(), "what waits longer is deleted, read or not: raise it above the longest outage, a day at the least")
	default:
		i.ok(check+" retention.ms", age.String())
	}
	if v := set["retention.bytes"]; v != "-1" && v != "" {
		i.warn(check+" retention.bytes", v, "a backlog that grows larger is deleted from its old end, read or not: set it to -1")
	} else {
		i.ok(check+" retention.bytes", "no limit")
	}
}

// offsets checks where the group's position and books are kept.
func (i *inspection) offsets(ctx context.Context, m kadm.Metadata) {
	topics, err := i.admin.ListTopicsWithInternal(ctx, "__consumer_offsets")
	if t, ok := topics["__consumer_offsets"]; err == nil && ok && t.Err == nil && len(t.Partitions) > 0 {
		replicas := 1 << 30
		for _, p := range t.Partitions {
			replicas = min(replicas, len(p.Replicas))
		}
		if detail := fmt.Sprintf("replication factor %d", replicas); replicas < 2 {
			i.warn("offsets topic", detail, "with the disk of its one broker the books and positions of all groups are gone, and everything is read again: use three replicas")
		} else {
			i.ok("offsets topic", detail)
		}
	}
	if len(m.Brokers) == 0 {
		return
	}
	all, err := i.admin.DescribeBrokerConfigs(ctx, m.Brokers[0].NodeID)
	set, err := settings(all, err)
	if err != nil {
		i.unread("offset settings", err)
		return
	}
	if n, err := strconv.Atoi(set["offset.metadata.max.bytes"]); err != nil || n < metadataBytes {
		i.fail("offset.metadata.max.bytes", or(set["offset.metadata.max.bytes"], "not known"), fmt.Sprintf("set it to %d or more: the books are kept there", metadataBytes))
	} else {
		i.ok("offset.metadata.max.bytes", strconv.Itoa(n))
	}
	if n, err := strconv.Atoi(set["offsets.retention.minutes"]); err == nil {
		kept := time.Duration(n) * time.Minute
		if kept < shortRetention {
			i.warn("offsets.retention.minutes", kept.String(), "a group that nobody runs for longer forgets its position and reads everything again: raise it")
		} else {
			i.ok("offsets.retention.minutes", kept.String())
		}
	}
}

// settings are those of the one topic or broker in the request.
func settings(all kadm.ResourceConfigs, err error) (map[string]string, error) {
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1:
		return nil, fmt.Errorf("%d answers to one question", len(all))
	case all[0].Err != nil:
		return nil, all[0].Err
	}
	set := make(map[string]string, len(all[0].Configs))
	for _, c := range all[0].Configs {
		set[c.Key] = c.MaybeValue()
	}
	return set, nil
}

func or(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}
