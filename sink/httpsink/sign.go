package httpsink

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tidemill/tidemill"
)

// HMAC signs requests with SHA-256. It signs the Unix time in seconds, a dot and the body,
// or the body alone where no header carries the time.
type HMAC struct {
	Secret          tidemill.Secret
	Header          string           // carries the signature; empty: X-Signature
	Prefix          string           // before it, such as "sha256="
	TimestampHeader string           // carries the time; empty: X-Timestamp; "-": none
	Base64          bool             // the signature in base64 instead of hex
	Now             func() time.Time // nil: time.Now
}

type signer struct {
	o   HMAC
	key []byte
}

// NewHMAC makes the Auth of a signature.
func NewHMAC(o HMAC) (Auth, error) {
	def(&o.Header, "X-Signature")
	def(&o.TimestampHeader, "X-Timestamp")
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.Secret.IsZero():
		return nil, errors.New("hmac signature: it needs a secret")
	case !httpguts.ValidHeaderFieldName(o.Header), o.TimestampHeader != "-" && !httpguts.ValidHeaderFieldName(o.TimestampHeader):
		return nil, errors.New("hmac signature: a header has no name that can be sent")
	}
	return &signer{o, []byte(o.Secret.Reveal())}, nil
}

func (a *signer) Sign(_ context.Context, r *http.Request, _ string, body []byte) error {
	mac := hmac.New(sha256.New, a.key)
	if a.o.TimestampHeader != "-" {
		at := strconv.FormatInt(a.o.Now().Unix(), 10)
		put(r.Header, a.o.TimestampHeader, at)
		mac.Write([]byte(at + "."))
	}
	mac.Write(body)
	sum := mac.Sum(nil)
	text := hex.EncodeToString(sum)
	if a.o.Base64 {
		text = base64.StdEncoding.EncodeToString(sum)
	}
	put(r.Header, a.o.Header, a.o.Prefix+text)
	return nil
}

func (a *signer) Secrets() []string { return []string{a.o.Secret.Reveal()} }

type webhook struct {
	keys    [][]byte
	secrets []string
	now     func() time.Time
}

// StandardWebhooks signs as standardwebhooks.com specifies: webhook-id is the idempotency
// key, the same for all attempts, webhook-timestamp is the attempt's own, and
// webhook-signature has a v1 signature for each secret, so that a receiver can change to a
// new one in its own time. A secret is "whsec_" and base64 of 24 to 64 bytes. now nil:
// time.Now.
func StandardWebhooks(now func() time.Time, secrets ...tidemill.Secret) (Auth, error) {
	if now == nil {
		now = time.Now
	}
	a := &webhook{now: now}
	for _, s := range secrets {
		encoded, ok := strings.CutPrefix(s.Reveal(), "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, errors.New(`standard webhooks: a secret is not "whsec_" and base64 of 24 to 64 bytes; make one with: echo whsec_$(openssl rand -base64 32)`)
		}
		a.keys = append(a.keys, key)
		a.secrets = append(a.secrets, encoded)
	}
	if a.keys == nil {
		return nil, errors.New("standard webhooks: they need a secret")
	}
	return a, nil
}

func (a *webhook) Sign(_ context.Context, r *http.Request, key string, body []byte) error {
	if key == "" {
		return tidemill.Fail(tidemill.Validation, "standard webhooks: the message has no key to be its webhook-id")
	}
	if !httpguts.ValidHeaderFieldValue(key) {
		key = hash(key)
	}
	at := strconv.FormatInt(a.now().Unix(), 10)
	put(r.Header, "webhook-id", key)
	put(r.Header, "webhook-timestamp", at)
	var all []string
	for _, k := range a.keys {
		mac := hmac.New(sha256.New, k)
		_, _ = fmt.Fprintf(mac, "%s.%s.", key, at)
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	put(r.Header, "webhook-signature", strings.Join(all, " "))
	return nil
}

func (a *webhook) Secrets() []string { return a.secrets }
