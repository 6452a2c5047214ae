package partner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"

	"github.com/tidemill/tidemill"
)

// Function is one that expressions have in addition to the language's own.
type Function struct{ Form, Help string }

// Functions are all added functions. Each gives nil for nil.
var Functions = []Function{
	{"email(x)", "an address, normalised; nil where x is none"},
	{"email_hash(x)", "SHA-256 of email(x) in hex; 64 hex digits stay as they are"},
	{"phone(x[, country])", "a number in E.164; nil where x is none"},
	{"phone_hash(x[, country])", "SHA-256 of phone(x) in hex; 64 hex digits stay as they are"},
	{"digits(x)", "the digits of a text alone"},
	{"sha256(x)", "SHA-256 of a text in hex; 64 hex digits stay as they are"},
	{"unix(t)", "a time in RFC 3339 or Unix seconds as Unix seconds"},
	{"millis(t)", "the same in milliseconds"},
	{"micros(t)", "the same in microseconds"},
	{"rfc3339(t)", "the same in RFC 3339"},
	{"text(x)", "a number as text, losing nothing"},
	{"number(x)", "a text as a number, losing nothing"},
	{"replace(s, old, new)", "a text of at most 64 KiB with old replaced by new"},
	{"compact(x)", "a list or an object without what is nil or \"\""},
	{"pick(list, {to: \"from\"})", "objects of a list (at most 1,000) with fields of other names"},
}

// functions are what Functions describes.
func functions() []expr.Option {
	one := func(name string, f func(any) (any, error)) expr.Option {
		return expr.Function(name, func(p ...any) (any, error) {
			if p[0] == nil {
				return nil, nil
			}
			v, err := f(p[0])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return v, nil
		}, new(func(any) any))
	}
	ofText := func(name string, f func(string) (string, bool)) expr.Option {
		return one(name, func(v any) (any, error) {
			s, err := asText(v)
			if err != nil {
				return nil, err
			}
			return orNil(f(s))
		})
	}
	withCountry := func(name string, f func(s, country string) (string, bool)) expr.Option {
		return expr.Function(name, func(p ...any) (any, error) {
			if p[0] == nil {
				return nil, nil
			}
			s, err := asText(p[0])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			country := ""
			if len(p) == 2 && p[1] != nil {
				if country, err = asText(p[1]); err != nil {
					return nil, fmt.Errorf("%s: country: %w", name, err)
				}
			}
			return orNil(f(s, country))
		}, new(func(any) any), new(func(any, any) any))
	}
	ofTime := func(name string, f func(time.Time) any) expr.Option {
		return one(name, func(v any) (any, error) {
			t, err := asTime(v)
			if err != nil {
				return nil, err
			}
			return f(t), nil
		})
	}
	return []expr.Option{
		ofText("email", Email),
		ofText("email_hash", EmailHash),
		ofText("digits", func(s string) (string, bool) { return Digits(s), true }),
		ofText("sha256", func(s string) (string, bool) { return Hash(s), true }),
		withCountry("phone", Phone),
		withCountry("phone_hash", PhoneHash),
		ofTime("unix", func(t time.Time) any { return int(t.Unix()) }),
		ofTime("millis", func(t time.Time) any { return int(t.UnixMilli()) }),
		ofTime("micros", func(t time.Time) any { return int(t.UnixMicro()) }),
		ofTime("rfc3339", func(t time.Time) any { return t.UTC().Format(time.RFC3339Nano) }),
		one("text", func(v any) (any, error) { return asText(v) }),
		one("number", asNumber),
		one("compact", compact),
		expr.Function("replace", replace, new(func(any, string, string) any)),
		expr.Function("pick", pick, new(func(any, map[string]any) any)),
	}
}

