package config

import (
	"fmt"
	"slices"
)

// checker collects what is wrong with the settings of a system.
type checker struct {
	fields map[string]*Field
	wrong  map[string]error  // what could not be read, by path
	from   map[string]string // where values came from, by path
	errs   []error
}

// newChecker checks each setting by itself: that it could be read, and its limits.
func newChecker(fs []Field, wrong map[string]error, from map[string]string) *checker {
	k := &checker{fields: make(map[string]*Field, len(fs)), wrong: wrong, from: from}
	for i := range fs {
		f := &fs[i]
		k.fields[f.Path] = f
		if err := wrong[f.Path]; err != nil {
			k.errs = append(k.errs, err)
			continue
		}
		k.ok(f.limits.allow(f.value), f.Path)
	}
	return k
}

// fail says what is wrong with a setting. What could not be read has been said already.
func (k *checker) fail(path, format string, args ...any) {
	if k.wrong[path] == nil {
		k.errs = append(k.errs, fmt.Errorf("%s: %s", k.place(path), fmt.Sprintf(format, args...)))
	}
}

func (k *checker) ok(good bool, path string) {
	if f := k.fields[path]; !good {
		k.fail(path, "%q cannot be%s", f, allowed(f))
	}
}

// place names a setting and where its value came from.
func (k *checker) place(path string) string {
	from := k.from[path]
	if from == "" {
		return path
	}
	return fmt.Sprintf("%s (from %s)", path, from)
}

// readable says whether all these settings could be read and are within their limits, so
// that they can be compared.
func (k *checker) readable(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool {
		return k.wrong[path] != nil || !k.fields[path].limits.allow(k.fields[path].value)
	})
}
