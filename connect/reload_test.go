package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems"
)

// reloaded is an instance that runs, with a file of settings that can be changed.
type reloaded struct {
	*Instance
	t    *testing.T
	path string
	log  *lockedBuffer
	data string
	end  func() error
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func reloadable(t *testing.T, text string, getenv map[string]string) *reloaded {
	t.Helper()
	r := &reloaded{t: t, path: filepath.Join(t.TempDir(), "tidemill.yaml"), log: &lockedBuffer{}, data: filepath.Join(t.TempDir(), "data")}
	r.write(text)
	load := func() (*config.Loaded, error) {
		return systems.All().Settings().Load(config.Layers{File: r.path, Getenv: func(k string) string { return getenv[k] }, Flags: map[string]string{"data": r.data, "listen": "127.0.0.1:0", "admin.rates.reads": "0", "admin.rates.changes": "0"}})
	}
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	level := &slog.LevelVar{}
	level.Set(c.LogOf(systems.All().Configured(c)).Slog())
	r.Instance = open(t, c, Options{Load: load, Level: level, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: level}))})
	stop := running(t, r.Instance, nil)
	r.end = sync.OnceValue(func() error {
		if err := stop(); err != nil {
			return err
		}
		return r.Instance.Close()
	})
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *reloaded) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload asks the API for a reload, or with GET for what it would change.
func (r *reloaded) reload(method string) (done api.Reload, refused *operation.Problem) {
	r.t.Helper()
	req := httptest.NewRequest(method, "http://localhost/api/v1/config/reload", nil)
	r.byOperator(req)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	var into any = &done
	if w.Code != http.StatusOK {
		refused = &operation.Problem{}
		into = refused
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		r.t.Fatal(err)
	}
	return done, refused
}

// must reloads, and returns what changed in words.
func (r *reloaded) must() (applied, restart string) {
	r.t.Helper()
	done, refused := r.reload(http.MethodPost)
	if refused != nil {
		r.t.Fatal(refused)
	}
	return changed(done.Applied), changed(done.Restart)
}

func changed(all []api.SettingChange) string {
	var lines []string
	for _, c := range all {
		lines = append(lines, c.What+" "+c.Setting)
	}
	return strings.Join(lines, "; ")
}

func (r *reloaded) inForce() string {
	return get(r.Instance, "/api/v1/config").Body.String()
}

func TestAReloadChangesTheLevelOfTheLog(t *testing.T) {
	r := reloadable(t, "log: {level: warn}\n", nil)
	r.Log.Info("ready", "took", "canary one")
	r.write("log: {level: info}\n")
	if done, refused := r.reload(http.MethodGet); refused != nil || changed(done.Applied) != "changed log.level" || done.Applied[0].Before != "warn" || done.Applied[0].After != "info" || done.File != r.path {
		t.Fatalf("the preview is %+v, %v", done, refused)
	}
	r.Log.Info("ready", "took", "canary two")
	if applied, restart := r.must(); applied != "changed log.level" || restart != "" {
		t.Errorf("applied %q, restart %q", applied, restart)
	}
	r.Log.Info("ready", "took", "canary three")
	if log := r.log.String(); strings.Contains(log, "canary one") || strings.Contains(log, "canary two") || !strings.Contains(log, "canary three") {
		t.Error(log)
	}
	if !strings.Contains(r.inForce(), "level: info") {
		t.Error(r.inForce())
	}
	if applied, restart := r.must(); applied+restart != "" {
		t.Errorf("of an unchanged file it says %q, %q", applied, restart)
	}
	trail := get(r.Instance, "/api/v1/audit-trail?operation=reloadConfig").Body.String()
	if strings.Count(trail, `"outcome":"done"`) != 2 || !strings.Contains(trail, `"setting":"log.level"`) {
		t.Errorf("the audit trail has %s", trail)
	}
}

func TestWhatNeedsARestartIsSaidUntilItIsDone(t *testing.T) {
	r := reloadable(t, "log: {level: warn}\n", nil)
	r.write("log: {level: info}\nhttp: {connections: 99}\nanalytics: {lanes: 3}\ndelivery: {sites: [{id: shop, public: true}]}\n")
	for range 2 {
		_, restart := r.must()
		if restart != "changed http.connections; changed analytics.lanes; added delivery.sites[shop]; changed systems" {
			t.Errorf("it needs a restart for %q", restart)
		}
	}
	if now := r.inForce(); !strings.Contains(now, "connections: 4096") || !strings.Contains(now, "level: info") || strings.Contains(now, "shop") {
		t.Errorf("in force is %s", now)
	}
}

func TestOfAWrongConfigurationNothingIsApplied(t *testing.T) {
	r := reloadable(t, "log: {level: warn}\nprojects: [{name: shop, key: canary-0123456789abcdef}]\n", nil)
	before := r.inForce()
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "log: {level: info", "no YAML"},
		{"an unknown setting", "log: {level: info, levle: x}", "levle"},
		{"a value that is none", "log: {level: info}\nanalytics: {lanes: many}", "analytics.lanes"},
		{"a value out of bounds", "log: {level: loud}", "log.level"},
		{"two that contradict each other", "log: {level: info}\nprojects: [{name: a, key: canary-same-0123456789}, {name: b, key: canary-same-0123456789}]", "have the same key"},
		{"a key that another project has", "log: {level: info}\nprojects: [{name: blog, key: canary-0123456789abcdef}]", "belongs to another project"},
	} {
		r.write(c.text)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			_, refused := r.reload(method)
			if method == http.MethodGet && c.name == "a key that another project has" {
				continue // the database alone knows
			}
			if refused == nil || !strings.Contains(refused.Detail, c.want) || !strings.Contains(refused.Detail, "nothing was changed") || strings.Contains(refused.Detail, "canary") {
				t.Errorf("%s, %s: %v", c.name, method, refused)
			}
		}
		if now := r.inForce(); now != before {
			t.Errorf("%s: in force is %s", c.name, now)
		}
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if _, refused := r.reload(http.MethodPost); refused == nil || !strings.Contains(refused.Detail, "read the configuration") {
		t.Errorf("no file: %v", refused)
	}
	if got := r.value("tidemill_config_reload_timestamp_seconds", "refused"); got == 0 {
		t.Error("the metrics do not say that it was refused")
	}
}

