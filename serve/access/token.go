package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/access"
)

// TokenPrefix is what tokens of the store begin with, so that programs that look for leaked secrets
// know them.
const TokenPrefix = "tmapi_"

const (
	keyName = "key:admin" // who shows the API's own token

	// usedEvery is how exact the last use of a grant is: noting it is a write.
	usedEvery = time.Minute
)

// Why somebody is not let in.
const (
	noToken    = "no_token"
	wrongToken = "wrong_token"
	slowed     = "slowed" // a wrong token, of somebody who tries many
	elsewhere  = "elsewhere"
	noSession  = "no_session"
	wrongLogin = "wrong_login"
	noWay      = "no_way" // a login that no way in is open to, whatever it proves
)

func newRefused(to prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_api_refused_total",
		Help: "Requests to the API that were not let in: without a token, with a wrong one, slowed because their sender tries many, from elsewhere (another site's page; with --no-auth another machine or a proxy), of a session that is over, a login that was refused, or one that no way in is open to (from another site or host, or at a provider that is not configured)."}, []string{"reason"})
	for _, reason := range []string{noToken, wrongToken, slowed, elsewhere, noSession, wrongLogin, noWay} {
		c.WithLabelValues(reason)
	}
	if to != nil {
		to.MustRegister(c)
	}
	return c
}

// isKey says whether a secret is the API's own token.
func (g *Guard) isKey(given string) bool {
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(g.o.Key.Reveal())) // of one length
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && !g.o.Key.IsZero()
}

// Token is Caller for what wants a token with each request, and no cookie. The right one always
// passes; wrong ones are counted, and slowed where one sender has many.
func (g *Guard) Token(r *http.Request) (who caller.Caller, err error) {
	if err := g.sameSite(r); err != nil {
		g.refused.WithLabelValues(elsewhere).Inc()
		return who, err
	}
	from := g.from(r)
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		if g.isKey(given) {
			return caller.Key(keyName, "key", from), nil
		}
		t, err := g.token(r.Context(), given)
		if err == nil {
			g.note(r.Context(), t)
			return of(t, "token", from)
		}
		if !errors.Is(err, access.ErrUnknown) {
			return who, away(err)
		}
	}
	g.refusals.Refused(from)
	switch {
	case given == "":
		g.refused.WithLabelValues(noToken).Inc()
	case g.guesses.Wrong(r.Context(), from):
		g.refused.WithLabelValues(slowed).Inc()
		p := operation.Refuse(http.StatusTooManyRequests, "too many wrong tokens came from this address: the right one passes, others wait")
		p.After = 10
		return who, p
	default:
		g.refused.WithLabelValues(wrongToken).Inc()
	}
	return who, nobody("the API needs its token: set TIDEMILL_TOKEN, or send Authorization: Bearer …")
}

// token is the grant of a token; access.ErrUnknown where there is none, or its end has come.
func (g *Guard) token(ctx context.Context, given string) (*access.Grant, error) {
	if g.o.Store == nil || !strings.HasPrefix(given, TokenPrefix) {
		return nil, access.ErrUnknown
	}
	t, err := g.o.Store.Get(ctx, access.Token, access.IDOf(given))
	if err == nil && g.over(&t) {
		err = access.ErrUnknown
	}
	return &t, err
}

// over says whether the end of a grant has come.
func (g *Guard) over(s *access.Grant) bool { return !s.Until.IsZero() && !g.o.Now().Before(s.Until) }

// note notes the use of a token, once in usedEvery.
func (g *Guard) note(ctx context.Context, t *access.Grant) {
	now := g.o.Now()
	if now.Sub(t.Used) < usedEvery {
		return
	}
	if _, err := g.o.Store.Change(ctx, t.Kind, t.ID, access.Change{Do: func(t *access.Grant) error { t.Used = now; return nil }}); err != nil && ctx.Err() == nil {
		// Logged when it could not be stored when a token was last used; the request is answered all
		// the same.
		// To do: see whether the store of users and tokens is well, if it goes on.
		g.o.Log.WarnContext(ctx, "the use of a token is not noted", "token", t.Name, "error", err)
	}
}

// NewToken makes a token that is good for so long, 0 being for ever, and returns its secret, which nobody
// can see later.
func (g *Guard) NewToken(ctx context.Context, name string, rights caller.Rights, life time.Duration) (secret string, t access.Grant, err error) {
	if secret, err = g.secret(); err != nil {
		return "", t, err
	}
	secret = TokenPrefix + secret
	t = access.Grant{Kind: access.Token, ID: access.IDOf(secret), Name: "token:" + name, Role: rights.String(), By: caller.From(ctx).Name, Made: milli(g.o.Now())}
	if life > 0 {
		t.Until = t.Made.Add(life)
	}
	return secret, t, g.o.Store.Add(ctx, t)
}

// milli is a time as grants have it.
func milli(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}
