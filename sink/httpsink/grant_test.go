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
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// jwt reads what a client proves itself by.
func jwt(t *testing.T, text string, verify func(signed, signature []byte) bool) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no JWT", text)
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(json.Unmarshal(raw[0], &header), json.Unmarshal(raw[1], &claims)); err != nil {
		t.Fatal(err)
	}
	if !verify([]byte(parts[0]+"."+parts[1]), raw[2]) {
		t.Errorf("%q is not signed", text)
	}
	return header, claims
}

// What tokens are asked for with, and that it is signed.
func TestWhatGrantsProve(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	byMAC := func(signed, signature []byte) bool {
		mac := hmac.New(sha256.New, []byte("secret"))
		mac.Write(signed)
		return hmac.Equal(mac.Sum(nil), signature)
	}
	for realm, audience := range map[string]string{"": "https://a.example/token", "a b": "https://a.example/token?realm=a+b"} {
		form, err := ClientAssertion("me", tidemill.NewSecret("secret"), realm, "x", "y").form("https://a.example/token", now)
		if err != nil {
			t.Fatal(err)
		}
		header, claims := jwt(t, form.Get("client_assertion"), byMAC)
		if header["alg"] != "HS256" || claims["iss"] != "me" || claims["sub"] != "me" || claims["aud"] != audience || claims["iat"] != 1.7e9 || claims["exp"] != 1.7e9+600 || claims["jti"] == "" {
			t.Errorf("%v, %v", header, claims)
		}
		if form.Get("realm") != realm || form.Has("realm") != (realm != "") || form.Get("scope") != "x y" || form.Get("grant_type") != "client_credentials" {
			t.Errorf("form %v", form)
		}
	}

	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for kind, der := range map[string][]byte{"PRIVATE KEY": pkcs8, "RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(private)} {
		for _, id := range []string{"", "k1"} {
			file, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "me@a.example", "private_key_id": id,
				"private_key": string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))})
			if err != nil {
				t.Fatal(err)
			}
			g, tokenURL, err := ServiceAccount(tidemill.NewSecret(string(file)), "x", "y")
			if err != nil || tokenURL != "https://oauth2.googleapis.com/token" {
				t.Fatal(tokenURL, err)
			}
			form, err := g.form(tokenURL, now)
			if err != nil {
				t.Fatal(err)
			}
			header, claims := jwt(t, form.Get("assertion"), func(signed, signature []byte) bool {
				sum := sha256.Sum256(signed)
				return rsa.VerifyPKCS1v15(&private.PublicKey, crypto.SHA256, sum[:], signature) == nil
			})
			if _, has := header["kid"]; header["alg"] != "RS256" || has != (id != "") || claims["iss"] != "me@a.example" || claims["scope"] != "x y" || claims["aud"] != tokenURL || claims["exp"] != 1.7e9+3600 {
				t.Errorf("%v, %v", header, claims)
			}
		}
	}
	for name, changed := range map[string]string{"another type": "type", "no email": "client_email"} {
		file := map[string]string{"type": "service_account", "client_email": "me@a.example", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))}
		file[changed] = ""
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ServiceAccount(tidemill.NewSecret(string(text))); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for name, file := range map[string]string{"no JSON": "x",
		"no PEM": `{"type":"service_account","client_email":"a","private_key":"x"}`,
		"no key": `{"type":"service_account","client_email":"a","private_key":"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}`} {
		if _, _, err := ServiceAccount(tidemill.NewSecret(file)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}

	form, err := ClientCredentials("me", tidemill.NewSecret("secret")).form("", now)
	if err != nil || form.Encode() != "client_id=me&client_secret=secret&grant_type=client_credentials" {
		t.Errorf("%v, %v", form.Encode(), err)
	}
	g := RefreshToken("me", tidemill.NewSecret("secret"), tidemill.NewSecret("first"))
	for _, c := range []struct{ next, want string }{{"", "first"}, {"second", "second"}, {"", "second"}} {
		g.renew(c.next)
		if form, err := g.form("", now); err != nil || form.Get("refresh_token") != c.want || form.Get("grant_type") != "refresh_token" {
			t.Errorf("after %q: %v, %v", c.next, form, err)
		}
	}
	if got := fmt.Sprint(g.secrets()); got != "[secret first second]" {
		t.Errorf("secrets are %s", got)
	}
}
