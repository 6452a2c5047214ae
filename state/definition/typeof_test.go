package definition_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/definition"
)

func TestTypeOf(t *testing.T) {
	now := time.Unix(1_788_000_000, 0)
	const none = definition.Type("")
	for _, c := range []struct {
		name, key, raw string
		want           definition.Type
	}{
		{"true is a boolean", "a", `true`, definition.Boolean},
		{"false is a boolean", "a", `false`, definition.Boolean},
		{"a number is numeric", "a", `12`, definition.Numeric},
		{"a negative fraction is numeric", "a", `-1.5e-3`, definition.Numeric},
		{"text is text", "a", `"hello"`, definition.String},
		{"empty text is text", "a", `""`, definition.String},
		{"blank text is text", "a", `"  "`, definition.String},
		{"null has no type", "a", `null`, none},
		{"an object has no type", "a", `{"b":1}`, none},
		{"an array has no type", "a", `[1]`, none},
		{"nothing has no type", "a", ``, none},
		{"junk has no type", "a", `junk`, none},
		{"white space around a value does not matter", "a", " 1\n", definition.Numeric},

		{"utm_ is text whatever it holds", "utm_term", `12`, definition.String},
		{"utm_ is text even when null", "utm_term", `null`, definition.String},
		{"in capitals too", "UTM_Term", `true`, definition.String},
		{"initial utm", "$initial_utm_source", `1`, definition.String},
		{"feature flags", "$feature/new-page", `true`, definition.String},
		{"survey responses", "$survey_response_2", `5`, definition.String},
		{"a flag's response", "$feature_flag_response", `true`, definition.String},
		{"only that very name", "$feature_flag_response_2", `true`, definition.Boolean},
		{"utm_ inside is not enough", "my_utm_", `1`, definition.Numeric},

		{"a name of time with seconds of now", "signup_time", `1788000000`, definition.DateTime},
		{"with a fraction", "signup_time", `1788000000.5`, definition.DateTime},
		{"timestamp", "timestamp", `1788000000`, definition.DateTime},
		{"date in capitals", "BirthDate", `1788000000`, definition.DateTime},
		{"_at", "seen_at", `1788000000`, definition.DateTime},
		{"-at", "seen-at", `1788000000`, definition.DateTime},
		{"createdAt", "createdAt", `1788000000`, definition.DateTime},
		{"updatedAt", "updatedAt", `1788000000`, definition.DateTime},
		{"the earliest", "time", `1772232000`, definition.DateTime},
		{"before the earliest", "time", `1772231999`, definition.Numeric},
		{"the latest", "time", `2103360000`, definition.DateTime},
		{"after the latest", "time", `2103360001`, definition.Numeric},
		{"milliseconds are a number", "time", `1788000000000`, definition.Numeric},
		{"a duration is a number", "load_time", `350`, definition.Numeric},
		{"another name with seconds of now", "count", `1788000000`, definition.Numeric},
		{"a name of time with seconds as text", "time", `"1788000000"`, definition.Numeric},
		{"a name of time with a boolean", "update", `true`, definition.Boolean},
		{"a name of time with text", "date", `"tomorrow"`, definition.String},

		{"text that says true", "a", `" true "`, definition.Boolean},
		{"text that shouts false", "a", `"FALSE"`, definition.Boolean},
		{"text that says True is text", "a", `"True"`, definition.String},

		{"a date with a time", "a", `"2026-05-04T12:00:00Z"`, definition.DateTime},
		{"a date and T is enough", "a", `"2026-05-04Tea"`, definition.DateTime},
		{"a date and a blank is enough", "a", `"2026-05-04 and more"`, definition.DateTime},
		{"a date and a tab", "a", `"2026-05-04\tx"`, definition.DateTime},
		{"a date and a hard space", "a", `"2026-99-99\u00a0x"`, definition.DateTime},
		{"a date alone", "a", `"2026-05-04"`, definition.DateTime},
		{"a date among blanks", "a", `"  2026-05-04 "`, definition.DateTime},
		{"with strokes", "a", `"2026/05/04"`, definition.DateTime},
		{"with one of each", "a", `"2026/05-04"`, definition.DateTime},
		{"the year last", "a", `"05-04-2026"`, definition.DateTime},
		{"the year last, with strokes", "a", `"25/31/2026"`, definition.DateTime},
		{"no such day, but the shape", "a", `"2026-29-39"`, definition.DateTime},
		{"a month over 29", "a", `"2026-30-01"`, definition.String},
		{"a day over 39", "a", `"2026-12-40"`, definition.String},
		{"day first over 29", "a", `"31/12/2026"`, definition.String},
		{"strokes and a time", "a", `"2026/05/04 12:00:00"`, definition.DateTime},
		{"strokes, T, a time and anything", "a", `"05/04/2026T99:99:99 or so"`, definition.DateTime},
		{"strokes and half a time", "a", `"2026/05/04 12:00"`, definition.String},
		{"strokes and T", "a", `"2026/05/04T"`, definition.String},
		{"blanks before a date with more after", "a", `" 2026-05-04Tea"`, definition.String},
		{"blanks before a date with a time", "a", `" 2026-05-04T12:00:00"`, definition.DateTime},
		{"a date with a letter after", "a", `"2026-05-04x"`, definition.String},
		{"short digits", "a", `"2026-5-4"`, definition.String},
		{"escapes are read", "a", `"2026\u002d05-04"`, definition.DateTime},

		{"the least of each base", "a", `"0xf"`, definition.Numeric},
		{"octal", "a", `"0o7"`, definition.Numeric},
		{"binary", "a", `"0b1"`, definition.Numeric},
		{"half a base", "a", `"0x"`, definition.String},
		{"a base and other digits", "a", `"0b2"`, definition.String},
		{"an octal eight", "a", `"0o8"`, definition.String},
		{"a hex g", "a", `"0xg"`, definition.String},
		{"a power below zero", "a", `"1e-2"`, definition.Numeric},
		{"a power with a plus", "a", `"1e+2"`, definition.Numeric},
		{"a power of a sign alone", "a", `"1e-"`, definition.String},
		{"a power of two signs", "a", `"1e--1"`, definition.String},
		{"text that shouts true", "a", `"TRUE"`, definition.Boolean},
		{"text that says false", "a", `"false"`, definition.Boolean},
		{"among the blanks there are", "a", `"\r\u2000\u200a7\t\u000b"`, definition.Numeric},
		{"a blank that is none", "a", `"\u200b7"`, definition.String},
		{"digits and what is beside them", "a", `"202:-05-04"`, definition.String},
		{"and before them", "a", `"202/-05-04"`, definition.String},
		{"text that is cut off", "a", `"`, none},
		{"text cut off after a letter", "a", `"x`, definition.String},
		{"text of digits", "a", `"12"`, definition.Numeric},
		{"among blanks", "a", `"\ufeff 12\n"`, definition.Numeric},
		{"with a sign", "a", `"+12"`, definition.Numeric},
		{"a fraction", "a", `"-.5"`, definition.Numeric},
		{"a trailing point", "a", `"5."`, definition.Numeric},
		{"a point alone", "a", `"."`, definition.String},
		{"a sign alone", "a", `"-"`, definition.String},
		{"an exponent", "a", `"1E+3"`, definition.Numeric},
		{"half an exponent", "a", `"1e"`, definition.String},
		{"an exponent alone", "a", `"e5"`, definition.String},
		{"two exponents", "a", `"1E2e3"`, definition.String},
		{"beyond all numbers", "a", `"1e999"`, definition.Numeric},
		{"hex", "a", `"0xFf"`, definition.Numeric},
		{"hex with a sign", "a", `"-0xff"`, definition.String},
		{"hex of nothing", "a", `"0x"`, definition.String},
		{"octal", "a", `"0o17"`, definition.Numeric},
		{"binary", "a", `"0b12"`, definition.String},
		{"Infinity", "a", `"-Infinity"`, definition.Numeric},
		{"infinity in small letters", "a", `"infinity"`, definition.String},
		{"NaN", "a", `"NaN"`, definition.String},
		{"groups of digits", "a", `"1_000"`, definition.String},
		{"a comma", "a", `"1,5"`, definition.String},
		{"two points, a version", "a", `"1.2.3"`, definition.String},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := definition.TypeOf(c.key, []byte(c.raw), now); got != c.want {
				t.Errorf("TypeOf(%q, %s) = %q, want %q", c.key, c.raw, got, c.want)
			}
		})
	}
}

func FuzzTypeOf(f *testing.F) {
	for _, s := range []string{`"2026-05-04T"`, `1788000000`, `"0x"`, `"\ud800"`, `"`, `{}`} {
		f.Add("created_at", s)
	}
	f.Fuzz(func(t *testing.T, key, raw string) {
		switch got := definition.TypeOf(key, []byte(raw), time.Unix(1_788_000_000, 0)); got {
		case "", definition.String, definition.Numeric, definition.Boolean, definition.DateTime:
		default:
			t.Errorf("TypeOf(%q, %q) = %q", key, raw, got)
		}
	})
}

func TestNamesInTheCatalogue(t *testing.T) {
	if e, p := definition.OfEvent.Name("plan"), definition.OfPerson.Name("plan"); e != "properties.plan" || p != "user_properties.plan" {
		t.Errorf("%s and %s", e, p)
	}
}
