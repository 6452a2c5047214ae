package redisconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/preflight"
)

// Inspect reads version and durability settings of every master and checks whether acknowledged
// events are safe there. An error while reading is a finding too.
func Inspect(ctx context.Context, client rueidis.Client) []preflight.Finding {
	nodes := client.Nodes()
	var all []preflight.Finding
	masters := 0
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		i := inspection{}
		if len(nodes) > 1 {
			i.where = " " + addr
		}
		if err := i.read(ctx, nodes[addr]); err != nil {
			i.add("connection", preflight.Fail, Error(err, "read its settings").Error(), "is it up, and may this user run INFO?")
		} else if i.info["role"] != "master" && len(nodes) > 1 {
			continue // its master is checked
		} else {
			i.judge()
		}
		masters++
		all = append(all, i.findings...)
	}
	if masters == 0 {
		all = append(all, preflight.Finding{Check: "redis: role", Verdict: preflight.Fail, Detail: "no master was found", Advice: "promote a replica"})
	}
	return all
}

// inspection has the findings of one server.
type inspection struct {
	where    string // which one, if there are several
	info     map[string]string
	config   map[string]string
	refused  error // why CONFIG GET did not answer
	findings []preflight.Finding
}

func (i *inspection) add(check, verdict, detail, advice string) {
	i.findings = append(i.findings, preflight.Finding{Check: "redis" + i.where + ": " + check, Verdict: verdict, Detail: detail, Advice: advice})
}

func (i *inspection) read(ctx context.Context, c rueidis.Client) error {
	text, err := c.Do(ctx, c.B().Arbitrary("INFO").Build()).ToString()
	if err != nil {
		return err
	}
	i.info = map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			i.info[name] = value
		}
	}
	names := []string{"appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write", "min-replicas-max-lag"}
	i.config, i.refused = c.Do(ctx, c.B().ConfigGet().Parameter(names...).Build()).AsStrMap()
	if e, ok := errors.AsType[*rueidis.RedisError](i.refused); i.refused != nil && !ok {
		return i.refused
	} else if ok && e.IsNil() {
		i.refused = nil
	}
	return nil
}

func (i *inspection) judge() {
	i.version()
	i.role()
	if i.refused != nil {
		i.add("settings", preflight.Warn, "CONFIG GET is refused: "+i.refused.Error(),
			"allow it (ACL: +config|get), or make sure by other means that appendonly is on and maxmemory-policy is noeviction")
	}
	i.durability()
	i.memory()
}

// Versions before 7.0 lack what streams need here: the ids of deleted entries in the
// answer of XAUTOCLAIM, entries-added and lag. 7.0.5 repairs the heap overflows of XAUTOCLAIM,
// CVE-2022-31144 and CVE-2022-35951.
func (i *inspection) version() {
	v := i.info["redis_version"]
	if s := i.info["valkey_version"]; s != "" {
		i.add("version", preflight.OK, "Valkey "+s, "")
		return
	}
	switch n, ok := parseVersion(v); {
	case !ok:
		i.add("version", preflight.Warn, fmt.Sprintf("version %q is not understood", v), "use Redis 7.0.5 or newer, or Valkey")
	case n < 7_00_00:
		i.add("version", preflight.Fail, "Redis "+v, "streams need Redis 7.0 or newer: upgrade, best to 7.0.5 or newer")
	case n < 7_00_05:
		i.add("version", preflight.Warn, "Redis "+v, "upgrade to 7.0.5 or newer: CVE-2022-31144 and CVE-2022-35951")
	default:
		i.add("version", preflight.OK, "Redis "+v, "")
	}
}

// parseVersion reads 7.0.15 as 70015.
func parseVersion(v string) (n int, ok bool) {
	parts := strings.SplitN(v, ".", 3)
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	for _, p := range parts {
		digits := strings.TrimRightFunc(p, func(r rune) bool { return r < '0' || r > '9' })
		m, err := strconv.Atoi(digits)
		if err != nil || m > 99 {
			return 0, false
		}
		n = n*100 + m
	}
	return n, true
}

