package access_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/serve/access"
)

// knock logs in from an address, wrongly, by a name.
func (w *world) knock(remote, name string) error {
	r := httptest.NewRequest(http.MethodPost, "https://console.example/", nil)
	r.RemoteAddr = remote + ":1"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	_, _, err := w.enter(r, access.Proof{Name: name, Password: "wrong"})
	return err
}

func TestALoginThatNoWayIsOpenToIsToldToNobodyAndCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	w := newWorld(t, func(o *access.Options) { o.Metrics = metrics })
	far := func(r *http.Request) *http.Request { r.Host = "evil.example"; return r }
	n := 0
	want := func(err error, status int) {
		t.Helper()
		n++
		w.is(err, status)
	}
	for range 20 {
		_, err := w.Finish(httptest.NewRecorder(), visit("/console/login/nope/back"), "nope")
		want(err, http.StatusNotFound)
		_, _, err = w.enter(far(from(http.MethodPost)), access.Proof{Name: "ada", Password: password})
		want(err, http.StatusForbidden)
		_, _, err = w.enter(header(from(http.MethodPost), "Sec-Fetch-Site", "cross-site"), access.Proof{Name: "ada", Password: password})
		want(err, http.StatusForbidden)
		_, _, err = w.enter(from(http.MethodGet), access.Proof{Name: "ada", Password: password})
		want(err, http.StatusMethodNotAllowed)
	}
	if len(w.told) != 0 {
		t.Errorf("told %d: %+v", len(w.told), w.told[0])
	}
	if got := counted(t, metrics, "no_way"); got != float64(n) {
		t.Errorf("%v are counted, want %d", got, n)
	}
	w.in(access.Proof{Name: "ada", Password: password}) // none was a guess
}

// counted is how many were refused for a reason.
func counted(t *testing.T, from prometheus.Gatherer, reason string) float64 {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == "tidemill_api_refused_total" && m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestOneRefusedLoginOfAnAddressIsToldOfInAQuarterOfAnHourWithTheNumberOfOthers(t *testing.T) {
	w := newWorld(t, nil)
	for range 10 {
		w.is(w.knock("192.0.2.1", "ada"), http.StatusUnauthorized)
	}
	for range 100 {
		w.is(w.knock("192.0.2.1", "ada"), http.StatusTooManyRequests)
	}
	if len(w.told) != 1 || w.told[0].More != 0 || w.told[0].Err == nil || w.told[0].Who.From.String() != "192.0.2.1" {
		t.Fatalf("told %+v", w.told)
	}
	w.now = w.now.Add(15 * time.Minute)
	w.is(w.knock("192.0.2.1", "ada"), http.StatusUnauthorized)
	if len(w.told) != 2 || w.told[1].More != 109 {
		t.Fatalf("told %+v", w.told)
	}
	w.is(w.knock("192.0.2.1", "ada"), http.StatusUnauthorized)
	w.is(w.knock("192.0.2.2", "ada"), http.StatusUnauthorized) // another address
	r := httptest.NewRequest(http.MethodPost, "https://console.example/", nil)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	_, _, err := w.enter(r, access.Proof{Name: "root", Password: password})
	if w.is(err, 0); len(w.told) != 4 || w.told[2].More != 0 || w.told[3].Err != nil || w.told[3].More != 1 {
		t.Errorf("told %+v", w.told)
	}
}

func TestRefusedLoginsOfManyAddressesAreToldOfUpToABound(t *testing.T) {
	w := newWorld(t, nil)
	flood := func() {
		for i := range 1000 {
			_ = w.knock(fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), fmt.Sprint("name", i))
		}
	}
	flood()
	if len(w.told) != 200 {
		t.Errorf("told %d", len(w.told))
	}
	w.now = w.now.Add(15 * time.Minute)
	if flood(); len(w.told) != 400 {
		t.Errorf("told %d", len(w.told))
	}
}
