package httpsink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

func TestWhatAnAnswerForATokenMeans(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   tidemill.Kind
	}{
		{200, "", tidemill.NoKind}, {200, "invalid_scope", tidemill.Credentials}, {200, "server_error", tidemill.Partner},
		{400, "", tidemill.Credentials}, {400, "invalid_grant", tidemill.Credentials}, {400, "temporarily_unavailable", tidemill.Partner}, {400, "server_error", tidemill.Partner},
		{401, "invalid_client", tidemill.Credentials}, {403, "", tidemill.Credentials}, {404, "", tidemill.Partner}, {422, "", tidemill.Partner},
		{429, "", tidemill.RateLimit}, {429, "slow_down", tidemill.RateLimit}, {500, "", tidemill.Partner}, {500, "odd", tidemill.Partner}, {503, "temporarily_unavailable", tidemill.Partner},
	} {
		if got := tokenKind(c.status, c.code); got != c.want {
			t.Errorf("%d %q: %v, want %v", c.status, c.code, got, c.want)
		}
	}
	long := strings.Repeat("a", 41)
	for code, want := range map[string]string{"": "", "invalid_grant": "invalid_grant", "az": "az", "Secret": "", "a1": "", "a b": "", "{": "", "`": "", "_": "_", long[:40]: long[:40], long: long[:40]} {
		if got := word(code); got != want {
			t.Errorf("the word of %q is %q, want %q", code, got, want)
		}
	}
}

func TestAnswersForATokenThatAreReadAllTheSame(t *testing.T) {
	for text, c := range map[string]struct {
		access string
		bad    bool
	}{
		`{"access_token":"a","expires_in":60}`:   {"a", false},
		`{"access_token":"a","expires_in":"60"}`: {"a", false},
		`{"error":"e","expires_in":"60"}`:        {"", false},
		`{"expires_in":"60"}`:                    {"", true},
		`{}`:                                     {"", false},
		``:                                       {"", true},
		" \n":                                    {"", true},
		`<html>`:                                 {"", true},
		`{"access_token":"a"`:                    {"", true},
	} {
		var g granted
		err := lenient([]byte(text), &g)
		if (err != nil) != c.bad || g.Access != c.access {
			t.Errorf("%q: %v, %+v", text, err, g)
		}
	}
}

// How long a token is used, by what its server says of its life.
func TestTheLifeOfAToken(t *testing.T) {
	for _, c := range []struct {
		life  string
		early time.Duration
		want  time.Duration
	}{
		{"3600", 0, 59 * time.Minute}, // a minute before its end
		{"100", 0, 90 * time.Second},  // never more than a tenth
		{"3600", 10 * time.Second, 3590 * time.Second},
		{"86400", 0, 24*time.Hour - time.Minute}, // a day is believed
		{"86401", 0, 9 * time.Minute},            // and no more
		{"0", 0, 9 * time.Minute}, {"-5", 0, 9 * time.Minute}, {`"60"`, 0, 9 * time.Minute},
		{"0.5", 0, 450 * time.Millisecond},
	} {
		now := time.Unix(1_700_000_000, 0)
		asked := 0
		token, err := NewToken(TokenOptions{URL: "https://a.example/token", Grant: ClientCredentials("a", tidemill.NewSecret("secret")), Early: c.early,
			Now: func() time.Time { return now },
			Via: via(func(r *http.Request) (*http.Response, error) {
				asked++
				return answer(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":%s}`, asked, c.life)), nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		used := func(want string) {
			t.Helper()
			if got, err := token.get(t.Context()); got != want || err != nil {
				t.Errorf("a life of %s: %q after %v, want %q (%v)", c.life, got, now.Sub(time.Unix(1_700_000_000, 0)), want, err)
			}
		}
		used("token-1")
		now = now.Add(c.want - 1)
		used("token-1")
		now = now.Add(1)
		used("token-2")
	}
}

// A day is the longest that a token's server may ask us to wait.
func TestTheWaitForATokenIsBounded(t *testing.T) {
	for seconds, want := range map[string]time.Duration{"86399": 24*time.Hour - time.Second, "86400": 24 * time.Hour, "90000": 24 * time.Hour} {
		token, err := NewToken(TokenOptions{URL: "https://a.example/token", Grant: ClientCredentials("a", tidemill.NewSecret("secret")),
			Via: via(func(*http.Request) (*http.Response, error) {
				a := answer(503, "")
				a.Header.Set("Retry-After", seconds)
				return a, nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = token.get(t.Context())
		if e, ok := errors.AsType[*tidemill.Error](err); !ok || e.After != want {
			t.Errorf("asked to wait %s s: %v, want %v", seconds, err, want)
		}
	}
}

// A refresh token that comes with an access token takes the place of the one before.
func TestRefreshTokensTakeTurns(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var sent []string
	token, err := NewToken(TokenOptions{URL: "https://a.example/token", Grant: RefreshToken("a", tidemill.NewSecret("secret"), tidemill.NewSecret("first")),
		Now: func() time.Time { return now },
		Via: via(func(r *http.Request) (*http.Response, error) {
			if err := r.ParseForm(); err != nil {
				return nil, err
			}
			sent = append(sent, r.PostForm.Get("refresh_token"))
			return answer(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":60,"refresh_token":"after-%s"}`, len(sent), sent[len(sent)-1])), nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := token.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	if got := fmt.Sprint(sent); got != "[first after-first after-after-first]" {
		t.Errorf("asked with %s", got)
	}
}

// The last tokens are hidden, wherever they may still be shown; those before them are over.
func TestTokensThatWereReplacedAreHidden(t *testing.T) {
	token := &Token{o: TokenOptions{URL: "https://a.example/token", Grant: ClientCredentials("a", tidemill.NewSecret("secret"))}}
	token.forget()
	for i := range 6 {
		token.now.access = fmt.Sprint("token-", i)
		if i < 5 {
			token.forget()
		}
	}
	if got := fmt.Sprint(token.Secrets()); got != "[secret token-1 token-2 token-3 token-4 token-5]" {
		t.Errorf("hidden are %s", got)
	}
	sent := func(authorization string) *http.Request {
		return &http.Request{Header: http.Header{"Authorization": {authorization}}}
	}
	if !token.refused(sent("Bearer token-4")) || token.now.access != "token-5" {
		t.Error("an older token was refused: the one of now is kept, and the request sent again")
	}
	if token.refused(sent("Basic token-5")) {
		t.Error("what was sent without a token is no token that was refused")
	}
	if !token.refused(sent("Bearer token-5")) || token.now.access != "" {
		t.Error("a token that was refused is kept")
	}
}

// ended is a body that does not come before its context ends.
type ended struct{ ctx context.Context }

func (e ended) Read([]byte) (int, error) { <-e.ctx.Done(); return 0, e.ctx.Err() }
func (e ended) Close() error             { return nil }

func TestAnAnswerForATokenThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token, err := NewToken(TokenOptions{URL: "https://a.example/token", Grant: ClientCredentials("a", tidemill.NewSecret("secret")),
			Via: via(func(r *http.Request) (*http.Response, error) {
				a := answer(200, "")
				a.Body = ended{r.Context()}
				return a, nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := token.get(t.Context()); tidemill.KindOf(err) != tidemill.Timeout {
			t.Errorf("%v, want a timeout", err)
		}
	})
}