func (i *inspection) role() {
	if i.info["role"] != "master" {
		i.add("role", preflight.Fail, "it is a replica of "+i.info["master_host"]+":"+i.info["master_port"],
			"connect to the master, or use redis+sentinel:// to find it")
		return
	}
	detail := "master with " + i.info["connected_slaves"] + " replicas"
	if n := i.config["min-replicas-to-write"]; n != "" && n != "0" {
		detail += "; it writes only while " + n + " of them are at most " + i.config["min-replicas-max-lag"] + " s behind"
	} else if i.info["connected_slaves"] != "0" && i.refused == nil {
		detail += "; it writes without them too (min-replicas-to-write 0), so a failover can lose the newest events"
	}
	i.add("role", preflight.OK, detail, "")
}

func (i *inspection) durability() {
	on, fsync := i.info["aof_enabled"] == "1", i.config["appendfsync"]
	switch {
	case i.info["aof_enabled"] == "" && i.config["appendonly"] == "":
		i.add("appendonly", preflight.Warn, "it does not say whether it has an append-only file", "make sure that it persists every write")
	case !on && i.config["appendonly"] != "yes":
		i.add("appendonly", preflight.Fail, "no: a crash of Redis loses everything since the last snapshot", "set appendonly yes")
	case fsync == "always":
		i.add("appendonly", preflight.OK, "yes, every write is synced before its answer", "")
	case fsync == "everysec":
		detail := "yes, synced every second: a machine's power loss can cost one second, and a crash of Redis two where its disk is slow"
		if n := i.info["aof_delayed_fsync"]; n != "" && n != "0" {
			detail += "; it had to wait for its disk " + n + " times"
		}
		i.add("appendonly", preflight.OK, detail, "")
	case fsync == "no":
		i.add("appendonly", preflight.Warn, "yes, but synced when the operating system likes: a machine's power loss can cost half a minute", "set appendfsync everysec")
	default:
		i.add("appendonly", preflight.OK, "yes; how often it is synced cannot be read", "")
	}
	if s := i.info["aof_last_write_status"]; s != "" && s != "ok" {
		i.add("appendonly", preflight.Fail, "its last write failed", "look into Redis's log; is its disk full?")
	}
}

// nearly is how full a Redis may be before a warning.
const nearly = 0.8

func (i *inspection) memory() {
	policy := i.info["maxmemory_policy"]
	if policy == "" {
		policy = i.config["maxmemory-policy"]
	}
	switch policy {
	case "noeviction":
		i.add("maxmemory-policy", preflight.OK, policy, "")
	case "":
		i.add("maxmemory-policy", preflight.Warn, "it cannot be read", "make sure that it is noeviction")
	default:
		i.add("maxmemory-policy", preflight.Fail, policy+": when memory is short, Redis throws keys away", "set maxmemory-policy noeviction")
	}
	most, _ := strconv.ParseFloat(i.info["maxmemory"], 64)
	used, _ := strconv.ParseFloat(i.info["used_memory"], 64)
	switch {
	case most == 0 && used == 0:
		i.add("maxmemory", preflight.Warn, "how much memory it uses cannot be read", "")
	case most == 0:
		i.add("maxmemory", preflight.OK, fmt.Sprintf("no limit; %.0f MiB used", used/(1<<20)), "")
	case used > nearly*most:
		i.add("maxmemory", preflight.Warn, fmt.Sprintf("%.0f of %.0f MiB used: when it is full, nothing is accepted", used/(1<<20), most/(1<<20)),
			"raise maxmemory, or let the backlog drain")
	default:
		i.add("maxmemory", preflight.OK, fmt.Sprintf("%.0f of %.0f MiB used", used/(1<<20), most/(1<<20)), "")
	}
}
