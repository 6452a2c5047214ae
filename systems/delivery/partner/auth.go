package partner

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// Auth is how we authenticate to a partner. It never has secrets, only the names of the
// variables that hold them.
type Auth struct {
	Type        string `yaml:"type" main:"true" help:"none, bearer, basic, apikey, oauth2, hmac, webhook, mtls"`
	Credentials string `yaml:"credentials" main:"true" help:"the variable of the secret: a token (bearer), a password (basic), a key (apikey, hmac), whsec_… once or several times for rotation (webhook), and for oauth2 the JSON file of a service account, or JSON with client_id, client_secret and, for refresh_token, refresh_token"`
	Optional    bool   `yaml:"optional" help:"without the secret requests go out without it"`

	Header string `yaml:"header" help:"apikey, hmac: carries it; empty: X-API-Key, X-Signature"`
	Prefix string `yaml:"prefix" help:"apikey, hmac: before it"`
	Query  string `yaml:"query" help:"apikey: the URL's parameter, instead of a header"`
	User   string `yaml:"user" help:"basic"`

	TimestampHeader string `yaml:"timestampHeader" help:"hmac: carries the time; empty: X-Timestamp; \"-\": none"`
	Base64          bool   `yaml:"base64" help:"hmac: instead of hex"`

	Grant    string   `yaml:"grant" help:"oauth2: client_credentials, refresh_token, service_account, client_assertion"`
	TokenURL string   `yaml:"tokenUrl" help:"oauth2; a service account's file names it, too"`
	Scopes   []string `yaml:"scopes" help:"oauth2"`
	Realm    string   `yaml:"realm" help:"oauth2 client_assertion"`

	Cert string `yaml:"cert" help:"variable of the path of a client certificate, with any type; mtls: PARTNER_CERT_PATH if empty"`
	Key  string `yaml:"key" help:"variable of the path of its key; mtls: PARTNER_KEY_PATH if empty"`
}

func (a Auth) over(preset Auth) Auth {
	if a.Type != "" && a.Type != preset.Type {
		return a
	}
	set(&a.Type, preset.Type)
	set(&a.Credentials, preset.Credentials)
	set(&a.Optional, preset.Optional)
	set(&a.Header, preset.Header)
	set(&a.Prefix, preset.Prefix)
	set(&a.Query, preset.Query)
	set(&a.User, preset.User)
	set(&a.TimestampHeader, preset.TimestampHeader)
	set(&a.Base64, preset.Base64)
	set(&a.Grant, preset.Grant)
	set(&a.TokenURL, preset.TokenURL)
	set(&a.Realm, preset.Realm)
	set(&a.Cert, preset.Cert)
	set(&a.Key, preset.Key)
	if a.Scopes == nil {
		a.Scopes = preset.Scopes
	}
	return a
}

// secret finds the value of a variable. The error names a missing variable and its use.
func (e *Env) secret(variable, use string) (tidemill.Secret, error) {
	if variable == "" {
		return tidemill.Secret{}, fmt.Errorf("auth: credentials does not name the variable of %s", use)
	}
	if e.Secret != nil {
		if s, ok := e.Secret(variable); ok && !s.IsZero() {
			if strings.ContainsAny(s.Reveal(), "\x00") || use != "a certificate's path" && strings.TrimSpace(s.Reveal()) == "" {
				return tidemill.Secret{}, fmt.Errorf("the variable %s is set to something that is no secret", variable)
			}
			return s, nil
		}
	}
	return tidemill.Secret{}, fmt.Errorf("the variable %s is not set: it has %s", variable, use)
}

// oauthKey is the secret of an OAuth client.
type oauthKey struct {
	ID      string `json:"client_id"`
	Secret  string `json:"client_secret"`
	Refresh string `json:"refresh_token"`
}

