package partnertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// token issues an access token for an hour.
func (s *Server) token(w http.ResponseWriter) {
	s.mu.Lock()
	s.serial++
	access := fmt.Sprintf("access-token-%d", s.serial)
	s.issued[access] = true
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 3600})
}

func (s *Server) knows(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	access, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && s.issued[access]
}

// ServiceAccount is the key of an account that DV360 knows, in the form of Google's files.
type ServiceAccount struct {
	JSON   string
	public *rsa.PublicKey
}

// accountKey is one for all accounts of a test process: making one takes half a second.
var accountKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// NewServiceAccount makes an account whose token endpoint is the URL.
func NewServiceAccount(t testing.TB, tokenURL string) ServiceAccount {
	key, err := accountKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "robot@example.test", "private_key_id": "k1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokenURL})
	if err != nil {
		t.Fatal(err)
	}
	return ServiceAccount{string(text), &key.PublicKey}
}

// claims verifies a JWT and returns its claims.
func claims(jwt, alg string, verify func(signed, signature []byte) bool) (map[string]any, error) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("no JWT")
	}
	var decoded [3][]byte
	for i, p := range parts {
		b, err := base64.RawURLEncoding.DecodeString(p)
		if err != nil {
			return nil, err
		}
		decoded[i] = b
	}
	var header, c map[string]any
	if json.Unmarshal(decoded[0], &header) != nil || header["alg"] != alg || json.Unmarshal(decoded[1], &c) != nil {
		return nil, fmt.Errorf("a JWT that is not %s", alg)
	}
	if !verify([]byte(parts[0]+"."+parts[1]), decoded[2]) {
		return nil, fmt.Errorf("a JWT with a wrong signature")
	}
	return c, nil
}
