//go:build servers

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/test/process"
)

const (
	// windowsLease is how long a window of a dead instance is kept from others.
	windowsLease = 2 * time.Second
	// windowsOpen is how long a window collects by default.
	windowsOpen = time.Second
	// afterWindows is how long after a fault everything may take: leases expire, windows
	// collect, the longest waits between tries pass. The machine is shared.
	afterWindows = 90 * time.Second
)

// windowsServers say which of a world's servers are its own, to kill; the others are shared by
// all tests.
type windowsServers struct {
	kafka, search bool
	redis         []string // settings
}

// windowsWorld is files of GDELT, instances that collect and deliver, and an index: on its own
// Redis, a Kafka and an OpenSearch, or on the file of the one instance.
type windowsWorld struct {
	*world
	kafka, search *testenv.Server // nil: shared ones
	brokers       []string        // empty: embedded
	index         string          // URL of the OpenSearch
	service       string
	topics        map[string]string // in-event, out-event, dead-event and the same of mention
	day           string            // of all records, YYYYMMDD: no other test has it
	bySentence    bool              // the index has a document for each sentence
	noIndex       bool              // nothing is indexed
	forgets       bool              // a topic has lost messages that were delivered to it
	config        map[string]any    // of the group windows; nil: no file
	http          *http.Client
	members       map[*process.Instance][]string
	last          *process.Instance // the last one started

	mu    sync.Mutex // guards items and their counts
	items []*windowsItem
	sent  map[string]int // records, by kind
	again int            // of these: repeated ones
	load  int            // largest batch
}

// windowsRounds runs a test in worlds of its own. A world without servers is embedded.
func windowsRounds(t *testing.T, servers *windowsServers, do func(w *windowsWorld)) {
	t.Helper()
	eachRound(t, func(t *testing.T, rnd *rand.Rand) { do(newWindowsWorld(t, servers, rnd)) })
}

func newWindowsWorld(t *testing.T, servers *windowsServers, rnd *rand.Rand) *windowsWorld {
	t.Helper()
	w := &windowsWorld{world: &world{T: t, rnd: rnd, began: time.Now(), hits: map[string]int{}, env: map[string]string{"TIDEMILL_LOG_LEVEL": "warn"}},
		service: testenv.Name("em-"), topics: map[string]string{}, bySentence: rnd.IntN(2) == 0, http: endpointClient(16),
		day:  fmt.Sprintf("%04d%02d%02d", 1750+rand.IntN(150), 1+rand.IntN(12), 1+rand.IntN(28)), // by chance: another round has another
		sent: map[string]int{}, members: map[*process.Instance][]string{}}
	w.set("TIDEMILL_WINDOWS_WINDOW", windowsOpen, "TIDEMILL_WINDOWS_SWEEP", "200ms", "TIDEMILL_WINDOWS_LEASE", windowsLease, "TIDEMILL_WINDOWS_PAGE", 100,
		"TIDEMILL_WINDOWS_STORE", 200, "TIDEMILL_WINDOWS_BACKOFF", "100ms", "RETRY_INTERVAL", 100, "TIDEMILL_WINDOWS_SENTENCE_ID", w.bySentence,
		"TIDEMILL_WINDOWS_SEARCH_KEEP", "2500000h") // so that the day has an index of its own
	if servers == nil {
		w.files()
		return w
	}
	var up sync.WaitGroup
	up.Go(func() {
		w.redis = testenv.Start(t, testenv.PrivateRedis, append([]string{"REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction"}, servers.redis...)...)
	})
	if servers.kafka {
		up.Go(func() { w.kafka = testenv.Start(t, testenv.PrivateKafka) })
	}
	if servers.search {
		up.Go(func() { w.search = testenv.Start(t, testenv.PrivateOpenSearch) })
	}
	up.Wait()
	if t.Failed() {
		t.FailNow()
	}
	w.dial()
	w.onServers()
	t.Logf("ready after %v", time.Since(w.began).Round(time.Millisecond))
	return w
}

// set gives variables to future instances.
func (w *windowsWorld) set(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		w.env[pairs[i].(string)] = fmt.Sprint(pairs[i+1])
	}
}

// onServers makes instances use servers, and this world's own topics.
func (w *windowsWorld) onServers() {
	w.Helper()
	if w.brokers = []string{""}; w.kafka != nil {
		w.brokers[0] = w.kafka.Addr
	} else {
		w.brokers = testenv.Kafka(w)
	}
	if w.search != nil {
		w.index = w.search.URL
	} else {
		w.index = testenv.OpenSearch(w)
	}
	for name, variable := range map[string]string{
		"in-event": "KAFKA_TOPIC_ADAPTER_EVENT", "in-mention": "KAFKA_TOPIC_ADAPTER_MENTION",
		"out-event": "KAFKA_TOPIC_PROCESSOR_EVENT", "out-mention": "KAFKA_TOPIC_PROCESSOR_MENTION",
		"dead-event": "KAFKA_TOPIC_DLQ_CONNECT_EVENT_NAME", "dead-mention": "KAFKA_TOPIC_DLQ_CONNECT_MENTION_NAME"} {
		w.topics[name] = w.service + "-" + name
		w.set(variable, w.topics[name])
	}
	w.set("SERVICE_NAME", w.service, "KAFKA_BOOTSTRAP_SERVERS", strings.Join(w.brokers, ","), "TIDEMILL_KAFKA_PARTITIONS", 3,
		"TIDEMILL_WINDOWS_REDIS_URL", "redis://"+w.redis.Addr+"/0", "TIDEMILL_WINDOWS_SEARCH_URL", w.index)
	w.Cleanup(w.clearServers)
}

