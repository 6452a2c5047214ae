package httpsink

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

// Secrets of webhooks have 24 to 64 bytes.
func TestSecretsOfWebhooks(t *testing.T) {
	for n, taken := range map[int]bool{0: false, 23: false, 24: true, 64: true, 65: false} {
		_, err := StandardWebhooks(nil, tidemill.NewSecret("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, n))))
		if (err == nil) != taken {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := StandardWebhooks(nil, tidemill.NewSecret(base64.StdEncoding.EncodeToString(make([]byte, 32)))); err == nil {
		t.Error("a secret without whsec_ is taken")
	}
}

// The key is the webhook's id, by which a receiver knows it again: without one nothing is sent.
func TestWebhooksNeedAKey(t *testing.T) {
	hook, err := StandardWebhooks(nil, tidemill.NewSecret("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))))
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Sign(t.Context(), &http.Request{Header: http.Header{}}, "", nil); tidemill.KindOf(err) != tidemill.Validation {
		t.Errorf("%v, want it to be invalid", err)
	}
}

// Without a clock of their own signatures have the time of now.
func TestSignaturesAreOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mac, err := NewHMAC(HMAC{Secret: tidemill.NewSecret("secret")})
		if err != nil {
			t.Fatal(err)
		}
		hook, err := StandardWebhooks(nil, tidemill.NewSecret("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))))
		if err != nil {
			t.Fatal(err)
		}
		for name, a := range map[string]Auth{"X-Timestamp": mac, "Webhook-Timestamp": hook} {
			r := &http.Request{Header: http.Header{}}
			if err := a.Sign(t.Context(), r, "key", nil); err != nil {
				t.Fatal(err)
			}
			if got := r.Header.Get(name); got != fmt.Sprint(time.Now().Unix()) {
				t.Errorf("%s is %q", name, got)
			}
		}
	})
}

// A signature whose headers cannot be sent is refused, and what cannot be signed is not sent.
func TestSignaturesThatCannotBeMade(t *testing.T) {
	for _, o := range []HMAC{{}, {Header: "a b"}, {TimestampHeader: "a b"}} {
		if o.Header+o.TimestampHeader != "" {
			o.Secret = tidemill.NewSecret("secret")
		}
		if _, err := NewHMAC(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	broken := errors.New("no key")
	if text, err := sign(nil, nil, func([]byte) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) || text != "" {
		t.Errorf("signed as %q, %v", text, err)
	}
}
