package connect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/logbook"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconfig"
)

func settings(t *testing.T, flags ...string) *config.Loaded {
	t.Helper()
	m := map[string]string{"data": filepath.Join(t.TempDir(), "data"), "listen": "127.0.0.1:0", "admin.rates.reads": "0", "admin.rates.changes": "0"} // tests ask quickly
	for i := 0; i < len(flags); i += 2 {
		m[flags[i]] = flags[i+1]
	}
	c, err := systems.All().Settings().Load(config.Layers{Flags: m})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c *config.Loaded, o Options) *Instance {
	t.Helper()
	o.Log = logbook.Watch(t, o.Log)
	in, err := Open(t.Context(), systems.All(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// running runs an instance, with a server or without, and returns how to end it.
func running(t *testing.T, in *Instance, server *serve.Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- in.Run(ctx, server, func() { close(ready) }) }()
	<-ready
	return sync.OnceValue(func() error { cancel(); return <-ended })
}

func get(in *Instance, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	in.byOperator(r)
	r.Header.Set("Accept", operation.LinesType) // of listings
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	return w
}

// byOperator makes a request one of somebody on this machine who has the token.
func (i *Instance) byOperator(r *http.Request) {
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Authorization", "Bearer "+i.token.Reveal())
}

func TestOpenAndCloseLeaveNothingBehind(t *testing.T) {
	c := settings(t)
	once := func() {
		in := open(t, c, Options{})
		if err := running(t, in, nil)(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Errorf("a second Close = %v", err)
		}
	}
	once()
	before, files := runtime.NumGoroutine(), openFiles()
	for range 5 {
		once()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
		}
	}
	if n := openFiles(); n > files {
		t.Errorf("%d files are open, %d before", n, files)
	}
}

// openFiles counts them where the system can tell.
func openFiles() int {
	es, _ := os.ReadDir("/proc/self/fd")
	return len(es)
}

func TestAnOpenThatFailsGivesTheDataFree(t *testing.T) {
	c := settings(t)
	for _, spoil := range []struct {
		name string
		do   func(*config.Loaded, *Options)
		want string
	}{
		{"a system that there is not", func(_ *config.Loaded, o *Options) { o.Systems = []string{"analytics", "nonsense"} }, `there is no system "nonsense"`},
		{"a proxy that is none", func(c *config.Loaded, _ *Options) { c.HTTP.TrustProxy = []string{"mars"} }, "mars"},
		{"one key for two projects", func(c *config.Loaded, _ *Options) {
			c.Projects = []config.Project{{Name: "a", Key: tidemill.NewSecret("canary")}, {Name: "b", Key: tidemill.NewSecret("canary")}}
		}, `project "b": `},
	} {
		wrong, o := *c, Options{}
		spoil.do(&wrong, &o)
		in, err := Open(t.Context(), systems.All(), &wrong, o)
		if err == nil || in != nil || !strings.Contains(err.Error(), spoil.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Open = %v, want an error with %q", spoil.name, err, spoil.want)
		}
		if in, err = Open(t.Context(), systems.All(), c, Options{}); err != nil {
			t.Fatalf("after %s: %v", spoil.name, err)
		}
		if _, err := Open(t.Context(), systems.All(), c, Options{}); err == nil || !strings.Contains(err.Error(), "is in use by") {
			t.Errorf("two instances on one folder: %v", err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheFirstProjectIsMadeOnce(t *testing.T) {
	c := settings(t)
	in := open(t, c, Options{})
	made, err := in.FirstProject(t.Context())
	if err != nil || made == nil || made.Name != "default" || !strings.HasPrefix(made.Key.Reveal(), "tm_") || project.CheckKey(made.Key.Reveal()) != nil {
		t.Fatalf("FirstProject = %v, %v", made, err)
	}
	if p, err := in.Projects.ByKey(t.Context(), project.HashOf(made.Key)); err != nil || p.Name != "default" {
		t.Errorf("its key belongs to %v, %v", p, err)
	}
	for range 2 {
		if again, err := in.FirstProject(t.Context()); again != nil || err != nil {
			t.Errorf("a second FirstProject = %v, %v", again, err)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		in = open(t, c, Options{})
	}
	_ = in.Close()

	c = settings(t)
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("k")}}
	in = open(t, c, Options{})
	defer in.Close()
	if made, err := in.FirstProject(t.Context()); made != nil || err != nil {
		t.Errorf("next to a configured project: FirstProject = %v, %v", made, err)
	}
}

func TestRunEndsWithAnErrorWhenItsOnlySystemGivesUp(t *testing.T) {
	in := open(t, settings(t), Options{})
	defer in.Close()
	gaveUp := errors.New("100 errors in a row")
	in.systems[0].Listen(func(context.Context) error { return gaveUp })
	server, err := serve.Listen("127.0.0.1:0", in, serve.Limits{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Run(t.Context(), server, func() {}); !errors.Is(err, gaveUp) {
		t.Errorf("Run = %v, want %v", err, gaveUp)
	}
	if w := get(in, "/readyz"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("/readyz is answered %d", w.Code)
	}
	if _, err := net.Dial("tcp", server.Addr()); err == nil {
		t.Error("the server still listens")
	}
}

func TestASystemThatGivesUpLeavesTheOthersRunning(t *testing.T) {
	in := open(t, settings(t), Options{})
	defer in.Close()
	gaveUp, ended := errors.New("gave up"), make(chan bool)
	in.systems = append(in.systems, flow.NewSystem(flow.SystemParts{Name: "other", Listeners: []flow.Listener{func(context.Context) error { return gaveUp }},
		Close: []func() error{func() error { close(ended); return nil }}}))
	stop := running(t, in, nil)
	<-ended
	if w := get(in, "/api/v1/status"); !strings.Contains(w.Body.String(), `"state":"running"`) {
		t.Errorf("the status is %s", w.Body)
	}
	if err := stop(); !errors.Is(err, gaveUp) {
		t.Errorf("Run = %v, want %v", err, gaveUp)
	}
}

// TestReadinessFailsBeforeTheDoorIsShut stops an instance while a request is under way.
func TestReadinessFailsBeforeTheDoorIsShut(t *testing.T) {
	c := settings(t)
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("shop-key")}}
	in := open(t, c, Options{})
	if w := get(in, "/readyz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "starting or stopping\n" {
		t.Errorf("before the start /readyz is answered %d %s", w.Code, w.Body)
	}
	server, err := serve.Listen("127.0.0.1:0", in, serve.Limits{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- in.Run(ctx, server, func() { close(ready) }) }()
	<-ready
	for _, path := range []string{"/readyz", "/livez"} {
		if w := get(in, path); w.Code != 200 || w.Body.String() != "ok\n" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s is answered %d %s", path, w.Code, w.Body)
		}
	}

	body := `{"api_key":"shop-key","batch":[{"event":"viewed","distinct_id":"d","properties":{}}]}`
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(conn, "POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	in1 := bufio.NewReader(conn)
	if line, err := in1.ReadString('\n'); err != nil || !strings.Contains(line, "100") { // the handler reads: the request has begun
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = in1.ReadString('\n')
	cancel()
	for get(in, "/readyz").Code == 200 {
		runtime.Gosched()
	}
	select {
	case err := <-ended:
		t.Fatalf("Run returned %v before the request was done", err)
	default:
	}
	_, _ = io.WriteString(conn, body)
	resp, err := http.ReadResponse(in1, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	w := get(in, "/api/v1/audit")
	kept := strings.Contains(w.Body.String(), `"accepted":1`)
	if kept != (resp.StatusCode == 200) || !strings.Contains(w.Body.String(), `"balanced":true`) {
		t.Errorf("the request was answered %s %s; the audit says %s", resp.Status, answer, w.Body)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheHeartbeat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heartbeat")
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	in := open(t, settings(t, "analytics.heartbeat", path), Options{Now: func() time.Time { return now }})
	defer in.Close()
	var beat flow.Loop
	for _, l := range in.Loops {
		if l.Name == "heartbeat" {
			beat = l
		}
	}
	if beat.Do == nil || beat.Every != 15*time.Second || !beat.AtStart {
		t.Fatalf("the loop is %+v", beat)
	}
	for range 2 {
		now = now.Add(15 * time.Second)
		if err := beat.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != fmt.Sprint(now.UnixMilli()) {
			t.Errorf("the file has %q, %v; want %d", b, err, now.UnixMilli())
		}
	}
	if es, _ := os.ReadDir(filepath.Dir(path)); len(es) != 1 {
		t.Errorf("it left %v", es)
	}
	analyticsconfig.Of(in.Config).Heartbeat = ""
	if err := in.Heartbeat(filepath.Join(t.TempDir(), "no", "such")).Do(t.Context()); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}

func TestADataFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := settings(t, "data", filepath.Join(file, "data"))
	if _, err := Open(t.Context(), systems.All(), c, Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Open = %v", err)
	}
	damaged := settings(t)
	if err := os.MkdirAll(damaged.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(DatabasePath(damaged.Data), bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), systems.All(), damaged, Options{}); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("Open on a damaged file = %v", err)
	}
}
