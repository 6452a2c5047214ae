package windowsconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/windows/record"
)

var schema = config.Schema{Group}

func load(t *testing.T, text string, vars map[string]string) *Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := schema.Load(config.Layers{File: path, Getenv: func(name string) string { return vars[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return Of(c)
}

func TestWindowsTakeTheVariablesOfTheProgramThatTheyReplace(t *testing.T) {
	w := load(t, "", map[string]string{
		"BATCH_PROCESSING_WINDOW_MS": "90000", "RETRY_MAX_ATTEMPTS": "7", "RETRY_INTERVAL": "2500", "SERVICE_NAME": "gdelt",
		"KAFKA_BOOTSTRAP_SERVERS": "one:9092", "KAFKA_TOPIC_ADAPTER_EVENT": "gdelt-adapter-event-topic", "KAFKA_TOPIC_DLQ_CONNECT_MENTION_PARTITIONS": "5",
		"SPRING_DATA_REDIS_HOST": "cache", "SPRING_DATA_REDIS_PASSWORD": "p@ss", "SPRING_DATA_REDIS_DATABASE": "3"})
	if w.Window != 90*time.Second || w.Retry != (Retry{7, 2500 * time.Millisecond}) || w.Service != "gdelt" || w.Topics.AdapterEvent != "gdelt-adapter-event-topic" ||
		w.Topics.IndexDead.MentionPartitions != 5 || w.Topics.AdapterMention != "adapter-mention" {
		t.Errorf("%+v", w)
	}
	if got := string(w.RedisURL()); got != "redis://:p%40ss@cache:6379/3" {
		t.Errorf("Redis %s", got)
	}
	if w.Brokers() != "one:9092" || w.c.Kafka.Brokers != "" || w.c.Redis.URL != "" {
		t.Errorf("Kafka %q; that of others is %q, their Redis %q", w.Brokers(), w.c.Kafka.Brokers, w.c.Redis.URL)
	}
	if err := w.Check(); err != nil {
		t.Error(err)
	}
}

func TestDefaultAddressesOfWindowsDoNotCount(t *testing.T) {
	c := load(t, "", nil)
	if c.Configured() || c.Brokers() != "" || c.RedisURL() != "" || c.Given("server_port") {
		t.Errorf("without anything they are configured: %+v", c)
	}
	if err := c.Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, vars := range []map[string]string{{"KAFKA_BOOTSTRAP_SERVERS": "k:9092"}, {"TIDEMILL_WINDOWS_FILES_FOLDER": "in"}, {"BATCH_PROCESSING_WINDOW_MS": "1000"}} {
		if !load(t, "", vars).Configured() {
			t.Errorf("%v does not say that windows are to run", vars)
		}
	}
	if load(t, "", map[string]string{"SERVER_PORT": "80", "RETRY_INTERVAL": "5"}).Configured() {
		t.Error("variables that every program has make windows run")
	}
}

func TestWhatIsWrongWithWindowsIsSaidToWhoRunsThem(t *testing.T) {
	for _, c := range []struct{ text, variable, value, want string }{
		{"", "SERVER_PORT", "tcp://10.0.0.1:80", "SERVER_PORT"},
		{"", "TIDEMILL_WINDOWS_AT_ONCE", "0", "windows.at_once"},
		{"windows: {life: 70s}", "", "", "less than twice the window"},
		{"windows: {transactional: true}", "", "", "only Kafka has transactions"},
		{"windows: {search: {enabled: false}}", "", "", "nobody else reads what is sent"},
		{"windows: {topics: {results: r}}", "", "", "results are logged"},
		{"windows: {topics: {adapter_event: x, processor_event: x}}", "", "", "want another"},
		{"windows: {files: {url: 'http://x/list'}}", "", "", "files.http"},
		{"windows: {files: {url: 'ftp://x/list'}}", "", "", "https://"},
		{"windows: {files: {url: 'https://10.1.2.3/list', allow_private: [10.2.0.0/16]}}", "", "", "private"},
		{"windows: {files: {url: 'http://10.1.2.3:x/list'}}", "", "", "files.url"},
		{"windows: {files: {allow_private: [ten]}}", "", "", "no network"},
		{"windows: {topics: {index_dead: {event: processor-event}}}", "", "", "want another"},
		{"windows: {kafka: 'k:9092', topics: {results: processor-mention}}", "", "", "want another"},
		{"windows: {files: {since: 2026-11-01}}", "", "", `invalid value "2026-11-01"; allowed: a batch id, which is compared as a text, such as 20260101000000`},
		{"windows: {files: {since: 7d}}", "", "", "windows.files.since"},
		{"windows: {server_port: 8484}", "", "", "the port of listen"},
		{"projects: [{name: news, key: k1}]\nwindows: {project: sports}", "", "", `tidemill.yaml:2): "sports" names no project; say which has what comes by Kafka, from files and from the command line: news`},
		{"", "TIDEMILL_WINDOWS_PROJECT", "news", `"news" names no project; say which has what comes by Kafka, from files and from the command line: default`},
		{"windows: {processors: [{filter: {keep: 'true'}}, {geo: {}}, {filter: {keep: 'true'}}]}", "", "", `number 3: it is called "filter", as number 1 is`},
		{"windows: {processors: [{name: read, geo: {}}]}", "", "", "number 1: name: invalid value \"read\"; allowed: another name"},
		{"windows: {redis: {url: 'http://x'}}", "", "", "redis://"},
		{"windows: {processors: [{}]}", "", "", "exactly one of filter"},
		{"windows: {processors: [{filter: {keep: 'x'}, geo: {}}]}", "", "", "exactly one of filter"},
		{"windows: {processors: [{filter: {keep: 'nonsense >'}}]}", "", "", "number 1: filter"},
		{"windows: {processors: [{kind: page, geo: {}}]}", "", "", "page"},
		{"windows: {processors: [{on_error: ignore, geo: {}}]}", "", "", "pass, retry or dead"},
		{"windows: {processors: [{http: {url: 'https://x', headers_env: {A: NOT_SET}}}]}", "", "", "neither NOT_SET nor NOT_SET_FILE"},
		{"windows: {processors: [{http: {url: 'https://x', allowPrivate: [ten]}}]}", "", "", "no network"},
		{"windows: {processors: [{http: {url: 'http://x'}}]}", "", "", "http"},
		{"windows: {processors: [{filter: {reason: r}}]}", "", "", "tidemill.yaml:1: windows.processors: number 1: filter.keep: want an expression"},
		{"windows: {processors: [{validate: []}]}", "", "", "validate: want a list of rules"},
		{"windows: {processors: [{validate: [{must: 'true'}, {why: w}]}]}", "", "", "validate[1].must: want an expression"},
		{"windows: {processors: [{map: [{from: x}]}]}", "", "", "map[0].name: want the name"},
		{"windows: {processors: [{map: [{name: x}]}]}", "", "", "map[0].from: want an expression"},
		{"windows: {processors: [{dedup: {by: [globalEventId]}}]}", "", "", "kind: want event or mention"},
		{"windows: {processors: [{kind: event, dedup: {}}]}", "", "", "dedup.by: want a list of names"},
		{"windows: {processors: [{kind: event, dedup: {by: [nothing]}}]}", "", "", "dedup: dedup: nothing: no value of events is called so"},
		{"windows: {processors: [{aggregate: {by: [day]}}]}", "", "", "kind: want event or mention"},
		{"windows: {processors: [{kind: event, aggregate: {max: -1}}]}", "", "", "aggregate.max: want a whole number"},
		{"windows: {processors: [{http: {url: service}}]}", "", "", "http.url: want the address of a service"},
		{"windows: {processors: [{http: {url: 'https://x', parallel: 65}}]}", "", "", "http.parallel: want 0 to 64"},
		{"windows: {processors: [{http: {url: 'https://x', retries: 101}}]}", "", "", "http.retries: want 0 to 100"},
		{"windows: {processors: [{http: {url: 'https://x', timeout: -1s}}]}", "", "", "http.timeout: want a duration"},
	} {
		l := load(t, c.text, map[string]string{c.variable: c.value})
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s=%s: %v; want it to say %q", c.text, c.variable, c.value, err, c.want)
		}
	}
}

func TestTheProjectOfWindows(t *testing.T) {
	const several = "projects: [{name: News, key: k1}, {name: default, key: k2}, {name: news, key: k3}]"
	for _, c := range []struct{ text, variable, want string }{
		{"", "", ""}, // that of the database, or default
		{"", "default", "default"},
		{"projects: [{name: news, key: k1}]", "", "news"},
		{"projects: [{name: news, key: k1}, {name: News, key: k2}]", "", "News"},
		{several, "", "default"},
		{several, "NEWS", "NEWS"},
		{"projects: [{name: news, key: k1}, {name: sport, key: k2}]", "", "default"}, // which nobody has a key of
	} {
		l := load(t, c.text, map[string]string{"TIDEMILL_WINDOWS_PROJECT": c.variable})
		if got := l.ProjectName(); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.text, c.variable, got, c.want)
		}
		if err := l.Check(); err != nil {
			t.Errorf("%s, %q: %v", c.text, c.variable, err)
		}
	}
}

