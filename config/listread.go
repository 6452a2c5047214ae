package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/tidemill/tidemill/internal/when"
)

// list reads a list of groups of the file, each into a value of its own.
func (r *reader) list(path string, n ast.Node, into reflect.Value) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		if _, null := n.(*ast.NullNode); !null {
			r.fail(n, "%s: want %s", path, formOf(into.Type()))
		}
		return
	}
	for i, e := range seq.Values {
		if r.element(path, fmt.Sprintf("%s[%d]", path, i), e, into) {
			r.c.places[path] = append(r.c.places[path], fmt.Sprintf("%s:%d: ", r.path, e.GetToken().Position.Line))
		}
	}
}

// element reads a group of settings, which has a name in errors, to the end of a list.
func (r *reader) element(path, name string, e ast.Node, into reflect.Value) (ok bool) {
	if !r.shape(name, e, into.Type().Elem()) {
		return false
	}
	v := reflect.New(into.Type().Elem())
	if err := yaml.NodeToValue(e, v.Interface(), yaml.DisallowUnknownField(), yaml.CustomUnmarshaler(wholeNumber), yaml.CustomUnmarshaler(anyDuration)); err != nil {
		if ye, ok := errors.AsType[yaml.Error](err); ok && ye.GetToken() != nil {
			r.errs = append(r.errs, fmt.Errorf("%s:%d: %s: %s", r.path, ye.GetToken().Position.Line, path, ye.GetMessage()))
		} else if number, ok := errors.AsType[notWhole](err); ok {
			r.fail(e, "%s: %v", path, number)
		} else {
			r.fail(e, "%s: it cannot be read", path) // not the value: a key may stand there
		}
		return false
	}
	into.Set(reflect.Append(into, v.Elem()))
	return true
}

// Element names a list of the file with the place of one of its elements.
func (c *Loaded) Element(path string, i int) string {
	if places := c.places[path]; i < len(places) {
		return places[i] + path
	}
	return path
}

// anyDuration reads a duration as it is read everywhere.
func anyDuration(into *time.Duration, text []byte) error {
	d, err := when.Duration(strings.Trim(strings.TrimSpace(string(text)), `"'`))
	*into = d
	return err
}

// wholeNumber reads a number that has no fractions: those would be cut off silently.
func wholeNumber(into *int, text []byte) error {
	number := strings.Trim(strings.TrimSpace(string(text)), `"'`)
	n, err := strconv.ParseInt(number, 0, strconv.IntSize)
	if err != nil {
		if _, err := strconv.ParseFloat(number, 64); err != nil {
			number = "a value" // which may be a key
		}
		return notWhole(number)
	}
	*into = int(n)
	return nil
}

// notWhole is what stands where a whole number is wanted.
type notWhole string

func (n notWhole) Error() string { return string(n) + " is no whole number, or too large a one" }