// value is that of a metric by its outcome.
func (r *reloaded) value(name, outcome string) float64 {
	r.t.Helper()
	all, err := r.Metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == outcome {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func TestAKeyOfAProjectIsGoodAfterAReload(t *testing.T) {
	r := reloadable(t, "projects: [{name: shop, key: a-long-key-of-shop-1}]\n", nil)
	send := func(key string) int {
		req := httptest.NewRequest(http.MethodPost, "http://localhost/v1/batch", strings.NewReader(`{"batch": [{"type": "track", "event": "e", "userId": "u", "messageId": "`+key+`"}]}`))
		req.SetBasicAuth(key, "")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code
	}
	if first, second := send("a-long-key-of-shop-1"), send("a-long-key-of-blog-1"); first != http.StatusOK || second != http.StatusUnauthorized {
		t.Fatalf("answers %d and %d", first, second)
	}
	r.write("projects: [{name: shop, key: a-long-key-of-shop-1}, {name: blog, key: a-long-key-of-blog-1}]\n")
	if applied, _ := r.must(); applied != "added projects[blog]" {
		t.Errorf("applied %q", applied)
	}
	if first, second := send("a-long-key-of-shop-1"), send("a-long-key-of-blog-1"); first != http.StatusOK || second != http.StatusOK {
		t.Errorf("answers %d and %d", first, second)
	}
}

// Of two reloads at once the second waits, and reads what there is when its turn comes.
func TestReloadsAreOneAtATime(t *testing.T) {
	r := reloadable(t, "log: {level: warn}\n", nil)
	load := r.options.Load
	at, goOn := make(chan bool), make(chan bool)
	var once atomic.Bool
	r.options.Load = func() (*config.Loaded, error) {
		c, err := load()
		if once.CompareAndSwap(false, true) {
			at <- true
			<-goOn
		}
		return c, err
	}
	r.write("log: {level: error}\n")
	ended := make(chan api.Reload, 2)
	reload := func(ctx context.Context) {
		done, err := r.ReloadBy(ctx, "test")
		if err != nil {
			t.Error(err)
		}
		ended <- done
	}
	go reload(t.Context())
	<-at
	r.write("log: {level: debug}\n")
	go reload(t.Context())
	impatient, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.Reload(impatient, false); err == nil {
		t.Error("a reload did not wait for the one before it")
	}
	close(goOn)
	if first, second := <-ended, <-ended; first.Applied[0].After != "error" || second.Applied[0].Before != "error" || second.Applied[0].After != "debug" {
		t.Errorf("%+v and %+v", first, second)
	}
	if !strings.Contains(r.inForce(), "level: debug") {
		t.Error(r.inForce())
	}
}

func TestNothingIsReloadedBeforeTheStartOrWithoutAFile(t *testing.T) {
	in := open(t, settings(t), Options{Load: func() (*config.Loaded, error) { return settings(t), nil }})
	defer func() { _ = in.Close() }()
	if _, err := in.Reload(t.Context(), false); err == nil || !strings.Contains(err.Error(), "starting or stopping") {
		t.Errorf("before the start: %v", err)
	}
	other := open(t, settings(t), Options{})
	defer func() { _ = other.Close() }()
	req := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/config/reload", nil)
	other.byOperator(req)
	w := httptest.NewRecorder()
	if other.ServeHTTP(w, req); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "tidemill run") {
		t.Errorf("answer %d: %s", w.Code, w.Body)
	}
}

func TestAReloadChangesWhatAProjectMaySend(t *testing.T) {
	const project = "projects: [{name: shop, key: a-long-key-of-shop-1}]\n"
	r := reloadable(t, project, nil)
	n := 0
	send := func() int {
		n++
		req := httptest.NewRequest(http.MethodPost, "http://localhost/v1/batch", strings.NewReader(fmt.Sprintf(`{"events": [{"event": "e", "distinct_id": "u", "event_id": "0190f3c2-0000-7000-8000-%012d"}]}`, n)))
		req.Header.Set("X-Api-Key", "a-long-key-of-shop-1")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code
	}
	if code := send(); code/100 != 2 {
		t.Fatalf("answered %d", code)
	}
	r.write(project + "analytics: {rate_limit: 1, rate_status: 429}\n")
	if applied, _ := r.must(); applied != "changed analytics.rate_limit; changed analytics.rate_status" {
		t.Errorf("applied %q", applied)
	}
	if first, second := send(), send(); first/100 != 2 || second != http.StatusTooManyRequests {
		t.Errorf("with a limit of one it answers %d and %d", first, second)
	}
	r.write(project)
	r.must()
	if code := send(); code/100 != 2 {
		t.Errorf("without the limit it answers %d", code)
	}
}
