package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What a sender may send in a minute changes while an instance runs, and so do the processors of windows.
func TestAReloadChangesLimitsAndProcessors(t *testing.T) {
	const text = `projects: [{name: news, key: a-long-key-of-news-1}]
crm:
  tenants: [{id: club, keys: [key-of-the-club-1]}]
  rate_limit: %d
delivery:
  sites: [{id: shop, keys: [key-of-the-shop-1], public: true}]
  public_rate: %d
windows:
  window: 1h
  rate_limit: %d
  processors: [%s]
`
	r := reloadable(t, fmt.Sprintf(text, 0, 0, 0, "{filter: {keep: numMentions > 1}}"), nil)
	n := 0
	crm := func() int {
		n++
		code, _ := send(r.Instance, "/v1/crm/events", "key-of-the-club-1", "", fmt.Sprintf(`{"id":"e%d","type":"t","tenantId":"club","identity":{"email":"a@b.example"},"occurredAt":"2026-01-15T10:00:00Z","payload":{}}`, n))
		return code
	}
	public := func() int {
		n++
		id := fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n)
		q := httptest.NewRequest(http.MethodPost, "http://localhost/collect", strings.NewReader(fmt.Sprintf(viewed, id)))
		q.Header.Set("Content-Type", "application/json")
		q.RemoteAddr = "192.0.2.1:1"
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		return w.Code
	}
	record := func() int {
		n++
		q := httptest.NewRequest(http.MethodPost, "http://localhost/v1/windows/events", strings.NewReader(fmt.Sprintf(`{"globalEventId":%d,"numMentions":3}`, n)))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-API-Key", "a-long-key-of-news-1")
		q.Header.Set("X-Batch-ID", "b")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		return w.Code
	}
	all := func(want ...int) {
		t.Helper()
		for i, f := range []func() int{crm, public, record} {
			if got := f(); got/100 != want[i]/100 || want[i] == http.StatusTooManyRequests && got != want[i] {
				t.Errorf("number %d is answered %d, want %d", i, got, want[i])
			}
		}
	}
	for range 3 {
		all(200, 200, 200)
	}
	r.write(fmt.Sprintf(text, 1, 1, 1, "{name: wide, filter: {keep: numMentions > 0}}, {geo: {zero: true}}"))
	if applied, restart := r.must(); applied != "changed delivery.public_rate; changed crm.rate_limit; changed windows.rate_limit; removed windows.processors[number 1]; added windows.processors[wide]; added windows.processors[number 2]" || restart != "" {
		t.Errorf("applied %q, restart %q", applied, restart)
	}
	all(200, 200, 200) // the first that is counted
	all(429, 429, 429)
	if metrics := get(r.Instance, "/metrics").Body.String(); !strings.Contains(metrics, `processor="wide"`) || !strings.Contains(metrics, `processor="geo"`) || strings.Contains(metrics, `processor="filter"`) {
		t.Error("the processors of the metrics are not those of the file")
	}
	r.write(fmt.Sprintf(text, 0, 0, 0, "{name: wide, filter: {keep: numMentions >}}"))
	if _, refused := r.reload(http.MethodPost); refused == nil || !strings.Contains(refused.Detail, "windows.processors") {
		t.Errorf("a processor that cannot work: %v", refused)
	}
	r.write(fmt.Sprintf(text, 0, 0, 0, ""))
	if _, restart := r.must(); restart != "" {
		t.Errorf("it needs a restart for %q", restart)
	}
	all(200, 200, 200)
}
