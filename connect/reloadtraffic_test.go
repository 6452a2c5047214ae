package connect

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// While events come to the endpoint of delivery, a site gets a key and loses one, and partners are added,
// changed and removed, by reloads of the file. Every event that was accepted is sent once to each partner
// that it was for, or is a dead letter of the one that was removed; nothing is sent to that one after the
// reload has answered, and a file that is wrong changes nothing.
func TestSitesAndPartnersChangeUnderTraffic(t *testing.T) {
	stays, goes, comes, moved := newPartner(t), newPartner(t), newPartner(t), newPartner(t)
	text := func(keys string, partners ...string) string {
		return "delivery:\n  sites:\n    - {id: shop, keys: [" + keys + "]}\n  partners:\n" + strings.Join(partners, "")
	}
	to := func(name string, p *aPartner) string {
		return fmt.Sprintf("    - {name: %s, endpoint: %q, allowHttp: true, allowPrivate: [127.0.0.0/8]}\n", name, p.URL)
	}
	r := reloadable(t, text("key-of-the-shop-1", to("stays", stays), to("goes", goes), to("moves", stays)), nil)
	id := func(n int64) string { return fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n) }
	take := func(key string, n int64) int {
		code, answer := send(r.Instance, "/v1/events", key, id(n), fmt.Sprintf(viewed, id(n)))
		if code != http.StatusAccepted && code != http.StatusUnauthorized {
			t.Errorf("event %d is answered %d: %s", n, code, answer)
		}
		return code
	}
	var n atomic.Int64
	var accepted sync.Map
	var senders sync.WaitGroup
	traffic, enough := context.WithCancel(t.Context())
	for range 4 {
		senders.Go(func() {
			for traffic.Err() == nil {
				if i := n.Add(1); take("key-of-the-shop-1", i) == http.StatusAccepted {
					accepted.Store(i, true)
				}
			}
		})
	}
	until := func(more int64) {
		for at := n.Load(); n.Load() < at+more; {
			time.Sleep(time.Millisecond)
		}
	}
	reload := func(want string, text string) {
		t.Helper()
		r.write(text)
		if applied, restart := r.must(); applied != want || restart != "" {
			t.Errorf("applied %q, want %q; restart %q", applied, want, restart)
		}
	}
	until(200)
	if code := take("key-of-the-shop-2", 1e9); code != http.StatusUnauthorized {
		t.Errorf("a key that there is not is answered %d", code)
	}
	both := "key-of-the-shop-1, key-of-the-shop-2"
	reload("changed delivery.sites[shop].keys; added delivery.partners[comes]", text(both, to("stays", stays), to("goes", goes), to("moves", stays), to("comes", comes)))
	if code := take("key-of-the-shop-2", 1e9+1); code != http.StatusAccepted {
		t.Errorf("a new key is answered %d", code)
	}
	first := n.Load()
	until(200)
	reload("changed delivery.partners[moves].endpoint", text(both, to("stays", stays), to("goes", goes), to("moves", moved), to("comes", comes)))
	until(200)
	r.write(text(both, to("stays", stays), to("moves", stays), "    - {name: broken}\n"))
	if _, refused := r.reload(http.MethodPost); refused == nil || !strings.Contains(refused.Detail, "partner broken") {
		t.Errorf("a partner without an endpoint: %v", refused)
	}
	until(200)
	reload("removed delivery.partners[goes]", text(both, to("stays", stays), to("moves", moved), to("comes", comes)))
	gone := goes.count()
	until(300)
	enough()
	senders.Wait()
	reload("changed delivery.sites[shop].keys", text("key-of-the-shop-2", to("stays", stays), to("moves", moved), to("comes", comes)))
	if code := take("key-of-the-shop-1", 1e9+2); code != http.StatusUnauthorized {
		t.Errorf("a key that was taken away is answered %d", code)
	}
	settled(t, r.Instance, "delivery")

	if now := goes.count(); now != gone || gone == 0 {
		t.Errorf("the partner that was removed got %d more, after %d", now-gone, gone)
	}
	total := 0
	accepted.Range(func(k, _ any) bool {
		i := k.(int64)
		if total++; stays.got(id(i)) == "" {
			t.Errorf("event %d did not get to the partner that stays", i)
		}
		if i > first+4 && comes.got(id(i)) == "" { // those before may have been on their way
			t.Errorf("event %d did not get to the partner that comes", i)
		}
		return true
	})
	if total < 1000 {
		t.Errorf("only %d events were accepted", total)
	}
	if moved.count() == 0 {
		t.Error("nothing came to the new address")
	}
}

// count is how many requests were accepted.
func (p *aPartner) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bodies)
}

// settled waits until nothing is in flight, and the books balance.
func settled(t *testing.T, in *Instance, system string) {
	t.Helper()
	var last string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		last = get(in, "/api/v1/audit?system="+system).Body.String()
		waiting := false
		for _, part := range strings.Split(last, `"in_flight":`)[1:] {
			waiting = waiting || part[0] != '0'
		}
		if !waiting && strings.Contains(last, `"balanced":true`) && !strings.Contains(last, `"balanced":false`) {
			return
		}
	}
	t.Errorf("it does not come to rest: %s", last)
}