// files makes the one instance read files of a folder.
func (w *windowsWorld) files() {
	w.Helper()
	w.set("TIDEMILL_WINDOWS_FILES_FOLDER", w.TempDir(), "TIDEMILL_WINDOWS_FILES_EVERY", "200ms", "TIDEMILL_WINDOWS_FILES_QUIET", 0)
}

// folder is the folder of the files.
func (w *windowsWorld) folder() string { return w.env["TIDEMILL_WINDOWS_FILES_FOLDER"] }

// run makes instances, and starts them.
func (w *windowsWorld) run(n int) []*process.Instance {
	w.Helper()
	args := []string{"windows", "--project", "one=" + keyOf("one")}
	if w.config != nil {
		file := filepath.Join(w.TempDir(), "tidemill.yaml")
		w.setUp(file, "windows", w.config)
		args = append(args, "--config", file)
	}
	for range n {
		w.make(args).Start()
	}
	return w.instances
}

// kills ends an instance without notice, and starts it again. It counts whether it may have
// been delivering a window.
func (w *windowsWorld) kills(in *process.Instance) {
	w.Helper()
	w.attribute()
	for range 200 { // small windows are leased rarely, and not for long
		if w.status().States["leased"].Windows > 0 {
			w.hit("killed while windows were out")
			break
		}
		w.pass(5 * time.Millisecond)
	}
	in.Kill()
	w.hit("kill")
	w.evict(in)
	in.Begin()
	w.last = in
}

// must makes a request that has to succeed.
func (w *windowsWorld) must(method, path string) []byte {
	w.Helper()
	status, b, err := w.callAPI(method, path, "")
	if err != nil || status != http.StatusOK {
		w.Fatalf("%s %s: %d %.300s, %v", method, path, status, b, err)
	}
	return b
}

// windowsStatus is the state of windows; the zero value without an answer.
type windowsStatus struct {
	States map[string]struct{ Windows, Records int64 }
	Lost   uint64
}

func (w *windowsWorld) status() (st windowsStatus) {
	if status, b, err := w.callAPI(http.MethodGet, "windows/status", ""); err != nil || status != http.StatusOK || json.Unmarshal(b, &st) != nil {
		return windowsStatus{}
	}
	return st
}

// windowsWindow is a window as the API shows it.
type windowsWindow struct {
	ID, Batch, State, Owner, Kind, Error string
	Records                              int64
	Tries, Handed                        int
}

func (w *windowsWorld) windows() []windowsWindow {
	w.Helper()
	return windowsLines[windowsWindow](w, "windows")
}

// windowsLines reads a listing.
func windowsLines[T any](w *windowsWorld, path string) []T {
	w.Helper()
	return itemsOf[T](w, path, w.must(http.MethodGet, path))
}

func (w *windowsWorld) audit() (windows.Audit, error) {
	return auditOf[windows.Audit](w.world, "windows")
}

// booksOf are the books of a pipeline.
func booksOf(a windows.Audit, pipeline string) (p windows.PipelineAudit) {
	for _, p := range a.Pipelines {
		if p.Pipeline == pipeline {
			return p
		}
	}
	return p
}

// The pipelines, in the order in which a record passes them.
const (
	windowsFiles    = "windows-files"
	windowsEvents   = "windows-events"
	windowsMentions = "windows-mentions"
)

// taken is how many records the intakes have accepted, and how many of them have not ended.
func taken(a windows.Audit) (accepted, inFlight uint64) {
	for _, name := range []string{windowsFiles, windowsEvents, windowsMentions} {
		p := booksOf(a, name)
		accepted, inFlight = accepted+p.Accepted, inFlight+p.InFlight
	}
	return accepted, inFlight
}

// stored waits until everything sent is in windows.
func (w *windowsWorld) stored(within time.Duration) {
	w.Helper()
	w.until(within, "everything is in windows", func() bool {
		a, err := w.audit()
		accepted, inFlight := taken(a)
		return err == nil && accepted >= uint64(w.total()) && inFlight == 0
	})
}

// quiet waits until nothing but parked windows is in flight: it looks in the order in which
// records pass, so that none slips through.
func (w *windowsWorld) quiet(within time.Duration) windows.Audit {
	w.Helper()
	began := time.Now()
	w.ready()
	for deadline := began.Add(within); ; time.Sleep(100 * time.Millisecond) { // between two polls of other processes
		a, err := w.audit()
		accepted, inFlight := taken(a)
		if err == nil && accepted >= uint64(w.total()) && inFlight == 0 {
			st := w.status()
			if len(st.States) > 0 && st.States["active"].Windows+st.States["ready"].Windows+st.States["leased"].Windows == 0 {
				a, err = w.audit()
				if err == nil && !slices.ContainsFunc(a.Pipelines, func(p windows.PipelineAudit) bool { return p.InFlight > 0 }) {
					w.Logf("quiet after %v", time.Since(began).Round(time.Millisecond))
					return a
				}
			}
		}
		if time.Now().After(deadline) {
			w.Fatalf("not quiet after %v: %d sent; %+v, %v; %+v", within, w.total(), a, err, w.status())
		}
	}
}