// salted is the function site_hash, for partners that are told the site's own hash.
func salted(salt tidemill.Secret) expr.Option {
	return expr.Function("site_hash", func(p ...any) (any, error) {
		if p[0] == nil {
			return nil, nil
		}
		s, err := asText(p[0])
		if err != nil {
			return nil, fmt.Errorf("site_hash: %w", err)
		}
		return SiteHash(s, salt), nil
	}, new(func(any) any))
}

func orNil(s string, ok bool) (any, error) {
	if !ok || s == "" {
		return nil, nil
	}
	return s, nil
}

func asText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return string(v), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", errors.New("a list or an object is no text")
}

func asNumber(v any) (any, error) {
	switch v := v.(type) {
	case int, float64, json.Number:
		return v, nil
	case string:
		n, err := decode([]byte(strings.TrimSpace(v)))
		if err == nil {
			switch n.(type) {
			case int, float64, json.Number:
				return n, nil
			}
		}
	}
	return nil, errors.New("it is no number")
}

func asTime(v any) (time.Time, error) {
	switch v := v.(type) {
	case string:
		t, err := instant(v)
		if err != nil || t.Year() < 1970 || t.Year() > 9999 {
			return time.Time{}, errors.New("it is no time in RFC 3339")
		}
		return t, nil
	case int:
		if v >= 0 && v < 1<<38 {
			return time.Unix(int64(v), 0), nil
		}
	case float64:
		if v >= 0 && v < 1<<38 {
			return time.UnixMicro(int64(v * 1e6)), nil
		}
	}
	return time.Time{}, errors.New("it is no time in RFC 3339 nor in Unix seconds")
}

// instant reads RFC 3339. A leap second is the second after it, as in the ingest API.
func instant(s string) (time.Time, error) {
	const upTo = len("2006-01-02T15:04:")
	if len(s) > upTo+2 && s[upTo:upTo+2] == "60" {
		t, err := time.Parse(time.RFC3339, s[:upTo]+"59"+s[upTo+2:])
		return t.Add(time.Second), err
	}
	return time.Parse(time.RFC3339, s)
}

func replace(p ...any) (any, error) {
	if p[0] == nil {
		return nil, nil
	}
	s, err := asText(p[0])
	if err != nil {
		return nil, fmt.Errorf("replace: %w", err)
	}
	old, with := p[1].(string), p[2].(string)
	if n := strings.Count(s, old); len(s)+n*(len(with)-len(old)) > maxText {
		return nil, errors.New("replace: the text would be longer than 64 KiB")
	}
	return strings.ReplaceAll(s, old, with), nil
}

func compact(v any) (any, error) {
	gone := func(v any) bool { return v == nil || v == "" }
	switch v := v.(type) {
	case []any:
		var out []any
		for _, e := range v {
			if !gone(e) {
				out = append(out, e)
			}
		}
		if out == nil {
			return nil, nil
		}
		return out, nil
	case map[string]any:
		out := maps.Clone(v)
		maps.DeleteFunc(out, func(_ string, e any) bool { return gone(e) })
		if len(out) == 0 {
			return nil, nil
		}
		return out, nil
	}
	return nil, errors.New("it is neither a list nor an object")
}

// maxPick is how many objects pick takes; events have at most a hundred items.
const maxPick = 1000

func pick(p ...any) (any, error) {
	if p[0] == nil {
		return nil, nil
	}
	list, ok := p[0].([]any)
	if !ok || len(list) > maxPick {
		return nil, fmt.Errorf("pick: it is no list of at most %d objects", maxPick)
	}
	fields := p[1].(map[string]any)
	out := make([]any, 0, len(list))
	for _, e := range list {
		from, ok := e.(map[string]any)
		if !ok {
			return nil, errors.New("pick: the list has something else than objects")
		}
		to := make(map[string]any, len(fields))
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			source, ok := fields[name].(string)
			if !ok {
				return nil, fmt.Errorf("pick: the source of %q is no name", name)
			}
			if v := from[source]; v != nil && v != "" {
				to[name] = v
			}
		}
		out = append(out, to)
	}
	return out, nil
}