func TestNetworksOfListsAreSetInEveryWay(t *testing.T) {
	const variable = "TIDEMILL_WINDOWS_FILES_ALLOW_PRIVATE"
	for _, c := range []struct{ text, value string }{
		{"windows: {files: {allow_private: [10.1.0.0/16, 127.0.0.0/8]}}", ""},
		{"windows: {files: {allow_private: '10.1.0.0/16, 127.0.0.0/8'}}", ""},
		{"", "10.1.0.0/16,127.0.0.0/8"},
	} {
		l := load(t, c.text+"\n", map[string]string{variable: c.value, "TIDEMILL_WINDOWS_FILES_URL": "https://10.1.2.3/list"})
		if text, _ := l.Files.AllowPrivate.MarshalText(); string(text) != "10.1.0.0/16,127.0.0.0/8" {
			t.Errorf("%s %s: %s", c.text, c.value, text)
		}
		if err := l.Check(); err != nil {
			t.Errorf("%s %s: %v", c.text, c.value, err)
		}
	}
	var b strings.Builder
	if err := schema.WriteReference(&b); err != nil || !strings.Contains(b.String(), variable) {
		t.Errorf("the reference does not have it: %v", err)
	}
}

// Both kinds may have one topic of dead letters.
func TestDeadLettersOfTheIndexMayShareATopic(t *testing.T) {
	if err := load(t, "windows: {topics: {index_dead: {event: dead, mention: dead}}}", nil).Check(); err != nil {
		t.Error(err)
	}
}

