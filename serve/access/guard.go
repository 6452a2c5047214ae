package access

import (
	"crypto/rand"
	"encoding/base32"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access/provider"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/access"
)

// Options tune a Guard; with the zero value it lets nobody in.
type Options struct {
	Key     tidemill.Secret       // the API's own token; zero: there is none
	NoAuth  bool                  // programs on this machine need no token
	Store   access.Store          // of users, tokens and sessions; nil: the API's own token alone lets in, and nobody can log in
	Trusted []netip.Prefix        // proxies whose word counts for where a request came from, and for TLS
	Hosts   []string              // names that the console is reached by, beside loopback and addresses
	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: refusals are not shown
	Now     func() time.Time      // nil: time.Now
	Rand    io.Reader             // of secrets; nil: crypto/rand

	Idle       time.Duration // a session ends when it is not used for so long; 0: 8 h
	Absolute   time.Duration // a session ends so long after its begin; 0: 24 h
	NoPassword bool          // nobody logs in by name and password
	NoToken    bool          // nobody logs in by a token; programs show theirs with each request
	Cost       Cost          // of passwords; zero: UsualCost
	Providers  []Provider    // at which people log in
	Base       string        // what a proxy has before LoginPath

	// Told is told of each login that lets in, and of each logout. Of logins that are refused it is told
	// of one in 15 minutes from an address, of 200 in all, and of none that no way in was open to or that
	// came too soon; nil: nobody is.
	Told func(r *http.Request, l Login)
}

// Login is an attempt to log in, or a logout.
type Login struct {
	Out bool
	Who caller.Caller // who came in or went out; of a refused one only the name that was given, how and from where
	Err error         // why it was refused; nil: it was not

	More int // logins from there that were refused since the last one that was told of, and were not told of
}

// stranger is the name of who is not known.
const stranger = "nobody"

// Guard implements Gate. It may be used by many.
type Guard struct {
	o        Options
	safe     *http.CrossOriginProtection
	refusals *request.Refusals
	guesses  *request.Guesses
	refused  *prometheus.CounterVec // reason
	hasher   *hasher
	tries    *tries
	untold   *untold
	abroad   map[string]*provider.Provider // by their names
}

var _ Gate = (*Guard)(nil)

// New makes a guard.
func New(o Options) *Guard {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Idle == 0 {
		o.Idle = 8 * time.Hour
	}
	if o.Absolute == 0 {
		o.Absolute = 24 * time.Hour
	}
	if o.Cost == (Cost{}) {
		o.Cost = UsualCost
	}
	if o.Told == nil {
		o.Told = func(*http.Request, Login) {}
	}
	log := o.Log.With("system", "api")
	return &Guard{abroad: abroad(&o), o: o, safe: http.NewCrossOriginProtection(), refusals: request.NewRefusals(log, time.Now), guesses: request.NewGuesses(log, "tokens"),
		refused: newRefused(o.Metrics), hasher: newHasher(o.Cost, o.Rand), tries: newTries(o.Now), untold: newUntold(o.Now)}
}

// Caller implements Gate.
func (g *Guard) Caller(r *http.Request) (caller.Caller, error) {
	if g.o.NoAuth {
		return g.anybodyHere(r)
	}
	if r.Header.Get("Authorization") == "" && g.o.Store != nil {
		if secret := g.cookie(r); secret != "" {
			return g.session(r, secret)
		}
	}
	return g.Token(r)
}

// anybodyHere is the caller of a program on this machine, where those need no token.
func (g *Guard) anybodyHere(r *http.Request) (caller.Caller, error) {
	err := g.sameSite(r)
	if err == nil {
		err = local(r)
	}
	if err != nil {
		g.refused.WithLabelValues(elsewhere).Inc()
		return caller.Caller{}, err
	}
	return caller.Key("local", "local", g.from(r)), nil
}

// Ways implements Gate.
func (g *Guard) Ways(r *http.Request) Ways {
	if g.o.Store == nil || g.openTo(r) != nil {
		return Ways{}
	}
	ways := Ways{Token: !g.o.NoToken, Password: !g.o.NoPassword, Link: local(r) == nil}
	for _, p := range g.o.Providers {
		ways.Providers = append(ways.Providers, p.Name)
	}
	return ways
}

// from is the address that a request came from.
func (g *Guard) from(r *http.Request) netip.Addr { return request.Address(r, g.o.Trusted) }

// of is the caller whose grant it is.
func of(s *access.Grant, via string, from netip.Addr) (caller.Caller, error) {
	c := caller.Caller{Name: s.Name, Via: via, From: from}
	if err := c.Rights.UnmarshalText([]byte(s.Role)); err != nil {
		return caller.Caller{}, err
	}
	c.Payloads = c.Rights.MayAny(caller.Operator)
	return c, nil
}

// secret is a new one, of 256 bits.
func (g *Guard) secret() (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(g.o.Rand, b); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)), nil
}

// nobody refuses somebody whom the gate does not know.
func nobody(format string, args ...any) *operation.Problem {
	return operation.Refuse(http.StatusUnauthorized, format, args...)
}

// away is the problem of a store that is away.
func away(err error) *operation.Problem {
	p := operation.Refuse(http.StatusServiceUnavailable, "users and sessions cannot be read now: %v", err)
	p.After = 5
	return p
}
