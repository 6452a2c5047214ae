package bridgecli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/cli/command"
)

func TestTakingOverOnTheCommandLine(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.EscapedPath())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"host/1","pending":3,"idle_seconds":75,"held_seconds":30,"entries":[{"id":"1772366400000-7","idle_seconds":80,"handed":2}],"taken":3}`))
	}))
	defer s.Close()
	var out bytes.Buffer
	e := command.Env{Out: &out, Err: &out, Getenv: func(string) string { return "" }}
	for _, dry := range []bool{true, false} {
		c := &bridgeTakeOverCmd{Remote: command.Remote{Server: s.URL, Token: "a-token-of-this-test"}, Consumer: "host/1", DryRun: dry}
		if err := c.Run(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"host/1: 3 entries pending, idle for 1m", "nothing is taken over for another 30s", "1772366400000-7  1m", "3 entries of host/1 taken over"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%s\nwithout %q", out.String(), want)
		}
	}
	if got := strings.Join(asked, ", "); got != "GET /api/v1/status, GET /api/v1/bridge/consumers/host%2F1, GET /api/v1/status, POST /api/v1/bridge/consumers/host%2F1/take-over" {
		t.Errorf("it asked %s", got)
	}
}
