package connect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/apitoken"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconfig"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// findings asks the doctor and returns what it found by check.
func findings(t *testing.T, in *Instance) map[string]preflight.Finding {
	t.Helper()
	var got struct{ Findings []preflight.Finding }
	w := get(in, "/api/v1/doctor")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	m := map[string]preflight.Finding{}
	for _, f := range got.Findings {
		if _, twice := m[f.Check]; twice || f.Detail == "" || !slices.Contains([]string{"ok", "warn", "fail"}, f.Verdict) {
			t.Errorf("finding %+v", f)
		}
		m[f.Check] = f
	}
	return m
}

func TestTheDoctor(t *testing.T) {
	c := settings(t)
	in := open(t, c, Options{})
	healthy := findings(t, in)
	for _, check := range []string{"database", "disk", "data folder", "pipeline analytics", "pipeline analytics.replay", "countries", "keys"} {
		if f := healthy[check]; f.Verdict != "ok" && check != "disk" {
			t.Errorf("%s: %+v, want ok", check, f)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if f := findings(t, in)["database"]; f.Verdict != "fail" || f.Advice == "" {
		t.Errorf("a database that cannot be read: %+v", f)
	}

	if err := os.Chmod(c.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("canary")}}
	analyticsconfig.Of(c).GeoIP.File = filepath.Join(t.TempDir(), "none.mmdb")
	in = open(t, c, Options{})
	defer in.Close()
	stop := running(t, in, nil)
	if err := in.systems[0].Pipelines()[0].Pause(); err != nil {
		t.Fatal(err)
	}
	ill := findings(t, in)
	for check, want := range map[string]string{
		"data folder":               "chmod 700 " + c.Data,
		"pipeline analytics":        "tidemill resume analytics",
		"pipeline analytics.replay": "",
		"keys":                      "take a long random one where others can reach the address",
		"countries":                 "",
	} {
		verdict := "warn"
		if check == "pipeline analytics.replay" {
			verdict = "ok"
		}
		if f := ill[check]; f.Verdict != verdict || !strings.Contains(f.Advice, want) || strings.Contains(f.Detail+f.Advice, "canary") {
			t.Errorf("%s: %+v, want %s and advice %q", check, f, verdict, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestMetrics scrapes as Prometheus does.
func TestMetrics(t *testing.T) {
	c := settings(t, "analytics.flush_interval", "1ms")
	c.Projects = []config.Project{{Name: "canary-project", Key: tidemill.NewSecret("canary-key")}}
	deliveryconfig.Of(c).Sites = []deliveryconfig.Site{{ID: "shop", Keys: []tidemill.Secret{tidemill.NewSecret("canary-site-key")}}}
	deliveryconfig.Of(c).Partners = []partner.Partner{{Name: "p", Endpoint: newPartner(t).URL, AllowHTTP: true, AllowPrivate: []string{"127.0.0.0/8"}}}
	in := open(t, c, Options{Version: "v1", Systems: []string{"analytics", "delivery", "windows"}})
	defer in.Close()
	stop := running(t, in, nil)
	defer stop()
	r := httptest.NewRequest("POST", "/batch/", strings.NewReader(`{"api_key":"canary-key","batch":[
		{"event":"canary-event","distinct_id":"canary-id","properties":{"canary-name":"canary-value"}},
		{"event":"canary-event","distinct_id":"undefined","properties":{}}]}`))
	r.Header.Set("User-Agent", "canary-agent")
	in.ServeHTTP(httptest.NewRecorder(), r)
	if code, answer := send(in, "/v1/events", "canary-site-key", "canary-idempotency", fmt.Sprintf(viewed, "0190f3c2-0000-7000-8000-000000000001")); code != http.StatusAccepted {
		t.Fatal(code, answer)
	}
	until(t, "the partner was asked", func() bool {
		return strings.Contains(get(in, "/metrics").Body.String(), "tidemill_partner_success_ratio")
	})
	counted := `tidemill_messages_settled_total{fate="delivered",pipeline="analytics"} 1` // after it is in the books
	for end := time.Now().Add(20 * time.Second); !strings.Contains(get(in, "/metrics").Body.String(), counted); {
		if time.Now().After(end) {
			t.Fatal("the event was never delivered")
		}
	}
	in.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/canary-path", nil))

	text := get(in, "/metrics").Body.String()
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("what Prometheus would read: %v, %v", problems, err)
	}
	for _, line := range []string{
		`tidemill_build_info{version="v1"} 1`, `tidemill_pipeline_running{pipeline="analytics"} 1`,
		`tidemill_books_settled{fate="delivered",pipeline="analytics"} 1`, `tidemill_books_accepted{pipeline="analytics"} 1`,
		`tidemill_books_off{pipeline="analytics"} 0`, `tidemill_books_off{pipeline="analytics.replay"} 0`,
		`tidemill_messages_settled_total{fate="delivered",pipeline="analytics"} 1`, `tidemill_breaker_open{pipeline="analytics"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	if strings.Contains(text, "canary") {
		t.Errorf("what a client sent is a label:\n%s", text)
	}

	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if w := get(in, "/metrics"); w.Code != 200 || !strings.Contains(w.Body.String(), "tidemill_build_info") {
		t.Errorf("while the books cannot be read: %d, want the other metrics", w.Code)
	}
}

func TestProfilesAreForThoseWhomTheAPIAnswers(t *testing.T) {
	in := open(t, settings(t), Options{})
	defer in.Close()
	if w := get(in, "/debug/pprof/"); w.Code != 200 {
		t.Errorf("answered %d", w.Code)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/cmdline", "/debug/pprof/trace"} {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		w := httptest.NewRecorder()
		if in.ServeHTTP(w, r); w.Code != 401 {
			t.Errorf("%s without the token is answered %d", path, w.Code)
		}
	}
}

// TestWhoNeedsNoFolderStartsWithoutOne is for instances whose state is on servers, where nothing
// can be written: all but the API works.
func TestWhoNeedsNoFolderStartsWithoutOne(t *testing.T) {
	c := settings(t)
	if err := os.Symlink("nowhere/at/all", c.Data); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	token, err := apiToken(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil || !token.IsZero() || !strings.Contains(log.String(), "the API answers nobody: set TIDEMILL_TOKEN") {
		t.Errorf("a folder that cannot be made: %v, %v, and the log has\n%s", token.Reveal(), err, &log)
	}
	c = settings(t)
	if made, err := apiToken(c, Options{}); err != nil || made.IsZero() || os.Chmod(filepath.Join(c.Data, apitoken.File), 0o644) != nil {
		t.Fatalf("%v", err)
	}
	if _, err := apiToken(c, Options{}); err == nil || !strings.Contains(err.Error(), "others can open") {
		t.Errorf("a token that others can read: %v", err)
	}
}
