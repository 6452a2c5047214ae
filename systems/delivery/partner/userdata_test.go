package partner_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// rational is the exact value of a number, as a text that equal numbers share.
func rational(n json.Number) string {
	if _, e, ok := strings.Cut(strings.ToLower(string(n)), "e"); len(n) > 40 || ok && len(e) > 4 {
		return "?" // exponents may be astronomic
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return "?"
	}
	return r.String()
}

func TestPhones(t *testing.T) {
	for _, c := range []struct{ number, country, want string }{
		{"+49 (151) 123-4567", "", "+491511234567"},
		{"0049 151 1234567", "", "+491511234567"},
		{"0151 1234567", "DE", "+491511234567"},
		{"491511234567", "de", "+491511234567"},
		{"0151 1234567", "", "01511234567"},
		{"(415) 555-0100", "US", "+14155550100"},
		{"1-415-555-0100", "US", "+14155550100"},
		{"020 7946 0018", "GB", "+442079460018"},
		{"06 12345678", "FR", "+33612345678"},
		{"06 1234 5678", "IT", "+390612345678"},
		{"8 912 345-67-89", "RU", "+79123456789"},
		{"06 30 123 4567", "HU", "+36301234567"},
		{"612 345 678", "ES", "+34612345678"},
		{"0151 1234567", "ZZ", "01511234567"},
		{"12", "DE", ""},
		{"", "DE", ""},
		{"no number", "", ""},
		{"+1234567890123456", "", ""},
	} {
		got, ok := partner.Phone(c.number, c.country)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q in %q: %q, %v; want %q", c.number, c.country, got, ok, c.want)
		}
	}
}

func TestHashes(t *testing.T) {
	const of = "b4c9a289323b21a01c3e940f150eb9b8c542587f1abfd8f0e1cc1ffc5e475514" // sha256 of user@example.com
	for _, s := range []string{"user@example.com", " User@Example.COM\n", of, strings.ToUpper(of), " " + of} {
		if got, ok := partner.EmailHash(s); !ok || got != of {
			t.Errorf("%q: %s, %v", s, got, ok)
		}
	}
	if got, ok := partner.PhoneHash("0151 1234567", "DE"); !ok || got != partner.Hash("+491511234567") {
		t.Errorf("phone: %s", got)
	}
	salt := tidemill.NewSecret("salt")
	if got := partner.SiteHash("user@example.com", salt); got != partner.Hash("user@example.comsalt") || got == of {
		t.Errorf("the site's: %s", got)
	}
	if got := partner.SiteHash(strings.ToUpper(of), salt); got != of {
		t.Errorf("hashed twice: %s", got)
	}
}

func FuzzPhone(f *testing.F) {
	f.Add("+49 151 1234567", "DE")
	f.Add("0", "IT")
	f.Fuzz(func(t *testing.T, s, country string) {
		got, ok := partner.Phone(s, country)
		if !ok {
			return
		}
		digits := strings.TrimPrefix(got, "+")
		if digits != partner.Digits(digits) || len(digits) < 7 || len(digits) > 15 {
			t.Errorf("%q in %q: %q", s, country, got)
		}
	})
}
