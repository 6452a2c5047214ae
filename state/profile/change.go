package profile

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile/internal/number"
)

// Op is what is done to one attribute.
type Op uint8

const (
	Set   Op = iota + 1 // overwrites what an older event wrote
	Once                // only where there is no value: the earliest counts
	Unset               // removes what an older event wrote
	Add                 // adds a number, negative too, exactly; no value and null count as 0
)

// ErrChange says that a change is invalid. It comes with kind validation.
var ErrChange = errors.New("bad change")

// String returns the operation as it is written in configurations.
func (o Op) String() string {
	return [...]string{"?", "set", "set_once", "unset", "increment"}[min(o, Add+1)%(Add+1)]
}

// ParseOp is the inverse of Op.String.
func ParseOp(s string) (Op, error) {
	for o := Set; o <= Add; o++ {
		if o.String() == s {
			return o, nil
		}
	}
	return 0, fmt.Errorf("operation on an attribute %.40q: want set, set_once, unset or increment", s)
}

// Check returns what is invalid in a change, with the attribute.
func (c *Change) Check() error {
	if err := CheckTenant(c.Tenant); err != nil {
		return err
	}
	if len(c.Attributes) > MaxAttributes {
		return tidemill.Fail(tidemill.Validation, "%w: it has %d attributes; want at most %d", ErrChange, len(c.Attributes), MaxAttributes)
	}
	seen := make(map[string]bool, len(c.Attributes))
	for i := range c.Attributes {
		a := &c.Attributes[i]
		wrong := a.check()
		if seen[a.Key] {
			wrong = "it is changed twice"
		}
		if seen[a.Key] = true; wrong != "" {
			return tidemill.Fail(tidemill.Validation, "%w: %v attribute %.80q: %s", ErrChange, a.Op, a.Key, wrong)
		}
	}
	return nil
}

func (a *Attribute) check() string {
	switch {
	case a.Op < Set || a.Op > Add:
		return "there is no such operation"
	case a.Key == "" || len(a.Key) > MaxKey:
		return fmt.Sprintf("its name has %d bytes; want 1 to %d", len(a.Key), MaxKey)
	case !utf8.ValidString(a.Key) || strings.ContainsFunc(a.Key, unicode.IsControl):
		return "its name is no UTF-8 or has control characters"
	case a.Op == Unset:
		return ""
	case len(a.Value) > MaxValue:
		return fmt.Sprintf("its value has %d bytes; want at most %d", len(a.Value), MaxValue)
	case !utf8.Valid(a.Value) || !jsontext.Value(a.Value).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)): // half a surrogate may come from JavaScript
		return "its value is no JSON in UTF-8"
	case deep(a.Value):
		return fmt.Sprintf("its value is deeper than %d", MaxDepth)
	}
	if a.Op == Add && !number.Valid(a.Value) {
		return fmt.Sprintf("its value is no number of at most %d digits", number.MaxDigits)
	}
	return ""
}

// deep says whether valid JSON is nested deeper than MaxDepth values: more than some
// readers of the stored object can bear.
func deep(v []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
