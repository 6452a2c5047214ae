//go:build servers

package faults

import (
	"encoding/json"
	"flag"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/crm"
)

var crmLongFlag = flag.Int("crmlong", 1000, "how many events TestCRMALongRun… tests send")

// TestCRMALongRunOfKills fills a queue as fast as it accepts events, has an endpoint that fails
// at random, and kills the only instance every few seconds until all is done: -crmlong 100000
// takes some minutes.
func TestCRMALongRunOfKills(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmEmbedded, func(w *crmWorld) { w.longRun() })
}

// TestCRMALongRunOfKillsOnServers does it on Redis and PostgreSQL.
func TestCRMALongRunOfKillsOnServers(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmOnServers, func(w *crmWorld) { w.longRun() })
}

// longRun makes every event end, completed or as one dead letter with its reason, and replays a
// part of them: first undisturbed, then under kills.
func (w *crmWorld) longRun() {
	const held = 10 * 100                                                    // events in workers' hands, whose ends a kill may prevent
	within := afterCRMLease + time.Duration(*crmLongFlag)*2*time.Millisecond // nothing is slower than 500 a second
	w.app.does(.03, 0)
	w.run(1)
	began := time.Now()
	ended := w.load("big", 0, *crmLongFlag, 0)
	w.kills(func() bool { return over(ended) && w.idle() })
	kills := w.hits["kill"]
	o := w.look(within)
	w.Logf("all was done %v after the first was sent, with %d kills", time.Since(began).Round(time.Second), kills)
	w.tally(o)
	if w.complain(w.judge(o, kills*held)); w.Failed() {
		return
	}
	w.app.does(0, 0)
	received := make([]time.Time, 0, len(o.records))
	for _, r := range o.records {
		received = append(received, r.Created)
	}
	slices.SortFunc(received, time.Time.Compare)
	from, to := received[len(received)/4], received[3*len(received)/4]
	for _, c := range []struct {
		id    string
		kills bool
	}{{"quiet", false}, {"killed", true}} {
		for range 2 {
			w.running().Ask("replay", "start", "--since", from.Format(time.RFC3339Nano), "--until", to.Format(time.RFC3339Nano), "--id", c.id, "--json")
		}
		before := w.hits["kill"]
		if c.kills {
			w.kills(w.idle)
		}
		w.replayed(w.look(within), c.id, from, to, (w.hits["kill"]-before)*held)
	}
	w.struck("kills", 6, w.hits["kill"])
}

// kills kills the instance every few seconds, until enough is done, but at least three times.
func (w *crmWorld) kills(done func() bool) {
	for n := 0; n < 3 || !done(); n++ {
		w.pass(w.between(500*time.Millisecond, 4*time.Second))
		in := w.instances[n%len(w.instances)]
		in.Kill()
		w.hit("kill")
		in.Begin()
	}
}

// idle reports whether no waiting event could be worked on now.
func (w *crmWorld) idle() bool {
	if err := w.running().WaitReady(time.Minute); err != nil {
		w.Fatal(err)
	}
	var st struct{ Waiting int }
	_, b, err := w.callAPI(http.MethodGet, "crm/status", "")
	return err == nil && json.Unmarshal(b, &st) == nil && st.Waiting == 0
}

// tally prints how events ended, and the books.
func (w *crmWorld) tally(o crmOutcome) {
	w.Helper()
	ends, begun := map[string]int{}, 0
	for _, r := range o.records {
		if r.State == crm.IsCompleted {
			ends[r.State]++
		} else {
			ends[r.State+" of "+r.Kind]++
		}
		begun += r.Attempts
	}
	dead := map[string]int{}
	for _, l := range o.letters {
		dead[l.Kind]++
		if l.Cause == "" {
			w.Errorf("%s of %s is dead without a reason", l.ID, l.Tenant)
		}
	}
	var st struct {
		Waiting, Delayed, Leased, Dead int
		Failed, Completed              int
	}
	status := w.running().Ask("crm", "status", "--json")
	if err := json.Unmarshal(status, &st); err != nil {
		w.Fatalf("%v: %s", err, status)
	}
	if st.Waiting+st.Delayed+st.Leased != 0 || st.Dead != len(o.letters) {
		w.Errorf("there are %d letters, and the status says %s", len(o.letters), status)
	}
	a := o.audit
	w.Logf("events %d: %v; begun %d times; letters %d: %v; books: accepted %d = delivered %d + skipped %d + dead %d + in flight %d, balanced %v; status: dead %d, waiting %d",
		len(w.sent), ends, begun, len(o.letters), dead, a.Accepted, a.Delivered, a.Skipped, a.Dead, a.InFlight, a.Balanced, st.Dead, st.Waiting)
}

// replayed checks that the events that were received in a range, both ends included, were
// handled once more for a replay, and no others. After kills so many may be handled again.
func (w *crmWorld) replayed(o crmOutcome, id string, from, to time.Time, again int) {
	w.Helper()
	inside, good, twice, wrong := 0, 0, 0, 0
	for _, e := range w.sent {
		if !strings.HasPrefix(e.typ, "app.") {
			continue
		}
		created := o.records[e.key()].Created
		in := !created.Before(from) && !created.After(to)
		rec := w.app.of(e.key() + "~" + id)
		most := 0
		if in {
			inside++
			if e.ends == "" {
				most = 1
			}
		}
		good += min(rec.good, most)
		twice += max(rec.good-most, 0)
		if in == (rec.came > 0) && rec.good >= most && (rec.good <= most || again > 0 && most > 0) {
			continue
		}
		if wrong++; wrong < 10 {
			w.Errorf("%s, received %v, was asked for by replay %s %d times and handled %d times", e.key(), created, id, rec.came, rec.good)
		}
	}
	if wrong > 0 || twice > again {
		w.Errorf("replay %s: %d events are wrong, %d were handled again, %d may be", id, wrong, twice, again)
	}
	if !o.audit.Balanced {
		w.Errorf("after replay %s the books say %+v", id, o.audit)
	}
	w.Logf("replay %s: %d events of the endpoint in the range, %d handled once more, %d of them twice; books: %+v", id, inside, good, twice, o.audit)
}
