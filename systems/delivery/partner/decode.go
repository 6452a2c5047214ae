package partner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep an event or an answer may nest; the ingest API checks events to 10.
const maxDepth = 32

var errDeep = fmt.Errorf("it nests deeper than %d", maxDepth)

// decode makes values for expressions of one JSON text: nil, bool, string, []any,
// map[string]any, and numbers without loss: int where one fits, float64 where it is written
// again with the same value, else json.Number, which goes out as it came in.
func decode(text []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the JSON value")
	}
	return v, nil
}

func decodeValue(d *jsontext.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		return number(t.String()), nil
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	}
	m := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		m[key] = v
	}
	_, err = d.ReadToken()
	return m, err
}

// number keeps the value of a JSON number.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && text != "-0" {
		return int(n)
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || f == 0 && text[0] == '-':
	case f != 0 && digits(text) <= 15, decimalOf(text) == decimalOf(strconv.FormatFloat(f, 'e', -1, 64)):
		return f
	}
	return json.Number(text)
}

// digits counts those of the mantissa.
func digits(text string) (n int) {
	for _, c := range text {
		switch {
		case c == 'e' || c == 'E':
			return n
		case c >= '0' && c <= '9':
			n++
		}
	}
	return n
}

// decimal is the value of a number: 0.digits times a power of ten.
type decimal struct {
	minus  bool
	digits string // without zeros in front and behind
	power  int
}

func decimalOf(text string) (d decimal) {
	text, d.minus = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.power, _ = strconv.Atoi(text[i+1:]) // a power that is too large fits no float64
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.power += len(whole)
	d.digits = strings.TrimLeft(whole+fraction, "0")
	d.power -= len(whole) + len(fraction) - len(d.digits)
	if d.digits = strings.TrimRight(d.digits, "0"); d.digits == "" {
		d.power = 0
	}
	return d
}

// encode appends the value of an expression.
func encode(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, errDeep
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return jsontext.AppendQuote(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, errors.New("it is no finite number")
		}
		b, err := json.Marshal(v)
		return append(dst, b...), err
	case json.Number:
		return append(dst, v...), nil
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = encode(dst, e, depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = jsontext.AppendQuote(dst, name); err != nil {
				return dst, err
			}
			if dst, err = encode(append(dst, ':'), v[name], depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return dst, fmt.Errorf("it is %s, which is nothing that JSON has", cmp.Or(strings.TrimPrefix(fmt.Sprintf("%T", v), "*"), "nothing"))
}
