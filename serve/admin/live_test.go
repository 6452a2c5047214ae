package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/live"
)

// ended has an event come to its end.
func ended(f *live.Feed, system, id string, fate tidemill.Fate, ago time.Duration) {
	m := &tidemill.Message{Tenant: "shop", Type: "purchase", Time: time.Now().Add(-ago)}
	f.Pipeline(system, "p").Ended([]tidemill.Settlement{{ID: id, Fate: fate, Cause: "because", Outcome: tidemill.Applied}}, func(int) *tidemill.Message { return m })
}

func TestWhatBecomesOfEventsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := live.New(time.Now, func(n int) int { return n - 1 })
		d := newDesk(t, admin.Parts{Common: &answer.Common{}, Fates: f})
		defer d.api.Close()
		see := func(query string) (l api.Live) { d.into(d.get("live"+query), &l); return l }
		if l := see(""); len(l.Items) != 0 || l.Since.IsZero() {
			t.Errorf("the first answer is %+v", l)
		}
		see("?system=crm")
		ended(f, "delivery", "slow", tidemill.Delivered, 5*time.Second)
		ended(f, "delivery", "quick", tidemill.Dead, time.Second)
		ended(f, "delivery", "quicker", tidemill.Dead, 0)
		f.Came("delivery", "shop", "", 1, "unauthorized: no")
		time.Sleep(time.Second)
		l := see("")
		if len(l.Items) != 4 || l.Counts["dead"] != 2 || l.Counts["refused"] != 1 || len(l.Systems) != 1 || l.Systems[0] != (api.LiveSystem{System: "delivery", Delay: 1, Longest: 5}) {
			t.Errorf("it shows %+v", l)
		}
		if l := see("?system=crm"); len(l.Items) != 0 {
			t.Errorf("another system shows %+v", l.Items)
		}
		if w := d.ask(http.MethodGet, "live?sytem=crm", ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "system") {
			t.Errorf("a wrong parameter is answered %d %s", w.Code, w.Body)
		}
		for n := range live.Looks - 2 {
			see(fmt.Sprint("?owner=", n))
		}
		if w := d.ask(http.MethodGet, "live?owner=more", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "30" {
			t.Errorf("one filter too many is answered %d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}

func TestTheStreamShowsWhatBecomesOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := live.New(time.Now, func(n int) int { return n - 1 })
		d := newDesk(t, admin.Parts{Common: &answer.Common{}, Fates: f})
		defer d.api.Close()
		out := listen(t, d, t.Context(), "stream?topic=live:system%3Ddelivery%26owner%3Dshop")
		if _, name, e := out.event(t); name != "live" || e.Live == nil || len(e.Live.Items) != 0 {
			t.Errorf("it begins with %s %+v", name, e)
		}
		ended(f, "crm", "not this", tidemill.Delivered, 0)
		for n := range 100 { // with texts that grow when they are written
			ended(f, "delivery", fmt.Sprint(n, strings.Repeat("<", 500)), tidemill.Delivered, 0)
			f.Came("delivery", "shop", "rejected", 1, fmt.Sprint(n, strings.Repeat("<", 500)))
			time.Sleep(50 * time.Millisecond)
		}
		for {
			_, _, e := out.event(t)
			if e.Problem != "" {
				t.Error(e.Problem)
				break
			}
			if len(e.Live.Items) == 20 {
				break
			}
		}
		out.end()
		for _, wrong := range []string{"live:sytem%3Dcrm", "live:%25", "alive"} {
			if w := d.ask(http.MethodGet, "stream?topic="+wrong, ""); w.Code/100 != 4 {
				t.Errorf("the topic %s is answered %d", wrong, w.Code)
			}
		}
		synctest.Wait()
		time.Sleep(live.Unseen + time.Second)
		ended(f, "delivery", "late", tidemill.Dead, 0)
		if f.On() {
			t.Error("nobody listens, and it goes on")
		}
	})
}
