package connect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// login is the page of the login, as a browser on this machine is shown it.
func (r *reloaded) login() string {
	req := httptest.NewRequest(http.MethodGet, "http://localhost/console/login", nil)
	req.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Body.String()
}

func TestEachWayIntoTheConsoleCanBeSwitchedOff(t *testing.T) {
	for text, k := range map[string]struct{ token, password bool }{
		"systems: analytics":                                               {true, true},
		"systems: analytics\nconsole: {tokens: false}":                     {false, true},
		"systems: analytics\nconsole: {passwords: false}":                  {true, false},
		"systems: analytics\nconsole: {tokens: false, passwords: false}\n": {false, false},
	} {
		said := reloadable(t, text, nil).login()
		if got := strings.Contains(said, `name="token"`); got != k.token {
			t.Errorf("%s: by a token: %v", text, got)
		}
		if got := strings.Contains(said, `name="password"`); got != k.password {
			t.Errorf("%s: by a password: %v", text, got)
		}
	}
}
