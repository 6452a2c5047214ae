package connect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

// sharing are instances that share servers, each with a file of its own.
type sharing struct {
	t    *testing.T
	vars map[string]string
	file string
}

func newSharing(t *testing.T, stays *aPartner) *sharing {
	t.Helper()
	s := &sharing{t: t, vars: map[string]string{"TIDEMILL_REDIS_URL": testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync everysec --maxmemory-policy noeviction").URL}}
	s.file = fmt.Sprintf("delivery:\n  kept: 100000\n  sites: [{id: shop, keys: [key-of-the-shop-1]}]\n  partners:\n    - {name: stays, endpoint: %q, allowHttp: true, allowPrivate: [127.0.0.0/8]}\n", stays.URL)
	return s
}

func (s *sharing) open() *Instance {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(path, []byte(s.file), 0o600); err != nil {
		s.t.Fatal(err)
	}
	load := func() (*config.Loaded, error) {
		return systems.All().Settings().Load(config.Layers{File: path, Getenv: func(name string) string { return s.vars[name] }, Flags: map[string]string{"data": filepath.Join(filepath.Dir(path), "data"), "listen": "127.0.0.1:0", "admin.rates.reads": "0"}})
	}
	c, err := load()
	if err != nil {
		s.t.Fatal(err)
	}
	return open(s.t, c, Options{Load: load, Systems: []string{"delivery"}})
}

func (s *sharing) run(in *Instance) *Instance {
	s.t.Helper()
	stop := running(s.t, in, nil)
	s.t.Cleanup(func() {
		if err := stop(); err != nil {
			s.t.Error(err)
		}
		if err := in.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return in
}

// everywhere fails where a change is not in force in so many instances.
func (s *sharing) everywhere(in *Instance, what, body string, instances int) {
	s.t.Helper()
	start := time.Now()
	d := describedNow(s.t, asked(in, "descriptions/partner/ads/"+what, body))
	s.t.Logf("%s: in force in %d instances after %v", what, len(d.Instances), time.Since(start).Round(time.Millisecond))
	for _, i := range d.Instances {
		if i.State != "applied" {
			s.t.Errorf("%s: instance %s: %s %s", what, i.ID, i.State, i.Why)
		}
	}
	if len(d.Instances) != instances {
		s.t.Errorf("%s: %d instances, want %d", what, len(d.Instances), instances)
	}
}

// flowing sends a thousand events a second to instances by turns.
type flowing struct {
	t        *testing.T
	to       []*Instance
	accepted []time.Time // when, by number
	mu       sync.Mutex
	end      chan struct{}
	ended    chan struct{}
}

func numbered(n int) string { return fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n) }

func flow1000(t *testing.T, to []*Instance) *flowing {
	f := &flowing{t: t, to: to, end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		const batch, every = 20, 20 * time.Millisecond
		for start, n := time.Now(), 0; ; n++ {
			select {
			case <-f.end:
				return
			case <-time.After(time.Until(start.Add(time.Duration(n) * every))):
			}
			var events []string
			for i := range batch {
				events = append(events, fmt.Sprintf(viewed, numbered(n*batch+i)))
			}
			if code, answer := send(f.to[n%len(f.to)], "/v1/events", "key-of-the-shop-1", fmt.Sprintf("batch-%d", n), "["+strings.Join(events, ",")+"]"); code != http.StatusAccepted {
				t.Errorf("answered %d: %s", code, answer)
				return
			}
			f.mu.Lock()
			for range batch {
				f.accepted = append(f.accepted, time.Now())
			}
			f.mu.Unlock()
		}
	}()
	return f
}

// so many were accepted.
func (f *flowing) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.accepted)
}

// more waits for so many more.
func (f *flowing) more(n int) {
	for at := f.count(); f.count() < at+n; time.Sleep(time.Millisecond) {
		select {
		case <-f.ended:
			f.t.Fatal("nothing is sent any more")
		default:
		}
	}
}

// A partner is made, tested, changed, switched off, switched on and removed, each by another one of three
// instances, while a thousand events a second come. Each event has its end at each partner that it is for,
// and the partner gets nothing after its removal was answered.
func TestAPartnerComesAndGoesOnThreeInstances(t *testing.T) {
	testenv.Need(t)
	stays, first, second := newPartner(t), newPartner(t), newPartner(t)
	s := newSharing(t, stays)
	s.vars["TIDEMILL_POSTGRES_URL"] = testenv.Postgres(t) // it has the descriptions, Redis the queues
	var in []*Instance
	for range 3 {
		in = append(in, s.run(s.open()))
	}
	start := time.Now()
	f := flow1000(t, in)
	f.more(500)
	s.everywhere(in[0], "add", partnerText(first), 3)
	added := f.count()
	f.more(1500)
	if w := asked(in[1], "partners/ads/test", fmt.Sprintf(viewed, "0190f3c2-0000-7000-8000-a00000000001")); w.Code != http.StatusOK || first.got("0190f3c2-0000-7000-8000-a00000000001") == "" {
		t.Errorf("tested: %d %s", w.Code, w.Body)
	}
	s.everywhere(in[2], "change", fmt.Sprintf(`{"endpoint":%q}`, second.URL), 3)
	moved := first.count()
	f.more(1500)
	if w := asked(in[1], "partners/ads/off", ""); w.Code != http.StatusOK {
		t.Errorf("switched off: %d %s", w.Code, w.Body)
	}
	f.more(1000)
	if w := asked(in[0], "partners/ads/close", ""); w.Code != http.StatusOK {
		t.Errorf("switched on: %d %s", w.Code, w.Body)
	}
	f.more(1500)
	removing := f.count()
	s.everywhere(in[1], "remove", "", 3)
	gone, removed := second.count(), f.count()
	f.more(1500)
	close(f.end)
	<-f.ended
	t.Logf("%d events in %v: %.0f a second", f.count(), time.Since(start), float64(f.count())/time.Since(start).Seconds())
	settled(t, in[2], "delivery")

	if now := first.count(); now != moved || moved == 0 {
		t.Errorf("the first address got %d more after it was changed, of %d", now-moved, moved)
	}
	if now := second.count(); now != gone || gone == 0 {
		t.Errorf("the partner got %d more after it was removed, of %d", now-gone, gone)
	}
	if t.Failed() {
		return
	}
	s.everywhere(in[0], "add", partnerText(first), 3) // its queue is empty; what became of its events can be seen again
	ends := map[string]int{}
	for n := range f.count() {
		id := numbered(n)
		if stays.got(id) == "" {
			t.Errorf("event %d did not get to the partner that stays", n)
		}
		end := "delivered"
		if first.got(id) == "" && second.got(id) == "" {
			end = fate(t, in[0], id)
		}
		ends[end]++
		switch {
		case n >= added && n < removing && end != "delivered" && end != "partner_off" && end != "removed":
			t.Errorf("event %d was accepted after the partner was added and before it was removed, and its end is %q", n, end)
		case n >= removed && end == "delivered":
			t.Errorf("event %d was accepted after the partner was removed, and delivered", n)
		}
	}
	t.Logf("ends at the partner: %v; it was added at event %d, and removed from %d to %d", ends, added, removing, removed)
	if ends["partner_off"] == 0 || ends["none"] == 0 {
		t.Errorf("ends are %v", ends)
	}
}

// fate is how an event ended for the partner, where it was not delivered: none, it was not for it.
func fate(t *testing.T, in *Instance, id string) string {
	t.Helper()
	var e struct {
		Partners []struct{ Partner, State, Why string }
	}
	w := get(in, "/api/v1/delivery/events/shop/"+id)
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusOK {
		t.Fatalf("event %s: %d %s", id, w.Code, w.Body)
	}
	for _, p := range e.Partners {
		switch {
		case p.Partner != "ads":
		case p.State == "dead" && strings.Contains(p.Why, "was removed"):
			return "removed"
		case p.State == "skipped":
			return p.Why
		default:
			return p.State + " " + p.Why
		}
	}
	return "none"
}

// An instance that is open and does not run yet, when another one removes a partner, never sends to it;
// one that cannot have a change in force says so, and goes on as before.
func TestInstancesThatStartOrRefuse(t *testing.T) {
	testenv.Need(t)
	stays, ads := newPartner(t), newPartner(t)
	s := newSharing(t, stays)
	s.vars["ONLY_ONE_HAS_IT"] = "a-token-of-the-partner"
	one := s.run(s.open())
	s.everywhere(one, "add", partnerText(ads), 1)
	late := s.open()
	if got := strings.Count(late.inForceText(), "from the database"); got != 1 {
		t.Fatalf("it has %d descriptions in force", got)
	}
	s.everywhere(one, "remove", "", 1)
	s.run(late)
	if strings.Contains(late.inForceText(), "from the database") {
		t.Error("an instance runs with a partner that was removed before")
	}
	id := taken(t, late, "key-of-the-shop-1", 1)
	arrives(t, stays, id)
	settled(t, late, "delivery")
	if ads.count() != 0 {
		t.Error("it was sent to the partner that was removed")
	}

	var both sync.WaitGroup // two instances change different things at the same time
	for n, in := range []*Instance{one, late} {
		both.Go(func() {
			for i := range 3 {
				w := asked(in, fmt.Sprintf("descriptions/partner/p%d%d/add", n, i), partnerText(ads))
				if w.Code != http.StatusOK || strings.Count(w.Body.String(), `"state":"applied"`) != 2 {
					t.Errorf("p%d%d: %d %s", n, i, w.Code, w.Body)
				}
			}
		})
	}
	both.Wait()
	for _, in := range []*Instance{one, late} {
		if n := strings.Count(in.inForceText(), "from the database"); n != 6 {
			t.Errorf("an instance has %d of 6 partners", n)
		}
	}
	for n := range 6 {
		describedNow(t, asked(one, fmt.Sprintf("descriptions/partner/p%d%d/remove", n/3, n%3), ""))
	}

	other := &sharing{t: t, file: s.file, vars: map[string]string{"TIDEMILL_REDIS_URL": s.vars["TIDEMILL_REDIS_URL"]}}
	poor := other.run(other.open())
	d := describedNow(t, asked(one, "descriptions/partner/ads/add", strings.Replace(partnerText(ads), "{", `{"auth":{"type":"bearer","credentials":"ONLY_ONE_HAS_IT"},`, 1)))
	states := map[string]string{}
	for _, i := range d.Instances {
		states[i.ID] = i.State + " " + i.Why
	}
	if why := states[poor.id()]; len(states) != 3 || states[one.id()] != "applied " || states[late.id()] != "applied " || !strings.HasPrefix(why, "refused ") || !strings.Contains(why, "ONLY_ONE_HAS_IT") || strings.Contains(why, "a-token") {
		t.Errorf("instances: %v", states)
	}
	if doctor := get(poor, "/api/v1/doctor").Body.String(); !strings.Contains(doctor, "not in force in this instance") || !strings.Contains(doctor, "ONLY_ONE_HAS_IT") {
		t.Errorf("its doctor says %s", doctor)
	}
	if strings.Contains(poor.inForceText(), "from the database") || !strings.Contains(get(one, "/api/v1/instances").Body.String(), `"refused":"`) {
		t.Error("what was refused is in force, or nobody says so")
	}
	s.everywhere(poor, "remove", "", 3) // an instance that refuses one can still remove it
	if strings.Contains(get(poor, "/api/v1/instances").Body.String(), `"refused":"`) {
		t.Error("it refuses what is not there any more")
	}
}

func (i *Instance) inForceText() string { return get(i, "/api/v1/config").Body.String() }

// id is the instance's, as the others know it.
func (i *Instance) id() string {
	var all struct{ This string }
	_ = json.Unmarshal(get(i, "/api/v1/instances").Body.Bytes(), &all) // empty: none has it
	return all.This
}
