package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Checker collects what is wrong with the settings of a group. Their paths are those below the
// group's name.
type Checker struct {
	c      *Loaded
	prefix string
	fields map[string]*Field
	order  []string // of the fields
	errs   []error
}

// NewChecker is the Checker of a system's group. It has found nothing yet.
func NewChecker(c *Loaded, name string) *Checker {
	k := &Checker{c: c, prefix: name + ".", fields: map[string]*Field{}}
	for _, g := range c.groups {
		if g.Name != name {
			continue
		}
		for _, f := range g.fields() {
			path := strings.TrimPrefix(f.Path, k.prefix)
			k.fields[path], k.order = &f, append(k.order, path)
		}
	}
	return k
}

// Limits checks each setting by itself: that it could be read, and what its tags allow.
func (k *Checker) Limits() {
	for _, path := range k.order {
		f := k.fields[path]
		if err := k.c.wrong[f.Path]; err != nil {
			k.errs = append(k.errs, err)
			continue
		}
		k.OK(f.limits.allow(f.value), path)
	}
}

// Err is all that is wrong.
func (k *Checker) Err() error { return errors.Join(k.errs...) }

// Add adds errors that say themselves where they are. Those that are nil are none.
func (k *Checker) Add(errs ...error) { k.errs = append(k.errs, errs...) }

// Fail says what is wrong with a setting. What could not be read has been said already.
func (k *Checker) Fail(path, format string, args ...any) {
	if k.c.wrong[k.prefix+path] == nil {
		k.errs = append(k.errs, fmt.Errorf("%s: %s", k.Place(path), fmt.Sprintf(format, args...)))
	}
}

// OK refuses the value of a setting that is not good.
func (k *Checker) OK(good bool, path string) {
	if !good {
		k.Fail(path, "%s", Invalid(k.fields[path], k.fields[path].Allow))
	}
}

// Refuse refuses the value of a setting, and says what is allowed.
func (k *Checker) Refuse(path string, value any, allowed string, args ...any) {
	k.Fail(path, "%s", Invalid(value, fmt.Sprintf(allowed, args...)))
}

// Invalid says that a value is refused, and what is allowed; empty: that is said elsewhere.
func Invalid(value any, allowed string) string {
	return fmt.Sprintf("invalid value %q", fmt.Sprint(value)) + remark(allowed)
}

// remark says behind an error what is allowed.
func remark(allowed string) string {
	if allowed == "" {
		return ""
	}
	return "; allowed: " + allowed
}

// Allowed says behind an error what is.
func (k *Checker) Allowed(path string) string { return remark(k.fields[path].Allow) }

// Place names a setting and where its value came from.
func (k *Checker) Place(path string) string {
	path = k.prefix + path
	if from := k.c.From[path]; from != "" {
		return fmt.Sprintf("%s (from %s)", path, from)
	}
	return path
}

// Readable says whether all these settings could be read and are within their limits, so
// that they can be compared.
func (k *Checker) Readable(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool {
		f := k.fields[path]
		return k.c.wrong[f.Path] != nil || !f.limits.allow(f.value)
	})
}
