package bridgeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
)

var schema = config.Schema{Group}

func file(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

var box = config.Machine{Host: "box", PID: 42}

func load(t *testing.T, l config.Layers) *config.Loaded {
	t.Helper()
	l.Machine = box
	c, err := schema.Load(l)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// entry is a YAML file with one setting of the bridge.
func entry(t *testing.T, path, text string) string {
	t.Helper()
	group, name, _ := strings.Cut(path, ".")
	return file(t, fmt.Sprintf("bridge:\n  %s:\n    %s: %q\n", group, name, text))
}

// samples are three values of a row as they are written, and what is read.
func (r bridgeRow) samples(t *testing.T) (texts [3]string, wants [3]any) {
	t.Helper()
	switch v := r.otherwise.(type) {
	case time.Duration:
		return [3]string{"7s", "1500ms", "2m"}, [3]any{7 * time.Second, 1500 * time.Millisecond, 2 * time.Minute}
	case int:
		return [3]string{"7", "11", "13"}, [3]any{7, 11, 13}
	case float64:
		return [3]string{"7", "0.25", "1e1"}, [3]any{7.0, 0.25, 10.0}
	case bool:
		return [3]string{strconv.FormatBool(!v), strconv.FormatBool(v), strconv.FormatBool(!v)}, [3]any{!v, v, !v}
	case []string:
		return [3]string{"a:1", "b:2,c:3", "d:4, ,e:5"}, [3]any{[]string{"a:1"}, []string{"b:2", "c:3"}, []string{"d:4", "e:5"}}
	case []int:
		return [3]string{"3", "0,2", "1-3 5"}, [3]any{[]int{3}, []int{0, 2}, []int{1, 2, 3, 5}}
	case []float64:
		return [3]string{"1", "0.1,2", "0.5 1 2.5"}, [3]any{[]float64{1}, []float64{0.1, 2}, []float64{0.5, 1, 2.5}}
	case config.Size:
		return [3]string{"1MiB", "65536", "7KiB"}, [3]any{config.Size(1 << 20), config.Size(65536), config.Size(7 << 10)}
	case tidemill.Secret:
		return [3]string{"one", "two", "three"}, [3]any{tidemill.NewSecret("one"), tidemill.NewSecret("two"), tidemill.NewSecret("three")}
	case string:
		if r.env == "LOG_LEVEL" { // names log.level, too, which is always checked
			return [3]string{"trace", "fatal", "panic"}, [3]any{"trace", "fatal", "panic"}
		}
		return [3]string{"one", "two words", "three"}, [3]any{"one", "two words", "three"}
	}
	t.Fatalf("%s: a default of type %T", r.env, r.otherwise)
	return texts, wants
}

func TestEverySettingOfTheBridgeInEveryLayer(t *testing.T) {
	for _, r := range append(bridgeTable(), bridgeAdditions()...) {
		check := func(how string, l config.Layers, want any) {
			t.Helper()
			c := load(t, l)
			if got := r.get(Of(c)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s by %s: %#v, want %#v", r.env, how, got, want)
			}
			if err := Of(c).Check(); err != nil {
				for line := range strings.Lines(err.Error()) {
					if !strings.Contains(line, " (from ") { // else it was read, and is not within its limits
						t.Errorf("%s by %s: %s", r.env, how, line)
					}
				}
			}
		}
		texts, wants := r.samples(t)
		inFile, inEnv, inFlag := entry(t, r.file, texts[0]), env(map[string]string{r.env: texts[1]}), map[string]string{"bridge." + r.file: texts[2]}
		check("default", config.Layers{}, r.otherwise)
		check("an empty variable", config.Layers{Getenv: env(map[string]string{r.env: ""})}, r.otherwise)
		check("file", config.Layers{File: inFile}, wants[0])
		check("environment", config.Layers{Getenv: inEnv}, wants[1])
		check("environment over file", config.Layers{File: inFile, Getenv: inEnv}, wants[1])
		check("flag", config.Layers{Flags: inFlag}, wants[2])
		check("flag over file", config.Layers{File: inFile, Flags: inFlag}, wants[2])
		check("flag over file and environment", config.Layers{File: inFile, Getenv: inEnv, Flags: inFlag}, wants[2])
	}
}

// TestANumberAloneHasTheUnitOfTheFlag sets every time without a unit.
func TestANumberAloneHasTheUnitOfTheFlag(t *testing.T) {
	n := 0
	for _, r := range append(bridgeTable(), bridgeAdditions()...) {
		if _, ok := r.otherwise.(time.Duration); !ok {
			continue
		}
		n++
		want := 250 * time.Second
		if slices.Contains([]string{"APP_PENDING_OPS_GRACE", "PIPELINE_FLUSH_INTERVAL", "PIPELINE_IDLE_POLL_SLEEP"}, r.env) {
			want = 250 * time.Millisecond
		}
		for how, l := range map[string]config.Layers{
			"file": {File: entry(t, r.file, "250")}, "environment": {Getenv: env(map[string]string{r.env: "250"})}, "flag": {Flags: map[string]string{"bridge." + r.file: "250"}},
		} {
			if c := load(t, l); r.get(Of(c)) != want {
				t.Errorf("%s=250 by %s: %v, want %v", r.env, how, r.get(Of(c)), want)
			}
		}
		c := load(t, config.Layers{Getenv: env(map[string]string{r.env: "9223372036854775807"})})
		if err := Of(c).Check(); r.get(Of(c)) != r.otherwise || err == nil || want == 250*time.Second && !strings.Contains(err.Error(), r.env+`: "9223372036854775807" is too long a time`) {
			t.Errorf("%s too long: %v, %v", r.env, r.get(Of(c)), err)
		}
	}
	if n < 30 {
		t.Errorf("only %d settings are times", n)
	}
}

// TestTheTableIsWhole compares the table with the struct: names of flags and variables,
// nothing missing on either side.
func TestTheTableIsWhole(t *testing.T) {
	rows := map[string]bridgeRow{}
	for _, r := range append(bridgeTable(), bridgeAdditions()...) {
		rows["bridge."+r.file] = r
	}
	for _, f := range schema.Reference() {
		if !strings.HasPrefix(f.Path, "bridge.") {
			continue
		}
		r, ok := rows[f.Path]
		if !ok {
			t.Errorf("%s is in the struct and not in the table", f.Path)
			continue
		}
		delete(rows, f.Path)
		if !slices.Contains(f.Env, r.env) || f.Flag != r.flag {
			t.Errorf("%s has the variables %v and the flag %q, want %s and %q", f.Path, f.Env, f.Flag, r.env, r.flag)
		}
		if f.Help == "" || strings.ContainsAny(f.Help, "\"$") || strings.HasSuffix(f.Help, ".") {
			t.Errorf("%s: the help %q cannot be", f.Path, f.Help)
		}
	}
	for path := range rows {
		t.Errorf("%s is in the table and not in the struct", path)
	}
}

func TestTheBridgeIsEmbeddedUntilAServerIsGiven(t *testing.T) {
	for _, c := range []struct {
		name string
		l    config.Layers
		want bool
	}{
		{"nothing is given", config.Layers{}, true},
		{"everything else is given", config.Layers{Getenv: env(map[string]string{"REDIS_DB": "1", "MQTT_QOS": "1", "REDIS_STREAM": "s"})}, true},
		{"the variables are empty", config.Layers{Getenv: env(map[string]string{"REDIS_ADDRESSES": "", "MQTT_BROKERS": ""})}, true},
		{"the entries of the file are empty", config.Layers{File: file(t, "bridge:\n  redis:\n    addresses:\n  mqtt:\n    brokers: null\n")}, true},
		{"a variable says the default", config.Layers{Getenv: env(map[string]string{"REDIS_ADDRESSES": "localhost:6379"})}, false},
		{"the other variable says the default", config.Layers{Getenv: env(map[string]string{"MQTT_BROKERS": "tcp://localhost:1883"})}, false},
		{"a flag", config.Layers{Flags: map[string]string{"bridge.redis.addresses": "r:1"}}, false},
		{"the other flag", config.Layers{Flags: map[string]string{"bridge.mqtt.brokers": "tcp://m:1"}}, false},
		{"an entry of the file", config.Layers{File: file(t, "bridge:\n  redis:\n    addresses: [r:1, r:2]\n")}, false},
		{"the other entry of the file", config.Layers{File: file(t, "bridge:\n  mqtt:\n    brokers: tcp://m:1\n")}, false},
	} {
		l := load(t, c.l)
		if got := Of(l).Embedded(); got != c.want {
			t.Errorf("%s: Embedded() = %v, want %v", c.name, got, c.want)
		}
		if len(Of(l).Redis.Addresses) == 0 || len(Of(l).MQTT.Brokers) == 0 || Of(l).Health.Port != 8080 || Of(l).Metrics.Port != 9090 {
			t.Errorf("%s: the defaults do not hold for the rest: %v %v", c.name, Of(l).Redis.Addresses, Of(l).MQTT.Brokers)
		}
	}
}

func TestWhatTheMachineDecides(t *testing.T) {
	m := config.Machine{CPUs: 6, Host: "box", PID: 42}
	c, err := schema.Load(config.Layers{Machine: m})
	if err != nil {
		t.Fatal(err)
	}
	if r := &Of(c).Redis; Of(c).Resource.MaxWorkers != 24 || r.PoolSize != 60 || r.MinIdleConns != 6 || Of(c).MQTT.ClientID != "syslog-consumer-box-42" {
		t.Errorf("workers %d, pool %d, idle %d, client id %s", Of(c).Resource.MaxWorkers, r.PoolSize, r.MinIdleConns, Of(c).MQTT.ClientID)
	}
	// A rule may be given, too: the file that init writes has them.
	for text, want := range map[string]int{"CPUs × 2": 12, "CPUs*3": 18, "CPUs x 1": 6, "CPUs": 6, "9": 9} {
		c, err := schema.Load(config.Layers{Machine: m, Getenv: env(map[string]string{"RESOURCE_MAX_WORKERS": text, "MQTT_CLIENT_ID": "<pid>@<host>"})})
		if err != nil || Of(c).Resource.MaxWorkers != want || Of(c).MQTT.ClientID != "42@box" {
			t.Errorf("%s: %d workers, %s, %v; want %d", text, Of(c).Resource.MaxWorkers, Of(c).MQTT.ClientID, err, want)
		}
	}
	for _, text := range []string{"CPUs ×", "CPUs / 2", "CPUs × many", "CPUs × -1"} {
		c := load(t, config.Layers{Getenv: env(map[string]string{"RESOURCE_MAX_WORKERS": text})})
		if Of(c).Check() == nil {
			t.Errorf("%s was taken as %d", text, Of(c).Resource.MaxWorkers)
		}
	}
	// Other settings know no rules.
	if c := load(t, config.Layers{Getenv: env(map[string]string{"APP_NAME": "<host>"})}); Of(c).App.Name != "<host>" {
		t.Errorf("the name is %s", Of(c).App.Name)
	}
	// The reference has the rule, the configuration shown what it makes here.
	var ref, shown strings.Builder
	if err := schema.WriteReference(&ref); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(&shown); err != nil {
		t.Fatal(err)
	}
	for text, in := range map[string]*strings.Builder{
		"    #max_workers: CPUs × 4\n": &ref, "    #client_id: \"syslog-consumer-<host>-<pid>\"\n": &ref, "    #addresses: \"localhost:6379\"\n": &ref, "    # flag: --redis-addr\n": &ref,
		"    max_workers: 24\n": &shown, "    client_id: syslog-consumer-box-42\n": &shown, "    addresses: \"localhost:6379\"\n": &shown,
	} {
		if !strings.Contains(in.String(), text) {
			t.Errorf("%q is missing in\n%s", text, in)
		}
	}
}

func TestTheFileThatInitWritesLeavesTheBridgeEmbedded(t *testing.T) {
	var b strings.Builder
	if err := schema.WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	c := load(t, config.Layers{File: file(t, b.String())})
	if err := Of(c).Check(); err != nil {
		t.Errorf("its bridge would not start: %v", err)
	}
	if !Of(c).Embedded() || c.LogOf([]string{"bridge"}) != (config.Log{Level: "info", Format: "text"}) {
		t.Errorf("embedded: %v, log: %+v", Of(c).Embedded(), c.LogOf([]string{"bridge"}))
	}
	for _, f := range c.Fields() {
		if strings.HasPrefix(f.Path, "bridge.") && c.Given(f.Path) {
			t.Errorf("%s is given", f.Path)
		}
	}
	// Without the signs that comment settings out it is the same configuration.
	whole := load(t, config.Layers{File: file(t, regexp.MustCompile(`(?m)^( +)#(\w)`).ReplaceAllString(b.String(), "$1$2"))})
	if err := Of(whole).Check(); err != nil || Of(whole).Embedded() || !whole.Given("bridge.metrics.port") {
		t.Errorf("with its bridge's settings: %v", err)
	}
	without := load(t, config.Layers{})
	for i, want := range without.Fields() {
		if f, g := c.Fields()[i], whole.Fields()[i]; f.String() != want.String() || g.String() != want.String() {
			t.Errorf("%s = %s, and given %s, want %s", want.Path, f.String(), g.String(), want.String())
		}
	}
}

func TestTheBufferIsAPowerOfTwo(t *testing.T) {
	for size, want := range map[int]int{1: 1, 2: 2, 3: 4, 1000: 1024, 1024: 1024, 1025: 2048, 1048576: 1048576, 4294967295: 4294967296} {
		c := load(t, config.Layers{Getenv: env(map[string]string{"PIPELINE_BUFFER_SIZE": strconv.Itoa(size), "PIPELINE_BATCH_SIZE": "1"})})
		if err := Of(c).Check(); err != nil || Of(c).Pipeline.Capacity() != want {
			t.Errorf("a buffer of %d: %d, %v; want %d", size, Of(c).Pipeline.Capacity(), err, want)
		}
	}
}

func TestEmptyTextsInTheEnvironment(t *testing.T) {
	c := load(t, config.Layers{Getenv: env(map[string]string{"MQTT_SUBSCRIBE_TOPIC": `""`})})
	if err := Of(c).Check(); err != nil || Of(c).MQTT.SubscribeTopic != "" {
		t.Errorf("acknowledgments from %q, %v; want none", Of(c).MQTT.SubscribeTopic, err)
	}
	c = load(t, config.Layers{Flags: map[string]string{"bridge.mqtt.subscribe_topic": ""}})
	if err := Of(c).Check(); err != nil || Of(c).MQTT.SubscribeTopic != "" {
		t.Errorf("acknowledgments from %q, %v; want none", Of(c).MQTT.SubscribeTopic, err)
	}
}

func TestThePrefixOfMetrics(t *testing.T) {
	for subsystem, want := range map[string]string{"": "syslog_consumer", "edge": "syslog_consumer_edge"} {
		c := load(t, config.Layers{Getenv: env(map[string]string{"METRICS_SUBSYSTEM": subsystem})})
		if got := Of(c).Metrics.Prefix(); got != want {
			t.Errorf("subsystem %q: %s, want %s", subsystem, got, want)
		}
	}
}
