//go:build servers

package faults

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/test/process"
)

// deliveryLease is the visibility timeout of these tests: after it, the work of a killed
// instance comes back.
const deliveryLease = 3 * time.Second

// afterLease is how long after a fault everything may take: leases expire, twice if a
// purchase's entry does too, and the longest wait before the last try passes. Three times, as
// the machine is shared.
const afterLease = 3 * 20 * time.Second

// Where the queues of a world are.
const (
	onSQLite = false
	onRedis  = true
)

// deliveryWorld is sites that send, partners that receive, and instances between them, on their
// own Redis or on the file of the one instance.
type deliveryWorld struct {
	*world
	file     string // the configuration
	partners []*farPartner
	sites    []map[string]any
	settings map[string]any // of delivery
	sent     []*deliveryLoad
}

// deliveryRounds runs a test in worlds of its own.
func deliveryRounds(t *testing.T, redis bool, do func(w *deliveryWorld)) {
	t.Helper()
	eachRound(t, func(t *testing.T, rnd *rand.Rand) { do(newDeliveryWorld(t, redis, rnd)) })
}

func newDeliveryWorld(t *testing.T, redis bool, rnd *rand.Rand) *deliveryWorld {
	t.Helper()
	w := &deliveryWorld{world: &world{T: t, rnd: rnd, began: time.Now(), hits: map[string]int{}, env: map[string]string{"TIDEMILL_LOG_LEVEL": "warn"}},
		file: filepath.Join(t.TempDir(), "tidemill.yaml"), settings: map[string]any{"lease": deliveryLease.String(), "max_workers": 20}}
	w.site("shop", nil)
	if !redis {
		return w
	}
	w.redis = testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always")
	w.env["TIDEMILL_REDIS_URL"] = "redis://" + w.redis.Addr + "/0"
	w.dial()
	return w
}

// keyOf is the key of a site.
func keyOf(site string) string { return "key-of-" + site }

// site adds a site to the configuration.
func (w *deliveryWorld) site(id string, settings map[string]any) {
	s := map[string]any{"id": id, "keys": []string{keyOf(id)}}
	maps.Copy(s, settings)
	w.sites = append(w.sites, s)
}

// configure writes the configuration.
func (w *deliveryWorld) configure() {
	w.Helper()
	group := maps.Clone(w.settings)
	group["sites"] = w.sites
	partners := []map[string]any{}
	for _, p := range w.partners {
		d := map[string]any{"name": p.name, "endpoint": p.URL + "/events", "allowHttp": true, "allowPrivate": []string{"127.0.0.0/8"}}
		maps.Copy(d, p.settings)
		partners = append(partners, d)
	}
	group["partners"] = partners
	w.setUp(w.file, "delivery", group)
}

// instance makes one that runs delivery.
func (w *deliveryWorld) instance() *process.Instance {
	w.Helper()
	return w.make([]string{"delivery", "--config", w.file})
}

// run writes the configuration, makes instances, and starts them.
func (w *deliveryWorld) run(n int) []*process.Instance {
	w.Helper()
	w.configure()
	for range n {
		w.instance().Start()
	}
	return w.instances
}

// underWay is how many requests to partners run now.
func (w *deliveryWorld) underWay() (n int) {
	for _, p := range w.partners {
		n += p.underWay()
	}
	return n
}

// kills ends an instance without notice while a partner works on a request, and starts it
// again; it counts whether one did.
func (w *deliveryWorld) kills(in *process.Instance) {
	w.Helper()
	for range 100 { // with fast partners few requests run
		if w.underWay() > 0 {
			break
		}
		w.pass(5 * time.Millisecond)
	}
	busy := w.underWay() > 0
	in.Kill()
	w.hit("kill")
	if busy {
		w.hit("killed while requests were under way")
	}
	in.Begin()
}

func (w *deliveryWorld) audit() (delivery.Audit, error) {
	return auditOf[delivery.Audit](w.world, "delivery")
}

// queueOf finds the books of a queue.
func queueOf(a delivery.Audit, name string) delivery.QueueAudit {
	for _, q := range a.Queues {
		if q.Queue == name {
			return q
		}
	}
	return delivery.QueueAudit{}
}

// quiet waits until nothing is in any queue, and no dead letter is being replayed.
func (w *deliveryWorld) quiet(within time.Duration) delivery.Audit {
	w.Helper()
	began := time.Now()
	w.ready()
	for deadline := began.Add(within); ; time.Sleep(100 * time.Millisecond) { // between two polls of other processes
		replaying := w.replaying() // before the books, which must have its end
		a, err := w.audit()
		if err == nil && len(a.Queues) > 0 && !slices.ContainsFunc(a.Queues, func(q delivery.QueueAudit) bool { return q.InFlight > 0 }) && replaying == 0 {
			w.Logf("quiet after %v", time.Since(began).Round(time.Millisecond))
			return a
		}
		if time.Now().After(deadline) {
			w.Fatalf("not quiet after %v: %+v, %d letters are being replayed, %v", within, a, replaying, err)
		}
	}
}

// replaying is how many dead letters are being replayed.
func (w *deliveryWorld) replaying() (n int) {
	w.Helper()
	for _, of := range w.letters() {
		for _, l := range of {
			if l.State != "held" {
				n++
			}
		}
	}
	return n
}

// deadLetter is a dead letter as the product shows it.
type deadLetter struct {
	ID, Pipeline, Partner, Site, State, Reason, Kind, Cause, Payload string
	Tries, Replays                                                   int
}

// letters are all dead letters, by pipeline and by event.
func (w *deliveryWorld) letters() map[string]map[string]deadLetter {
	w.Helper()
	all := map[string]map[string]deadLetter{}
	for line := range bytes.Lines(w.running().Ask("dead", "list", "--json")) {
		var l deadLetter
		if err := json.Unmarshal(line, &l); err != nil {
			w.Fatalf("%v: %.300s", err, line)
		}
		of := all[l.Pipeline]
		if of == nil {
			of = map[string]deadLetter{}
			all[l.Pipeline] = of
		}
		id, _, _ := strings.Cut(l.ID, "/")
		if _, twice := of[id]; twice {
			w.Errorf("event %s has two letters of %s", id, l.Pipeline)
		}
		of[id] = l
	}
	return all
}

// replay replays all dead letters, and returns how many.
func (w *deliveryWorld) replay() int {
	w.Helper()
	var of struct{ Count int }
	if out := w.running().Ask("dead", "replay", "--all", "--json"); json.Unmarshal(out, &of) != nil {
		w.Fatalf("replay: %s", out)
	}
	return of.Count
}

// linkTo puts a breakable link between future instances and a partner.
func (w *deliveryWorld) linkTo(p *farPartner) *testenv.Link {
	w.Helper()
	l := testenv.NewLink(w, p.Listener.Addr().String())
	p.settings["endpoint"] = "http://" + l.Addr + "/events"
	return l
}
