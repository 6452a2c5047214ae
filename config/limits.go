package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/when"
)

// limits is what the tags of a setting allow: of="a|b" one of these words, range="[1,10)" a
// number or duration from 1 and below 10 (an end left out is open), need="true" no empty
// text or list.
type limits struct {
	of        []string
	span      string
	low, high bound
	need      bool
}

// bound is an end of a range.
type bound struct {
	text  string // empty: none
	value float64
	open  bool // the value itself is outside
}

func limitsOf(tag reflect.StructTag, t reflect.Type) limits {
	l := limits{span: tag.Get("range"), need: tag.Get("need") == "true"}
	if of := tag.Get("of"); of != "" {
		l.of = strings.Split(of, "|")
	}
	if l.span != "" {
		low, high, _ := strings.Cut(l.span[1:len(l.span)-1], ",")
		l.low = boundOf(low, l.span[0] == '(', t)
		l.high = boundOf(high, l.span[len(l.span)-1] == ')', t)
	}
	return l
}

func boundOf(text string, open bool, t reflect.Type) bound {
	b := bound{text: text, open: open}
	if text == "" {
		return b
	}
	var err error
	if t == reflect.TypeFor[time.Duration]() {
		var d time.Duration
		d, err = when.Duration(text)
		b.value = float64(d)
	} else {
		b.value, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		panic("config: a bound that is none: " + text) // a test reads all
	}
	return b
}

// allow says whether a value is within the limits.
func (l limits) allow(v reflect.Value) bool {
	if l.of != nil && !slices.Contains(l.of, v.String()) || l.need && v.Len() == 0 {
		return false
	}
	if l.span == "" {
		return true
	}
	n := 0.0
	if v.CanInt() {
		n = float64(v.Int())
	} else {
		n = v.Float()
	}
	// Asked for what is inside, so that what is no number is not.
	return (l.low.text == "" || n > l.low.value || n == l.low.value && !l.low.open) &&
		(l.high.text == "" || n < l.high.value || n == l.high.value && !l.high.open)
}

// String says the limits to people.
func (l limits) String() string {
	low, high := l.low, l.high
	switch {
	case l.of != nil:
		return strings.Join(l.of, "|")
	case l.need:
		return "not empty"
	case l.span == "":
		return ""
	case high.text == "" && low.open:
		return "more than " + low.text
	case high.text == "":
		return low.text + " or more"
	case low.open:
		return fmt.Sprintf("more than %s, at most %s", low.text, high.text)
	}
	return fmt.Sprintf("%s to %s", low.text, high.text)
}
