package httpsink

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// Grant is the credentials for requesting an access token.
type Grant struct {
	form    func(tokenURL string, now time.Time) (url.Values, error)
	secrets func() []string
	renew   func(refresh string) // a new refresh token came with the access token; may be empty
}

func fixed(secrets ...string) func() []string { return func() []string { return secrets } }

func nothing(string) {}

// ClientCredentials is the grant of a client that acts for itself, RFC 6749 section 4.4.
func ClientCredentials(id string, secret tidemill.Secret, scopes ...string) Grant {
	return Grant{func(string, time.Time) (url.Values, error) {
		return scoped(url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret.Reveal()}}, scopes), nil
	}, fixed(secret.Reveal()), nothing}
}

// RefreshToken is the grant of a client that a person once allowed to act for them, RFC 6749
// section 6. A new refresh token from the server is used from then on, for the life of the
// process.
func RefreshToken(id string, secret, refresh tidemill.Secret) Grant {
	var mu sync.Mutex
	token := refresh.Reveal()
	read := func() string {
		mu.Lock()
		defer mu.Unlock()
		return token
	}
	return Grant{
		form: func(string, time.Time) (url.Values, error) {
			return url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "client_secret": {secret.Reveal()}, "refresh_token": {read()}}, nil
		},
		secrets: func() []string { return []string{secret.Reveal(), refresh.Reveal(), read()} },
		renew: func(next string) {
			if next != "" {
				mu.Lock()
				defer mu.Unlock()
				token = next
			}
		},
	}
}

// ClientAssertion is the grant of a client that proves its identity by a JWT which it signs
// with its secret (HS256), RFC 7523 section 2.2. realm, if not empty, is added to the
// audience and to the form.
func ClientAssertion(id string, secret tidemill.Secret, realm string, scopes ...string) Grant {
	return Grant{func(tokenURL string, now time.Time) (url.Values, error) {
		audience := tokenURL
		if realm != "" {
			audience += "?realm=" + url.QueryEscape(realm)
		}
		jwt, err := sign(map[string]any{"alg": "HS256", "typ": "JWT"},
			map[string]any{"iss": id, "sub": id, "aud": audience, "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "jti": rand.Text()},
			func(b []byte) ([]byte, error) {
				mac := hmac.New(sha256.New, []byte(secret.Reveal()))
				mac.Write(b)
				return mac.Sum(nil), nil
			})
		if err != nil {
			return nil, err
		}
		v := url.Values{"grant_type": {"client_credentials"}, "client_assertion": {jwt},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}
		if realm != "" {
			v.Set("realm", realm)
		}
		return scoped(v, scopes), nil
	}, fixed(secret.Reveal()), nothing}
}

// ServiceAccount is the grant of a service account, whose key is a JSON file, by a JWT signed
// with it (RS256), RFC 7523 section 2.1. It also returns the token URL that the file names.
func ServiceAccount(key tidemill.Secret, scopes ...string) (g Grant, tokenURL string, err error) {
	var file struct {
		Type  string `json:"type"`
		Email string `json:"client_email"`
		Key   string `json:"private_key"`
		KeyID string `json:"private_key_id"`
		URL   string `json:"token_uri"`
	}
	if json.Unmarshal([]byte(key.Reveal()), &file) != nil || file.Type != "service_account" || file.Email == "" {
		return Grant{}, "", errors.New("the key of a service account is to be its JSON file, with type, client_email and private_key")
	}
	block, _ := pem.Decode([]byte(file.Key))
	if block == nil {
		return Grant{}, "", errors.New("private_key of the service account is not PEM")
	}
	private, err := parseKey(block.Bytes)
	if err != nil {
		return Grant{}, "", err
	}
	def(&file.URL, "https://oauth2.googleapis.com/token")
	return Grant{func(tokenURL string, now time.Time) (url.Values, error) {
		header := map[string]any{"alg": "RS256", "typ": "JWT"}
		if file.KeyID != "" {
			header["kid"] = file.KeyID
		}
		jwt, err := sign(header, map[string]any{"iss": file.Email, "scope": strings.Join(scopes, " "), "aud": tokenURL,
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix()},
			func(b []byte) ([]byte, error) {
				sum := sha256.Sum256(b)
				return rsa.SignPKCS1v15(nil, private, crypto.SHA256, sum[:])
			})
		if err != nil {
			return nil, err
		}
		return url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {jwt}}, nil
	}, fixed(file.Key, key.Reveal()), nothing}, file.URL, nil
}

func parseKey(der []byte) (*rsa.PrivateKey, error) {
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if r, ok := k.(*rsa.PrivateKey); ok {
			return r, nil
		}
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, nil
	}
	return nil, errors.New("private_key of the service account is no RSA key")
}

func scoped(v url.Values, scopes []string) url.Values {
	if len(scopes) > 0 {
		v.Set("scope", strings.Join(scopes, " "))
	}
	return v
}

// sign makes a compact JWT.
func sign(header, claims map[string]any, with func([]byte) ([]byte, error)) (string, error) {
	h, err := json.Marshal(header)
	if err != nil {
		return "", err
	}
	c, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	signature, err := with([]byte(text))
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
