package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/when"
)

// Field is one setting: where it stands in the struct, and what its tags say.
type Field struct {
	Path    string   // in the file: redis.url
	Env     []string // environment variables, the first one set wins
	Flag    string   // flag of tidemill run, without its dashes; empty: none that the struct names
	Default string   // as it would be written, or the rule that it follows
	Help    string
	Allow   string
	Secret  bool
	Reload  bool // a reload applies it while the process runs

	value   reflect.Value
	limits  limits
	bare    time.Duration // unit of a duration without one; 0: it is refused
	comment bool          // it is commented out in the file that init writes
	machine Machine       // for defaults that are rules
}

// fieldsIn lists the settings of a group. bare is the unit of durations without one,
// comment whether init comments them out.
func fieldsIn(group reflect.Value, prefix string, bare time.Duration, comment bool) []Field {
	var fs []Field
	for i := range group.NumField() {
		t, v := group.Type().Field(i), group.Field(i)
		if !t.IsExported() {
			continue
		}
		path := prefix + t.Tag.Get("yaml")
		_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
		switch {
		case t.Type.Kind() == reflect.Struct && !text:
			fs = append(fs, fieldsIn(v, path+".", bare, comment)...)
		case t.Type.Kind() == reflect.Slice && t.Type.Elem().Kind() == reflect.Struct && !text:
		default:
			f := fieldOf(t, v, path, bare)
			f.comment = comment
			fs = append(fs, f)
		}
	}
	return fs
}

// tagged has what the tags of a field say, as a Field without path and value, by fieldTags. Each
// configuration that is loaded, compared or checked has the same hundreds.
var tagged sync.Map

type fieldTags struct {
	tag  reflect.StructTag
	of   reflect.Type
	bare time.Duration
}

func fieldOf(t reflect.StructField, v reflect.Value, path string, bare time.Duration) Field {
	by := fieldTags{t.Tag, t.Type, bare}
	was, ok := tagged.Load(by)
	if !ok {
		was, _ = tagged.LoadOrStore(by, readTags(t, bare))
	}
	f := was.(Field)
	f.Path, f.value, f.Env = path, v, slices.Clone(f.Env)
	return f
}

// readTags is what the tags of a field say.
func readTags(t reflect.StructField, bare time.Duration) Field {
	f := Field{Flag: t.Tag.Get("flag"), Default: t.Tag.Get("default"), Help: t.Tag.Get("help"), Allow: t.Tag.Get("allow"),
		Secret: strings.HasSuffix(t.Type.String(), "Secret"), Reload: t.Tag.Get("reload") == "true", bare: bare}
	if e := t.Tag.Get("env"); e != "" {
		f.Env = strings.Split(e, ",")
	}
	if bare > 0 && strings.HasSuffix(f.Flag, "-ms") || t.Tag.Get("unit") == "ms" {
		f.bare = time.Millisecond
	}
	f.limits = limitsOf(t.Tag, t.Type)
	if f.Allow == "" {
		f.Allow = f.limits.String()
	}
	switch {
	case f.rule() && t.Type.Kind() == reflect.Int:
		f.Allow += ", or like CPUs × 2"
	case t.Type == reflect.TypeFor[time.Duration]() && f.bare == time.Millisecond:
		f.Allow += "; a number alone is milliseconds"
	case t.Type == reflect.TypeFor[time.Duration]() && f.bare == time.Second:
		f.Allow += "; a number alone is seconds"
	}
	return f
}

// rule says whether the default is one that the machine makes a value of.
func (f *Field) rule() bool { return isRule(f.Default) }

// Group is the first part of its path, like redis; empty: it has no other part.
func (f *Field) Group() string { return groupOf(f.Path) }

func groupOf(path string) string {
	group, _, in := strings.Cut(path, ".")
	if !in {
		return ""
	}
	return group
}

// Bool says whether the setting is either true or false.
func (f *Field) Bool() bool { return f.value.Kind() == reflect.Bool }

// List says whether the setting is a list.
func (f *Field) List() bool { return f.value.Kind() == reflect.Slice }

// set parses text into the field. bare is the unit of a duration without one; 0: refused.
func (f *Field) set(text string, bare time.Duration) error {
	if f.rule() {
		text = f.machine.apply(text)
	}
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
	case *float64:
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		*p = n
	case *time.Duration:
		d, err := duration(strings.TrimSpace(text), bare)
		if err != nil {
			return err
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

// duration reads a duration. bare is the unit of one without one; 0: it is refused.
func duration(text string, bare time.Duration) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && (bare > 0 || n == 0) {
		if bare > 0 && (n > math.MaxInt64/int64(bare) || n < -math.MaxInt64/int64(bare)) {
			return 0, fmt.Errorf("%q is too long a time", text)
		}
		return time.Duration(n) * bare, nil
	}
	return when.Duration(text)
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