func TestTheProcessorsOfTheReferenceCanBeUsed(t *testing.T) {
	text := "windows:\n"
	for line := range strings.Lines((&Settings{}).Example()) {
		if line, ok := strings.CutPrefix(line, "  #"); ok && !strings.HasPrefix(line, " each") {
			if line = strings.TrimPrefix(line, ""); strings.HasPrefix(line, "processors") || strings.HasPrefix(line, "  ") {
				text += "  " + line
			}
		}
	}
	c := load(t, text, map[string]string{"SENTIMENT_TOKEN": "t"})
	steps, err := c.Steps(nil)
	if err != nil || len(steps) != 7 || steps[1].Kind != record.Event || steps[6].Processor.Name() != "sentiment" {
		t.Fatalf("%d steps, %v, of\n%s", len(steps), err, text)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := schema.WriteReference(&b); err != nil || !strings.Contains(b.String(), (&Settings{}).Example()) {
		t.Errorf("the list is not at the end of the group: %v", err)
	}
}

// What has another form than a setting of a processor is said with its line, its name and the form
// that is wanted, before anything is made of it.
func TestFormsOfProcessors(t *testing.T) {
	for text, want := range map[string]string{
		"processors: filter":                                                  `2: windows.processors: want a list of groups of settings: [{name: …,`,
		"processors:\n    - filter: numMentions > 1":                          `3: windows.processors[0].filter: want a group of settings: {keep: …, reason: …}`,
		"processors:\n    - geo: {}\n    - fliter: {keep: 'true'}":            `4: there is no setting windows.processors[1].fliter; did you mean filter?`,
		"processors:\n    - filter:\n        kepe: 'true'":                    `4: there is no setting windows.processors[0].filter.kepe; did you mean keep?`,
		"processors:\n    - validate: {must: 'true'}":                         `3: windows.processors[0].validate: want a list of groups of settings: [{must: …, why: …}]`,
		"processors:\n    - validate:\n        - must: 'true'\n        - [a]": `5: windows.processors[0].validate[1]: want a group of settings: {must: …, why: …}`,
		"processors:\n    - dedup: {by: globalEventId}":                       `3: windows.processors[0].dedup.by: want a list: [text, …]`,
		"processors:\n    - dedup: {by: [x], max: many}":                      `3: windows.processors[0].dedup.max: want a whole number`,
		"processors:\n    - geo: {zero: perhaps}":                             `3: windows.processors[0].geo.zero: want true or false`,
		"processors:\n    - http: {url: x, timeout: soon}":                    `3: windows.processors[0].http.timeout: want a duration such as 10s, 24h or 7d`,
		"processors:\n    - http: {url: x, headers: [a]}":                     `3: windows.processors[0].http.headers: want names with texts: {name: …}`,
		"processors:\n    - {name: [a], geo: {}}":                             `3: windows.processors[0].name: want a text`,
		"processors:\n    - {nonsense: 1}":                                    `; there are name, kind, on_error, filter, validate, map, geo, dedup, aggregate, http`,
	} {
		file := filepath.Join(t.TempDir(), "tidemill.yaml")
		if err := os.WriteFile(file, []byte("windows:\n  "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Load(config.Layers{File: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}
