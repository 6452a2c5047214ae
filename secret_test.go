package tidemill

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

func TestASecretNeverPrints(t *testing.T) {
	type holder struct {
		Shown  Secret
		hidden Secret
		in     []any
		by     map[string]Secret
		at     *Secret
	}
	s := NewSecret("canary")
	h := holder{s, s, []any{s, &s}, map[string]Secret{"x": s}, &s}
	var b strings.Builder
	for _, v := range []any{s, &s, h, &h, []holder{h}, fmt.Errorf("it failed: %v", h), reflect.ValueOf(h)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
		text, _ := json.Marshal(v)
		b.Write(text)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("it failed", "v", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("it failed", "v", v)
	}
	if got := b.String(); strings.Contains(got, "canary") || strings.Contains(got, fmt.Sprintf("%x", "canary")) || !strings.Contains(got, redacted) {
		t.Errorf("a secret is printed:\n%s", got)
	}
	if s.Reveal() != "canary" || s.IsZero() || !s.Equal(NewSecret("canary")) || s.Equal(NewSecret("other")) || s.Equal(Secret{}) {
		t.Errorf("the secret reveals %q", s.Reveal())
	}
	if none := NewSecret(""); !none.IsZero() || none.Reveal() != "" || !none.Equal(Secret{}) || !reflect.ValueOf(none).IsZero() {
		t.Error("an empty text is a secret")
	}
}
