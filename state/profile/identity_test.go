package profile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

func TestNormal(t *testing.T) {
	for _, c := range []struct {
		kind     profile.Kind
		in, want string
	}{
		{profile.External, " M-1 \n", "M-1"},
		{profile.External, "a b\u00e9e\u0301", "a b\u00e9e\u0301"},
		{profile.External, "\u2003", ""},
		{profile.External, strings.Repeat("x", profile.MaxName), strings.Repeat("x", profile.MaxName)},
		{profile.Email, " Ann.Lee+Golf@Club.Example ", "ann.lee+golf@club.example"},
		{profile.Email, "O\u0308Z@MU\u0308LLER.example", "öz@müller.example"},
		{profile.Email, "\u212aim@x.example", "kim@x.example"},                                                                              // the sign of Kelvin
		{profile.Email, strings.Repeat("x", 64) + "@" + strings.Repeat("y", 189), strings.Repeat("x", 64) + "@" + strings.Repeat("y", 189)}, // 254 bytes
		{profile.Email, "root@localhost", "root@localhost"},
		{profile.Email, "ann@xn--mller-kva.example", "ann@xn--mller-kva.example"},
		{profile.Email, strings.Repeat("x", 64) + "@x.example", strings.Repeat("x", 64) + "@x.example"},
		{profile.Phone, " +49 (0) 30/12-34.5 ", "+4903012345"},
		{profile.Phone, "0049\u00a030\u201112345", "00493012345"},
		{profile.Phone, "112", "112"},
		{profile.Phone, "+123456789012345678", "+123456789012345678"},
		{profile.Phone, "", ""},
	} {
		got, err := profile.Identity{Kind: c.kind, Value: c.in}.Normal()
		if err != nil || got.Value != c.want || got.Kind != c.kind {
			t.Errorf("%v %q: %q, %v; want %q", c.kind, c.in, got.Value, err, c.want)
		}
	}
}

func TestNormalSaysWhatIsWrongAndNotWhose(t *testing.T) {
	for _, c := range []struct {
		kind     profile.Kind
		in, want string
	}{
		{profile.External, strings.Repeat("x", profile.MaxName+1), "256 bytes"},
		{profile.External, "a\x00b", "control"},
		{profile.External, "a\u0085b", "control"},
		{profile.External, "\xff", "UTF-8"},
		{profile.Email, "ann", "no @"},
		{profile.Email, "ann@lee@x.example", "more than one @"},
		{profile.Email, "@x.example", "nothing before"},
		{profile.Email, "ann@", "domain"},
		{profile.Email, "ann@x..example", "domain"},
		{profile.Email, "ann@x.example.", "domain"},
		{profile.Email, "ann lee@x.example", "spaces"},
		{profile.Email, "ann\u200b@x.example", "invisible"},
		{profile.Email, "Ann <ann@x.example>", "spaces"},
		{profile.Email, "<ann@x.example>", "address alone"},
		{profile.Email, strings.Repeat("x", 65) + "@x.example", "65 bytes before"},
		{profile.Email, "x@" + strings.Repeat("x", 253), "255 bytes"},
		{profile.Phone, "12", "2 digits"},
		{profile.Phone, "+", "0 digits"},
		{profile.Phone, "()", "0 digits"},
		{profile.Phone, "+030 123", "0 after the +"},
		{profile.Phone, "49+30", "not at its beginning"},
		{profile.Phone, "030 123 ext. 5", `'e'`},
		{profile.Phone, "\u0661\u0662\u0663", `'١'`},
		{profile.Phone, strings.Repeat("1", 19), "more than 18"},
		{profile.Phone, "+" + strings.Repeat("1", 19), "more than 18"},
		{profile.Phone, strings.Repeat("1", 1000), "more than 18"},
		{0, "x", "of kind 0"},
		{9, "x", "of kind 9"},
	} {
		_, err := profile.Identity{Kind: c.kind, Value: c.in}.Normal()
		if !errors.Is(err, profile.ErrIdentity) || tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %q: %v, want it to say %q", c.kind, c.in, err, c.want)
		}
		if len(c.in) > 3 && err != nil && strings.Contains(err.Error(), c.in) {
			t.Errorf("%v %q is in its own error %q", c.kind, c.in, err)
		}
	}
}

// FuzzNormal holds that what is kept is in its kept form, and bounded.
func FuzzNormal(f *testing.F) {
	for _, s := range []string{" A@B.c ", "+49 (0)30 1", "İ@ß.example", "Ω\u0301@x", "\u1e9e@x.y", "ǅ\u030c@x", "I\u0307\u0323@x.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for k := profile.External; k <= profile.Phone; k++ {
			once, err := profile.Identity{Kind: k, Value: s}.Normal()
			if err != nil {
				continue
			}
			twice, err := once.Normal()
			if err != nil || twice != once || len(once.Value) > profile.MaxName {
				t.Errorf("%v %q is %q, and that is %q (%v)", k, s, once.Value, twice.Value, err)
			}
		}
	})
}

func TestNamesOfKindsAndOperations(t *testing.T) {
	for k, want := range map[profile.Kind]string{0: "?", profile.External: "externalId", profile.Email: "email", profile.Phone: "phone", 4: "?", 255: "?"} {
		if got := k.String(); got != want {
			t.Errorf("kind %d: %q, want %q", k, got, want)
		}
	}
	for o, want := range map[profile.Op]string{0: "?", profile.Set: "set", profile.Once: "set_once", profile.Unset: "unset", profile.Add: "increment", 5: "?", 255: "?"} {
		if got := o.String(); got != want {
			t.Errorf("operation %d: %q, want %q", o, got, want)
		}
		if got, err := profile.ParseOp(want); (err == nil) != (want != "?") || err == nil && got != o {
			t.Errorf("ParseOp %q: %v, %v", want, got, err)
		}
	}
}
