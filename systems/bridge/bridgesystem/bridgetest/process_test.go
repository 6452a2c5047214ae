//go:build unix

package bridgetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/process"
)

var ofProcess = []scenario{
	{"the log", []string{"APP_NAME", "APP_ENV", "LOG_LEVEL", "LOG_FORMAT"}, logging},
	{"how long a stop may take", []string{"APP_SHUTDOWN_TIMEOUT"}, shutdown},
	{"acks that come during a stop", []string{"APP_PENDING_OPS_GRACE"}, grace},
	{"the processors of the process", []string{"PIPELINE_CPU_AFFINITY"}, affinity},
	{"memory that is made at the start", []string{"PIPELINE_PREALLOCATE"}, preallocate},
}

// binary starts the real program with these settings, for r's stream and broker.
func (g *given) binary(t *testing.T, settings env, args ...string) (*rig, *process.Instance) {
	t.Helper()
	r := g.prepare(t, settings)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.env)) {
		list = append(list, name+"="+r.env[name])
	}
	in := process.New(t, append([]string{"bridge"}, args...), list)
	in.Start()
	return r, in
}

func logging(t *testing.T, g *given) {
	_, in := g.binary(t, env{"APP_NAME": "my-bridge", "APP_ENV": "staging", "LOG_LEVEL": "info", "LOG_FORMAT": "json", "PIPELINE_NUMA_AWARE": "true"})
	found := false
	eventually(t, "something is logged", func() bool { return strings.Contains(in.Log(), "PIPELINE_NUMA_AWARE") })
	for line := range strings.Lines(in.Log()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q is no JSON: %v", line, err)
		}
		if l["setting"] == "PIPELINE_NUMA_AWARE" {
			found = l["app"] == "my-bridge" && l["env"] == "staging"
		}
	}
	if !found {
		t.Errorf("name and environment are not in the log:\n%s", in.Log())
	}
	_, in = g.binary(t, env{"LOG_LEVEL": "error", "LOG_FORMAT": "text", "PIPELINE_NUMA_AWARE": "true"})
	if err := in.Stop(limit); err != nil {
		t.Fatal(err)
	}
	if in.Log() != "" {
		t.Errorf("it logs below its level:\n%s", in.Log())
	}
	_, in = g.binary(t, env{"LOG_LEVEL": "warn", "LOG_FORMAT": "text", "PIPELINE_NUMA_AWARE": "true"})
	eventually(t, "the warning is there", func() bool {
		return strings.Contains(in.Log(), "level=WARN") && strings.Contains(in.Log(), "setting=PIPELINE_NUMA_AWARE")
	})
	if strings.Contains(in.Log(), "level=INFO") {
		t.Errorf("it logs below its level:\n%s", in.Log())
	}
}

func shutdown(t *testing.T, g *given) {
	stops := func(d string) time.Duration {
		r := g.prepare(t, env{"APP_SHUTDOWN_TIMEOUT": d, "PIPELINE_PROCESSING_TIMEOUT": "1h", "REDIS_BLOCK_TIME": "50ms"})
		r.broker.set(func() { r.broker.silent = true })
		r.run()
		r.add(5)
		eventually(t, "something is under way", func() bool { return len(r.broker.messages()) > 0 })
		began := time.Now()
		_ = r.stop() // it may say that not all ended
		took := time.Since(began)
		if n := r.length(); n != 5 {
			t.Errorf("%d of 5 entries are left, though nobody acknowledged them", n)
		}
		return took
	}
	short, long := stops("1s"), stops("7s") // and a second for the broker that does not answer our good-bye
	if short < 900*time.Millisecond || short > 6*time.Second || long < 6900*time.Millisecond {
		t.Errorf("stops took %v and %v, want 1s and 7s, and little more", short, long)
	}
}

func grace(t *testing.T, g *given) {
	left := func(d string) int {
		r := g.start(t, env{"APP_PENDING_OPS_GRACE": d, "APP_SHUTDOWN_TIMEOUT": "10s", "REDIS_BLOCK_TIME": "50ms", "MQTT_SUBSCRIBE_TOPIC": "acks"})
		r.add(10)
		eventually(t, "all is published", func() bool { return r.broker.distinct() == 10 })
		late := time.AfterFunc(700*time.Millisecond, func() {
			for _, p := range r.broker.messages() {
				r.broker.say(yes(p.ID()))
			}
		})
		defer late.Stop()
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		return r.length()
	}
	if n := left("3s"); n != 0 {
		t.Errorf("%d entries are left, though their acks came within the grace", n)
	}
	if n := left("0s"); n != 10 {
		t.Errorf("%d entries are left: acks were waited for", n)
	}
}

// allowed are the processors that each thread of a process may use.
func allowed(t *testing.T, pid int) (lists []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("threads of %d: %v", pid, err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // threads come and go
		_, rest, found := strings.Cut(string(b), "Cpus_allowed_list:")
		if list, _, _ := strings.Cut(rest, "\n"); found && !slices.Contains(lists, strings.TrimSpace(list)) {
			lists = append(lists, strings.TrimSpace(list))
		}
	}
	return lists
}

func affinity(t *testing.T, g *given) {
	testenv.Need(t)
	ours := allowed(t, os.Getpid())[0]
	first := ours[:strings.IndexAny(ours+",", ",-")]
	r, in := g.binary(t, env{"PIPELINE_CPU_AFFINITY": first, "LOG_LEVEL": "info"})
	if got := allowed(t, in.PID()); len(got) != 1 || got[0] != first {
		t.Errorf("threads may use the processors %q, want %s", got, first)
	}
	eventually(t, "that is said", func() bool { return strings.Contains(in.Log(), "keeps to some processors") })
	r.add(1)
	eventually(t, "it works", func() bool { return r.broker.distinct() == 1 })
	_, free := g.binary(t, env{"PIPELINE_CPU_AFFINITY": ""})
	if got := allowed(t, free.PID()); len(got) != 1 || got[0] != ours {
		t.Errorf("threads may use the processors %q, want %s", got, ours)
	}
	none := g.prepare(t, env{"PIPELINE_CPU_AFFINITY": "4095"})
	none.run() // best effort
	if len(none.log.lines("without effect", "PIPELINE_CPU_AFFINITY")) != 1 {
		t.Errorf("nothing is said of a processor that there is not:\n%s", none.log)
	}
}

func preallocate(t *testing.T, g *given) {
	heap := func(on string) float64 {
		_, in := g.binary(t, env{"PIPELINE_PREALLOCATE": on, "RESOURCE_MAX_WORKERS": "50", "PIPELINE_BATCH_SIZE": "2000", "PIPELINE_DROP_POLICY": "none"})
		_, page := fetch("http://" + in.Addr + "/metrics")
		return metricIn(page, "go_memstats_heap_sys_bytes")
	}
	with, without := heap("true"), heap("false")
	if with < without+10e6 {
		t.Errorf("%.0f MB are made at the start, and %.0f without", with/1e6, without/1e6)
	}
}

// cpuOf is what all threads of a process have used, in time on a processor.
func cpuOf(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if len(files) == 0 {
		t.Fatalf("process %d has no threads", pid)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		ns, _, _ := strings.Cut(string(b), " ")
		n, _ := strconv.ParseInt(ns, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}
