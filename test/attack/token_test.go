//go:build servers

package attack

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/test/process"
)

// TestAProxyOnThisMachinePublishesNoAPI has a proxy in front that does not name its client.
func TestAProxyOnThisMachinePublishesNoAPI(t *testing.T) {
	t.Parallel()
	a := start(t, []string{"analytics"}, nil)
	to, err := url.Parse("http://" + a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}) // which sends no X-Forwarded-For
	t.Cleanup(proxy.Close)
	asks := func(method, path, auth string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, proxy.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		return a.do(r)
	}
	for _, c := range []struct{ method, path string }{
		{"GET", "status"}, {"GET", "config"}, {"GET", "events?project=honest"}, {"GET", "persons?project=honest&distinct_id=x"}, {"GET", "dead"},
		{"POST", "dead/delete?all=true"}, {"POST", "pipelines/analytics/pause"}, {"POST", "events?project=honest"}, {"GET", "../../debug/pprof/heap"},
	} {
		path := strings.TrimPrefix("/api/v1/"+c.path, "/api/v1/../..")
		for _, auth := range []string{"", "Bearer " + hostile.key} {
			if status, said := asks(c.method, path, auth); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
				t.Errorf("%s %s by the proxy with %q is answered %d: %.200s", c.method, path, auth, status, said)
			}
		}
	}
	if status, said := asks("GET", "/api/v1/status", "Bearer "+a.Token()); status != http.StatusOK {
		t.Errorf("an operator behind the proxy is answered %d: %.200s", status, said)
	}
	if i, err := os.Stat(filepath.Join(a.Dir, "api.token")); err != nil || i.Mode() != 0o600 {
		t.Errorf("the token's file: %v, %v; want mode 0600", i, err)
	}
	if strings.Contains(a.Log(), a.Token()) {
		t.Error("the token is in the log")
	}
	a.serves("proxied", 3)
}

// TestNoAuthIsNotForProxies asks an instance without a token with each header that says that a
// request was passed on.
func TestNoAuthIsNotForProxies(t *testing.T) {
	t.Parallel()
	a := start(t, []string{"analytics", "--no-auth"}, nil)
	if status, said := a.get("/api/v1/status"); status != http.StatusOK {
		t.Fatalf("a program on this machine is answered %d: %s", status, said)
	}
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-IP"} {
		for _, value := range []string{"192.0.2.1", ""} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr+"/api/v1/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(name, value)
			if status, said := a.do(r); status != http.StatusForbidden {
				t.Errorf("with %s: %q it is answered %d: %.200s", name, value, status, said)
			}
		}
	}
}

