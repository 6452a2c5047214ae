package profile

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/tidemill/tidemill"
)

// Kind of an identity, in the order in which they decide.
type Kind uint8

const (
	External Kind = iota + 1 // the id that the business application gave
	Email
	Phone
)

// Identity is one name of a customer.
type Identity struct {
	Kind  Kind
	Value string
}

// Identities are the identities of an event, as received; empty ones are not given.
type Identities struct {
	External string // in JSON externalId
	Email    string
	Phone    string
}

// ErrIdentity says that an identity, or the tenant, is invalid. It comes with kind
// validation and says why, without the value: that is personal data.
var ErrIdentity = errors.New("bad identity")

// String returns the kind as it is written in events and answers.
func (k Kind) String() string {
	return [...]string{"?", "externalId", "email", "phone"}[min(k, Phone+1)%(Phone+1)]
}

// Compare orders identities by kind, then by value byte for byte.
func (i Identity) Compare(o Identity) int {
	return cmp.Or(cmp.Compare(i.Kind, o.Kind), strings.Compare(i.Value, o.Value))
}

// Normal returns the identity in the form in which it is kept and compared; Normal of that
// form is the same. An identity of nothing but space is empty, and not an error.
//
//   - An external id is trimmed. It is opaque: case and everything else is kept.
//   - An email is trimmed, brought to Unicode's form NFC and to lower case. By the standard
//     mailboxes can differ in case, but in practice one customer writes both. An email needs
//     one @, at most 64 bytes before it and 254 in all, no space, and no empty label in its
//     domain. Dots, +tags and the two forms of international domains stay as they are: only
//     the provider knows their meaning.
//   - A phone is its 3 to 18 digits, with a + before them if it had one: spaces, dots,
//     dashes, slashes and parentheses do not count. Without a + the country is not known:
//     +49 30 1 and 030 1 are two phones. Extensions and letters are refused, since without
//     them it would be another phone.
func (i Identity) Normal() (Identity, error) {
	if !utf8.ValidString(i.Value) {
		return i, bad(i.Kind, "it is no UTF-8")
	}
	v, wrong := strings.TrimSpace(i.Value), ""
	if v != "" {
		switch i.Kind {
		case External:
			wrong = checkText(v)
		case Email:
			v = norm.NFC.String(strings.ToLower(norm.NFC.String(v)))
			wrong = checkEmail(v)
		case Phone:
			v, wrong = phone(v)
		default:
			return i, tidemill.Fail(tidemill.Validation, "%w: it is of kind %d; want external id, email or phone", ErrIdentity, i.Kind)
		}
	}
	if wrong != "" {
		return i, bad(i.Kind, wrong)
	}
	return Identity{i.Kind, v}, nil
}

// Normal returns the given identities, in their kept form and the order of their kinds. It
// is an error where one is invalid, or none is given.
func (s Identities) Normal() ([]Identity, error) {
	given := make([]Identity, 0, 3)
	for _, i := range [...]Identity{{External, s.External}, {Email, s.Email}, {Phone, s.Phone}} {
		n, err := i.Normal()
		if err != nil {
			return nil, err
		}
		if n.Value != "" {
			given = append(given, n)
		}
	}
	if len(given) == 0 {
		return nil, tidemill.Fail(tidemill.Validation, "%w: none is given; want an externalId, an email or a phone", ErrIdentity)
	}
	return given, nil
}

func bad(k Kind, wrong string) error {
	return tidemill.Fail(tidemill.Validation, "%w: %v: %s", ErrIdentity, k, wrong)
}

// CheckTenant returns what is invalid in a tenant.
func CheckTenant(tenant string) error {
	wrong := checkText(tenant)
	switch {
	case tenant == "":
		wrong = "it is empty"
	case !utf8.ValidString(tenant):
		wrong = "it is no UTF-8"
	}
	if wrong != "" {
		return tidemill.Fail(tidemill.Validation, "%w: tenant: %s", ErrIdentity, wrong)
	}
	return nil
}

// checkText returns what is invalid in a name that is kept as it is.
func checkText(v string) string {
	switch {
	case len(v) > MaxName:
		return fmt.Sprintf("it has %d bytes; want at most %d", len(v), MaxName)
	case strings.ContainsFunc(v, unicode.IsControl):
		return "it has control characters"
	}
	return ""
}

// The largest lengths of RFC 5321: a path of 256 with its brackets, and a local part.
const (
	maxEmail = 254
	maxLocal = 64
)

func checkEmail(v string) string {
	at := strings.LastIndexByte(v, '@')
	switch {
	case len(v) > maxEmail:
		return fmt.Sprintf("it has %d bytes; want at most %d", len(v), maxEmail)
	case strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }):
		return "it has spaces, control or invisible characters inside"
	case strings.ContainsAny(v, `<>,;"`):
		return `it has one of < > , ; "; want the address alone`
	case at < 0:
		return "it has no @"
	case strings.IndexByte(v, '@') != at:
		return "it has more than one @"
	case at == 0:
		return "it has nothing before the @"
	case at > maxLocal:
		return fmt.Sprintf("it has %d bytes before the @; want at most %d", at, maxLocal)
	}
	for label := range strings.SplitSeq(v[at+1:], ".") {
		if label == "" {
			return "its domain is empty or has an empty part"
		}
	}
	return ""
}

// Digits of a phone: three are the shortest that are dialled, fifteen the longest of
// E.164, with up to three before them to dial abroad.
const (
	minDigits = 3
	maxDigits = 18
)

func phone(v string) (normal, wrong string) {
	b := make([]byte, 0, 1+maxDigits)
	for at, r := range v {
		switch {
		case r >= '0' && r <= '9':
			b = append(b, byte(r))
		case r == '+' && at == 0:
			b = append(b, '+')
		case unicode.IsSpace(r), strings.ContainsRune("-.()/\u2010\u2011\u2012\u2013", r):
		case r == '+':
			return "", "it has a + that is not at its beginning"
		default:
			return "", fmt.Sprintf("it has %q in it; want digits, and a + before them for the country", r)
		}
	}
	normal = string(b)
	switch digits := strings.TrimPrefix(normal, "+"); {
	case len(digits) < minDigits:
		return "", fmt.Sprintf("it has %d digits; want at least %d", len(digits), minDigits)
	case len(digits) > maxDigits:
		return "", fmt.Sprintf("it has more than %d digits", maxDigits)
	case normal[0] == '+' && digits[0] == '0':
		return "", "it has a 0 after the +, where the country is"
	}
	return normal, ""
}