// build makes the httpsink.Auth, and the settings that come with the credentials: client_id.
func (a Auth) build(e *Env, via http.RoundTripper, fill func(string) (string, error)) (auth httpsink.Auth, more map[string]string, err error) {
	switch a.Type {
	case "", "none", "mtls":
		return nil, nil, nil
	case "bearer", "basic", "apikey", "oauth2", "hmac", "webhook":
	default:
		return nil, nil, fmt.Errorf("auth: type %q is none of none, bearer, basic, apikey, oauth2, hmac, webhook, mtls", a.Type)
	}
	secret, err := e.secret(a.Credentials, "the secret of auth type "+a.Type)
	if err != nil {
		if a.Optional && a.Credentials != "" {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	if a.Type != "oauth2" {
		secret = tidemill.NewSecret(strings.TrimSpace(secret.Reveal())) // files end with a line end
		if strings.ContainsAny(secret.Reveal(), "\r\n") {
			return nil, nil, fmt.Errorf("the variable %s has several lines", a.Credentials)
		}
	}
	switch a.Type {
	case "bearer":
		return httpsink.Bearer(secret), nil, nil
	case "basic":
		if a.User == "" {
			return nil, nil, errors.New("auth: basic needs a user")
		}
		return httpsink.Basic(a.User, secret), nil, nil
	case "apikey":
		if a.Query != "" {
			return httpsink.QueryKey(a.Query, secret), nil, nil
		}
		set(&a.Header, "X-API-Key")
		return httpsink.HeaderKey(a.Header, a.Prefix, secret), nil, nil
	case "hmac":
		auth, err = httpsink.NewHMAC(httpsink.HMAC{Secret: secret, Header: a.Header, Prefix: a.Prefix,
			TimestampHeader: a.TimestampHeader, Base64: a.Base64, Now: e.Now})
		return auth, nil, err
	case "webhook":
		var all []tidemill.Secret
		for _, s := range strings.FieldsFunc(secret.Reveal(), func(c rune) bool { return c == ' ' || c == ',' }) {
			all = append(all, tidemill.NewSecret(s))
		}
		auth, err = httpsink.StandardWebhooks(e.Now, all...)
		return auth, nil, err
	}
	return a.oauth(e, via, secret, fill)
}

func (a Auth) oauth(e *Env, via http.RoundTripper, secret tidemill.Secret, fill func(string) (string, error)) (httpsink.Auth, map[string]string, error) {
	url, err := fill(a.TokenURL)
	if err != nil {
		return nil, nil, fmt.Errorf("auth.tokenUrl: %w", err)
	}
	var grant httpsink.Grant
	var key oauthKey
	if a.Grant == "service_account" {
		named := ""
		if grant, named, err = httpsink.ServiceAccount(secret, a.Scopes...); err != nil {
			return nil, nil, fmt.Errorf("the variable %s: %w", a.Credentials, err)
		}
		set(&url, named)
	} else {
		if json.Unmarshal([]byte(secret.Reveal()), &key) != nil || key.ID == "" || key.Secret == "" || a.Grant == "refresh_token" && key.Refresh == "" {
			return nil, nil, fmt.Errorf("the variable %s is not JSON with client_id, client_secret and, for the grant refresh_token, refresh_token", a.Credentials)
		}
		client := tidemill.NewSecret(key.Secret)
		switch a.Grant {
		case "client_credentials":
			grant = httpsink.ClientCredentials(key.ID, client, a.Scopes...)
		case "refresh_token":
			grant = httpsink.RefreshToken(key.ID, client, tidemill.NewSecret(key.Refresh))
		case "client_assertion":
			grant = httpsink.ClientAssertion(key.ID, client, a.Realm, a.Scopes...)
		default:
			return nil, nil, fmt.Errorf("auth: grant %q is none of client_credentials, refresh_token, service_account, client_assertion", a.Grant)
		}
	}
	token, err := httpsink.NewToken(httpsink.TokenOptions{Via: via, URL: url, Grant: grant, Now: e.Now})
	if err != nil {
		return nil, nil, fmt.Errorf("auth: %w", err)
	}
	return token, map[string]string{"client_id": key.ID}, nil
}

// certificates reads the client certificate, if one is configured.
func (a Auth) certificates(e *Env) ([]tls.Certificate, error) {
	if a.Type == "mtls" {
		set(&a.Cert, "PARTNER_CERT_PATH")
		set(&a.Key, "PARTNER_KEY_PATH")
	}
	if a.Cert == "" && a.Key == "" {
		return nil, nil
	}
	var paths [2]string
	for i, variable := range []string{a.Cert, a.Key} {
		s, err := e.secret(variable, "a certificate's path")
		if err != nil {
			return nil, err
		}
		paths[i] = s.Reveal()
	}
	c, err := tls.LoadX509KeyPair(paths[0], paths[1])
	if err != nil {
		return nil, fmt.Errorf("read the client certificate that %s and %s name: %w", a.Cert, a.Key, err)
	}
	return slices.Clip([]tls.Certificate{c}), nil
}
