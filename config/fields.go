package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Field is one setting: where it stands in the struct, and what its tags say.
type Field struct {
	Path    string   // in the file: analytics.flush_interval
	Env     []string // environment variables, the first one set wins
	Default string
	Help    string
	Allow   string
	Secret  bool

	value reflect.Value
}

// fieldsOf lists the settings of c in the order of the struct. Lists of structs
// (projects) are not among them: they are set in the file and by flags of their own.
func fieldsOf(c *Config) []Field {
	var fs []Field
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for i := range v.NumField() {
			t, path := v.Type().Field(i), prefix+v.Type().Field(i).Tag.Get("yaml")
			_, text := v.Field(i).Addr().Interface().(encoding.TextUnmarshaler)
			switch {
			case t.Type.Kind() == reflect.Struct && !text:
				walk(v.Field(i), path+".")
			case t.Type.Kind() == reflect.Slice && t.Type.Elem().Kind() == reflect.Struct:
			default:
				f := Field{Path: path, Default: t.Tag.Get("default"), Help: t.Tag.Get("help"), Allow: t.Tag.Get("allow"),
					Secret: strings.HasSuffix(t.Type.String(), "Secret"), value: v.Field(i)}
				if e := t.Tag.Get("env"); e != "" {
					f.Env = strings.Split(e, ",")
				}
				fs = append(fs, f)
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	return fs
}

// set parses text into the field. bare is the unit of a duration without one; 0: refused.
func (f *Field) set(text string, bare time.Duration) error {
	switch p := f.value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *string:
		*p = text
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*p = b
	case *int:
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = n
	case *time.Duration:
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && (bare > 0 || n == 0) {
			*p = time.Duration(n) * bare
			return nil
		}
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q is not a duration: write 500ms, 5s, 10m or 24h", text)
		}
		*p = d
	case *[]string:
		*p = nil
		for s := range strings.SplitSeq(text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				*p = append(*p, s)
			}
		}
	default:
		panic("config: a field of a type that set does not know: " + f.value.Type().String())
	}
	return nil
}

// String is the value as it would be written; secrets show only that they are set.
func (f *Field) String() string {
	switch v := f.value.Interface().(type) {
	case encoding.TextMarshaler:
		if f.Secret && f.value.IsZero() {
			return ""
		}
		b, _ := v.MarshalText()
		return string(b)
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}
