package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
)

// beacon is a page that sends an event as analytics code does when a page is left: a beacon with
// JSON, which a browser always sends with credentials, and asks about first.
const beacon = `<!doctype html><script>
navigator.sendBeacon(%q, new Blob([%q], {type: 'application/json'}));
fetch(%q, {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: %q})
  .then(r => r.text()).then(text => fetch('/read', {method: 'POST', body: text}));
</script>`

// Pages of other origins send events from Chromium, also by a beacon with a JSON Blob, and read the
// answers.
func TestEventsFromABrowser(t *testing.T) {
	testenv.Need(t)
	p := newPartner(t)
	in := delivering(t, p, nil)
	endpoint := httptest.NewServer(in)
	defer endpoint.Close()
	const sent, fetched = "0190f3c2-0000-7000-8000-00000000000a", "0190f3c2-0000-7000-8000-00000000000b"
	read := make(chan string, 1)
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		to := endpoint.URL + "/collect"
		fmt.Fprintf(w, beacon, to, fmt.Sprintf(viewed, sent), to, fmt.Sprintf(viewed, fetched))
	})
	pages.HandleFunc("POST /read", func(_ http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1000)
		n, _ := r.Body.Read(b)
		read <- string(b[:n])
	})
	site := httptest.NewServer(pages)
	defer site.Close()
	// By another name the page is of another site than the endpoint, not only of another origin.
	browser := exec.CommandContext(t.Context(), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
		"--user-data-dir="+t.TempDir(), strings.Replace(site.URL, "127.0.0.1", "localhost", 1)+"/")
	if err := browser.Start(); err != nil {
		t.Fatalf("start Chromium (scripts/need.sh chromium installs it): %v", err)
	}
	defer func() {
		_ = browser.Process.Kill() // it may have ended
		_ = browser.Wait()
	}()
	until(t, "the beacon's event arrives", func() bool { return p.got(sent) != "" })
	until(t, "the page's event arrives", func() bool { return p.got(fetched) != "" })
	if text := <-read; !strings.Contains(text, fetched) {
		t.Errorf("the page reads %q", text)
	}
}
