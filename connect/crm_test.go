package connect

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

func TestCRM(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { testCRM(t, nil) })
	t.Run("on Redis and PostgreSQL", func(t *testing.T) {
		testenv.Need(t)
		redis := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
		testCRM(t, map[string]string{"TIDEMILL_REDIS_URL": "redis://" + redis.Addr, "TIDEMILL_POSTGRES_URL": testenv.Postgres(t), "TIDEMILL_STRICT": "true"})
	})
}

// testCRM is an event's whole life, with all that can happen to it.
func testCRM(t *testing.T, vars map[string]string) {
	w := newCRM(t, vars)
	began := time.Now().Add(-time.Second)

	// A mapping brings it to the profile, once.
	w.send("club", "e1", "member.created", `{"address":{"city":"Berlin"},"points":5}`, "accepted")
	w.becomes("e1", "completed")
	if got := w.ann(); got["city"] != `"Berlin"` || got["points"] != "5" {
		t.Errorf("the profile has %v", got)
	}
	w.send("club", "e1", "member.created", `{"address":{"city":"Berlin"},"points":5}`, "duplicate")
	if code, body := w.ask("POST", "/v1/crm/events", "other-key", anEvent("club", "e9", "member.created", `{}`)); code != http.StatusForbidden {
		t.Errorf("with another tenant's key, whose name differs in the case of a letter: %d %s", code, body)
	}
	if code, body := w.ask("POST", "/v1/crm/events", "no-key", anEvent("club", "e9", "member.created", `{}`)); code != http.StatusUnauthorized {
		t.Errorf("with nobody's key: %d %s", code, body)
	}

	// What no handler is for is skipped; an invalid number is a matter of validation.
	w.send("club", "e2", "booking.made", `{}`, "accepted")
	w.becomes("e2", "skipped")

	// A failing endpoint: three tries, and a dead letter.
	w.app.answers(http.StatusServiceUnavailable)
	w.send("club", "e3", "order.paid", `{"total":12.50}`, "accepted")
	w.becomes("e3", "dead")
	if asked, _ := w.app.of("club/e3"); asked != 3 {
		t.Errorf("the endpoint was asked %d times, want 3", asked)
	}
	if _, attempts := w.told("e3"); attempts != 3 {
		t.Errorf("the sync log has %d attempts, want 3", attempts)
	}
	dead := func() string { _, body := w.ask("GET", "/api/v1/dead?pipeline=crm-events", "", ""); return body }
	if l := dead(); !strings.Contains(l, "e3") || !strings.Contains(l, "503") || strings.Contains(l, "canary") {
		t.Errorf("dead letters: %s", l)
	}

	if lines := w.log.of(t, "e1"); len(lines) == 0 {
		t.Error("nothing is logged of e1")
	} else {
		has(t, lines[0], map[string]any{"msg": "Event processed", "eventType": "member.created", "tenantId": "club", "profileId": nil, "duration": nil, "isNewProfile": true})
	}
	until(t, "not all tries of e3 are logged", func() bool { return len(w.log.of(t, "e3")) == 3 })
	for n, line := range w.log.of(t, "e3") {
		has(t, line, map[string]any{"level": "ERROR", "msg": "Event processing failed", "eventType": "order.paid", "tenantId": "club", "error": nil, "attempt": float64(n + 1)})
	}

	// Retried, when the endpoint is back.
	w.app.answers(http.StatusOK)
	if code, body := w.ask("POST", "/api/v1/dead/replay?pipeline=crm-events&id=e3", "", ""); code != http.StatusOK {
		t.Fatalf("retry: %d %s", code, body)
	}
	w.becomes("e3", "completed")
	until(t, "the letter stays", func() bool { return dead() == noneListed })
	if _, body := w.app.of("club/e3"); !strings.HasPrefix(body, `{"event":`+anEvent("club", "e3", "order.paid", `{"total":12.50}`)+`,"profile":{"id":`) {
		t.Errorf("the endpoint took %s", body)
	}

	w.replays(began)

	audit := func() string { _, body := w.ask("GET", "/api/v1/audit", "", ""); return body }
	until(t, "the books do not balance with nothing in flight: "+audit(), func() bool {
		return strings.Contains(audit(), `"balanced":true`) && strings.Contains(audit(), `"in_flight":0`)
	})
	_, numbers := w.ask("GET", "/metrics", "", "")
	for _, want := range []string{`crm_events_processed_total{status="completed",type="member.*"} 2`, `crm_events_failed_total{type="order.paid"} 3`, "crm_dlq_depth 0"} {
		if !strings.Contains(numbers, want) {
			t.Errorf("metrics are without %s", want)
		}
	}
	if _, body := w.ask("GET", "/api/v1/doctor", "", ""); !strings.Contains(body, "1 of 2 may send events unencrypted") || strings.Contains(body, `"verdict":"fail"`) || vars == nil && !strings.Contains(body, "none was ever found damaged") {
		t.Errorf("doctor: %s", body)
	}

	// All of it is still known after a restart.
	w.end()
	w.start()
	w.send("club", "e1", "member.created", `{"address":{"city":"Berlin"},"points":5}`, "duplicate")
	if s, _ := w.told("e3"); s != "completed" || w.ann()["points"] != "10" {
		t.Errorf("after a restart e3 is %s, and the profile has %v", s, w.ann())
	}
}

// replays asks for what was taken since then to be handled once more.
func (w *crmWorld) replays(since time.Time) {
	w.t.Helper()
	request := fmt.Sprintf(`{"id":"again","since":%q,"until":%q,"tenant":"club"}`, since.Format(time.RFC3339Nano), time.Now().Add(time.Second).Format(time.RFC3339Nano))
	code, body := w.ask("POST", "/api/v1/crm/replays", "", request)
	if code != http.StatusCreated {
		w.t.Fatalf("replay: %d %s", code, body)
	}
	until(w.t, "the profile has points of one run", func() bool { return w.ann()["points"] == "10" })
	until(w.t, "the endpoint was not asked again", func() bool { _, body := w.app.of("club/e3~again"); return body != "" })
	until(w.t, "the replay goes on", func() bool {
		_, body := w.ask("GET", "/api/v1/crm/replays/again", "", "")
		return strings.Contains(body, `"done"`)
	})
	if code, body := w.ask("POST", "/api/v1/crm/replays", "", request); code != http.StatusOK {
		w.t.Errorf("the same request once more: %d %s", code, body)
	}
}
