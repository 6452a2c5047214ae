//go:build servers

package faults

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/test/process"
)

var entriesFlag = flag.Int("entries", 50_000, "how many entries TestManyEntries sends through a bridge; TestManyEntriesWithKills a fifth of them")

// fast are settings of a Redis that is not killed, and of a broker that allows a receiver more
// than 20 messages in flight.
var fast = []string{"REDIS_SETTINGS=--appendfsync everysec", "MOSQUITTO_SETTINGS=persistence false\nmax_inflight_messages 1000"}

// TestManyEntries has a subscriber that acknowledges everything: the stream ends empty, nothing
// is lost, and everything published was acknowledged.
//
//	go test -tags servers ./test/faults -run 'TestManyEntries$' -entries 1000000 -v
func TestManyEntries(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		w.env["REDIS_CLAIM_MIN_IDLE"], w.env["REDIS_CLAIM_INTERVAL"], w.env["MQTT_QOS"] = "1m", "30s", "1"
		in := w.many(*entriesFlag)
		w.finish(time.Hour, bridgeAllowance{})
		w.tell(in)
	}, fast...)
}

// TestManyEntriesWithKills kills bridge and broker all the time meanwhile.
func TestManyEntriesWithKills(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		n := *entriesFlag / 5
		in := w.many(n)
		for began := true; began || w.far.total("") < n*9/10; began = false {
			w.killFor(5*time.Second, true, true)
		}
		w.finish(time.Hour, bridgeAllowance{})
		w.tell(in)
		w.struck("bridges killed", 2, w.hits["kill"]) // with a subscriber this fast few entries are in flight: TestBridgeKilled covers them
		w.struck("brokers killed", 1, w.hits["broker"])
	}, fast...)
}

// many starts a bridge and adds entries as fast as Redis accepts them.
func (w *bridgeWorld) many(n int) *process.Instance {
	w.Helper()
	w.far = newFarSide(w, farOptions{Plain: true})
	in := w.instance("one")
	in.Start()
	w.load = w.startBridgeLoad(n)
	return in
}

// tell prints how fast it was, and how much memory the bridge used.
func (w *bridgeWorld) tell(in *process.Instance) {
	w.Helper()
	took := time.Since(w.load.started)
	w.Logf("%d entries acknowledged in %v: %.0f a second", w.load.count(), took.Round(time.Millisecond), float64(w.load.count())/took.Seconds())
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", in.PID()))
	if err != nil {
		return // not Linux
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmRSS") {
			w.Log(strings.TrimSpace(line))
		}
	}
}