// TestAFolderDoesNotGetTheToken runs commands in a folder whose tidemill.yaml names another
// server, which is a trap.
func TestAFolderDoesNotGetTheToken(t *testing.T) {
	t.Parallel()
	const token = "the-operators-token-0123456789"
	var mu sync.Mutex // guards told
	var told []string
	trap := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Host+" "+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"version":"v","data":"x","systems":[]}`)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: trap}}
	server.Start()
	t.Cleanup(server.Close)
	// Another machine, as the binary sees it: every request goes through this proxy, except
	// those to loopback.
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "HTTP_PROXY=" + server.URL, "http_proxy=" + server.URL}
	binary, err := process.Binary()
	if err != nil {
		t.Fatal(err)
	}
	run := func(yaml string, env []string, args ...string) (string, error) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "tidemill.yaml"), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		told = nil
		mu.Unlock()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir, cmd.Env, cmd.Stdin = folder, append(environ, env...), strings.NewReader("{}\n")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		return said.String(), err
	}
	heard := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
	for _, host := range []string{"203.0.113.5:8484", "evil.example:8484", "[2001:db8::5]:8484", "127.0.0.1.evil.example:80"} {
		yaml := fmt.Sprintf("listen: '%s'\n", host)
		for _, c := range []struct {
			yaml string
			env  []string
			args []string
		}{
			{yaml + "admin: {key: a-long-enough-key-0123}\n", []string{"TIDEMILL_TOKEN=" + token}, []string{"status"}},
			{yaml, []string{"TIDEMILL_TOKEN=" + token}, []string{"send"}},
			{yaml, []string{"TIDEMILL_TOKEN=" + token}, []string{"events", "--json"}},
			{yaml, []string{"TIDEMILL_TOKEN=" + token}, []string{"bridge", "send"}},
			{yaml + "admin: {key: a-long-enough-key-0123}\n", nil, []string{"audit", "--token", token}},
		} {
			said, err := run(c.yaml, c.env, c.args...)
			if err == nil || !strings.Contains(said, "the API's token is not sent to another machine without TLS") || !strings.Contains(said, "--server http://") {
				t.Errorf("%s: tidemill %v ends with %v and says\n%s", host, c.args, err, said)
			}
			if got := heard(); len(got) > 0 || strings.Contains(said, token) {
				t.Errorf("%s: tidemill %v told somebody %q", host, c.args, got)
			}
		}
	}
	// A caller that names the server sends the token there: the trap hears it.
	if said, err := run("", []string{"TIDEMILL_TOKEN=" + token}, "status", "--server", "http://203.0.113.5:8484"); err != nil || len(heard()) == 0 || !strings.HasSuffix(heard()[0], "Bearer "+token) {
		t.Errorf("a server that was named was told %q (%v)\n%s", heard(), err, said)
	}
	// A server named elsewhere does not get the token in the data folder here.
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "api.token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := run("", nil, "status", "--server", "http://203.0.113.5:8484", "--data", folder); err != nil || len(heard()) == 0 || strings.Contains(strings.Join(heard(), ""), token) {
		t.Errorf("a server elsewhere was told %q (%v)\n%s", heard(), err, said)
	}
	// Nor does the target of a redirect by the instance on this machine.
	sent := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:"+fmt.Sprint(l.Addr().(*net.TCPAddr).Port)+"/api/v1/status", http.StatusTemporaryRedirect))
	t.Cleanup(sent.Close)
	if said, err := run("", nil, "status", "--server", sent.URL, "--token", token); err == nil || len(heard()) > 0 {
		t.Errorf("a redirect led to %q (%v)\n%s", heard(), err, said)
	}
}

// TestAThousandWrongTokens are tried from one address, while the right one is used.
func TestAThousandWrongTokens(t *testing.T) {
	t.Parallel()
	a := start(t, []string{"analytics"}, nil)
	asks := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr+"/api/v1/status", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := a.http.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	right := a.Token()
	const guesses, guessers = 1000, 20
	var mu sync.Mutex // guards answers
	answers := map[int]int{}
	var all sync.WaitGroup
	for g := range guessers {
		all.Go(func() {
			for n := range guesses / guessers {
				status := asks(fmt.Sprintf("%s%d-%d", right[:20], g, n))
				mu.Lock()
				answers[status]++
				mu.Unlock()
				if n%10 == 0 {
					if status := asks(right); status != http.StatusOK {
						t.Errorf("the right token is answered %d", status)
					}
				}
			}
		})
	}
	all.Wait()
	// Ten are free, and one each six seconds, however long it takes.
	if answers[401] < 10 || answers[401] > 100 || answers[401]+answers[429] != guesses {
		t.Errorf("%d wrong tokens are answered %v, want most of them 429", guesses, answers)
	}
	wrong, slowed := a.metric("tidemill_api_refused_total", `reason="wrong_token"`), a.metric("tidemill_api_refused_total", `reason="slowed"`)
	if int(wrong) != answers[401] || int(slowed) != answers[429] {
		t.Errorf("the metrics have %v and %v, the answers were %v", wrong, slowed, answers)
	}
	if log := a.Log(); !strings.Contains(log, "wrong tokens or keys from one address") || !strings.Contains(log, "127.0.0.1") || strings.Contains(log, right[:20]) {
		t.Errorf("the log has\n%s", log)
	}
	a.serves("guessed", 3)
}
