// Package providertest is an OpenID Connect provider for tests: discovery, the code flow with PKCE,
// keys that rotate, user info and logout. It can be told
// to lie.
package providertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that the issuer knows.
const (
	Client = "tidemill"
	Secret = "the-secret-of-the-client"
)

// Issuer is a provider. Its fields are set before it is asked, or by Set.
type Issuer struct {
	*httptest.Server
	sync.Mutex
	Person map[string]any                     // the claims of who logs in
	Info   map[string]any                     // those that user info has; nil: there is none
	Lie    func(claims map[string]any)        // changes the claims of an ID token
	Sign   func(claims map[string]any) string // signs an ID token; nil: by the newest key
	Found  func(discovered map[string]any)    // changes what discovery tells
	Now    func() time.Time                   // its clock
	Deny   string                             // the error that it sends in place of a code
	Down   bool                               // it answers nothing but 503
	Wanted url.Values                         // the last request to log in
	asked  int
	keys   []jose.JSONWebKey         // the newest is the last
	codes  map[string]url.Values     // of requests to log in, by code
	tokens map[string]map[string]any // claims, by access token
}

// New starts an issuer.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{Person: map[string]any{"sub": "1234", "email": "ada@example.com", "email_verified": true, "groups": []string{"everyone", "support"}}, Now: time.Now, codes: map[string]url.Values{}, tokens: map[string]map[string]any{}}
	i.keys = []jose.JSONWebKey{first(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.shownKeys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("GET /info", i.info)
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.FormValue("post_logout_redirect_uri"), http.StatusFound)
	})
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.Lock()
		defer i.Unlock()
		if i.Down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// Set changes fields while others ask.
func (i *Issuer) Set(change func()) {
	i.Lock()
	defer i.Unlock()
	change()
}

// Exchanged is how many codes were brought.
func (i *Issuer) Exchanged() int {
	i.Lock()
	defer i.Unlock()
	return i.asked
}

// Rotate makes a new key; the former ones are forgotten.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	i.keys = []jose.JSONWebKey{NewKey(t)}
}

var (
	firstOnce sync.Once
	firstKey  jose.JSONWebKey
)

// first is the key that every issuer begins with: making one takes a while.
func first(t testing.TB) jose.JSONWebKey {
	firstOnce.Do(func() { firstKey = NewKey(t) })
	return firstKey
}

// NewKey makes a key.
func NewKey(t testing.TB) jose.JSONWebKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: k, KeyID: rand.Text(), Algorithm: string(jose.RS256), Use: "sig"}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	d := map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys", "end_session_endpoint": i.URL + "/logout",
		"id_token_signing_alg_values_supported": []string{"RS256", "none"}, "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}}
	if i.Info != nil {
		d["userinfo_endpoint"] = i.URL + "/info"
	}
	if i.Found != nil {
		i.Found(d)
	}
	answer(w, http.StatusOK, d)
}

func (i *Issuer) shownKeys(w http.ResponseWriter, _ *http.Request) {
	var set jose.JSONWebKeySet
	for _, k := range i.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	answer(w, http.StatusOK, set)
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != Client || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 43 || len(q.Get("nonce")) < 43 {
		http.Error(w, "the request is none: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	i.Wanted = q
	back := url.Values{"state": {q.Get("state")}, "iss": {i.URL}}
	if i.Deny != "" {
		back.Set("error", i.Deny)
	} else {
		code := rand.Text()
		i.codes[code] = q
		back.Set("code", code)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.asked++
	user, secret, _ := r.BasicAuth()
	asked := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case user != Client || secret != Secret:
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	case asked == nil || asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	now := i.Now()
	claims := map[string]any{"iss": i.URL, "aud": Client, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "nonce": asked.Get("nonce")}
	maps.Copy(claims, i.Person)
	access := rand.Text()
	of := sha256.Sum256([]byte(access))
	claims["at_hash"] = base64.RawURLEncoding.EncodeToString(of[:16])
	if i.Lie != nil {
		i.Lie(claims)
	}
	i.tokens[access] = i.Info
	id := ""
	if i.Sign != nil {
		id = i.Sign(claims)
	} else {
		id = SignBy(i.keys[len(i.keys)-1], claims)
	}
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": id})
}

// SignBy signs claims by a key, RS256.
func SignBy(key jose.JSONWebKey, claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

func (i *Issuer) info(w http.ResponseWriter, r *http.Request) {
	info := i.tokens[r.Header.Get("Authorization")[len("Bearer "):]]
	if info == nil {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
		return
	}
	answer(w, http.StatusOK, info)
}
