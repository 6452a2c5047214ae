package search

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// Value is a document's value of one field, for backends without a mapping of their own. They
// accept and refuse what the servers do, except lists, which they refuse.
type Value struct {
	Has      bool
	Int      int64   // integers; milliseconds of a Date
	Float    float64 // Double
	Text     string  // Keyword, Text
	Lat, Lon float64 // GeoPoint
}

// NoTime is the time that documents without one are sorted by: 0001-01-01.
const NoTime = -62135596800000

// Read finds the values of a document, in the order of Fields. Its error is of kind
// Validation: a value does not fit its type.
func (s *Schema) Read(body []byte) ([]Value, error) {
	values := make([]Value, len(s.Fields))
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, tidemill.Fail(tidemill.Validation, "read a document of %s: it is no JSON object", s.Name)
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, tidemill.Fail(tidemill.Validation, "read a document of %s: %w", s.Name, notJSON(err))
		}
		i, known := s.at[name.String()]
		v, err := dec.ReadValue()
		if err != nil {
			return nil, tidemill.Fail(tidemill.Validation, "read a document of %s: %w", s.Name, notJSON(err))
		}
		if !known || v.Kind() == 'n' {
			continue
		}
		if values[i], err = s.Fields[i].read(v); err != nil {
			return nil, tidemill.Fail(tidemill.Validation, "read a document of %s: field %s of type %s: %w", s.Name, s.Fields[i].Name, s.Fields[i].Type, err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, tidemill.Fail(tidemill.Validation, "read a document of %s: %w", s.Name, notJSON(err))
	}
	return values, nil
}

// At is the time that a document is sorted by, in milliseconds.
func (s *Schema) At(values []Value) int64 {
	if v := values[s.time]; v.Has {
		return v.Int
	}
	return NoTime
}

var errKind = errors.New("the value is of another kind")

func (f *Field) read(v jsontext.Value) (Value, error) {
	if f.Type == GeoPoint {
		return readPoint(v)
	}
	text, isText := string(v), v.Kind() == '"'
	switch v.Kind() {
	case '{', '[':
		return Value{}, errKind
	case '"':
		plain, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return Value{}, errKind
		}
		text = string(plain)
	}
	switch {
	case f.Type == Keyword || f.Type == Text:
		return Value{Has: true, Text: text}, nil
	case v.Kind() == 't' || v.Kind() == 'f':
		return Value{}, errKind
	case f.Type == Date:
		ms, err := readDate(text, isText)
		return Value{Has: err == nil, Int: ms}, err
	case text == "":
		return Value{}, nil
	case f.Type == Double:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return Value{}, errors.New("the value is no finite number")
		}
		return Value{Has: true, Float: x + 0}, nil
	}
	n, err := f.readInteger(text)
	return Value{Has: err == nil, Int: n}, err
}

// readInteger drops a fraction, as the servers do.
func (f *Field) readInteger(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= -1<<63 && x < 1<<63) {
			return 0, errors.New("the value is no integer")
		}
		n = int64(x)
	}
	if low, high := f.bounds(); n < low || n > high {
		return 0, fmt.Errorf("the value is not between %d and %d", low, high)
	}
	return n, nil
}

// bounds of an integer type.
func (f *Field) bounds() (low, high int64) {
	switch f.Type {
	case Byte:
		return math.MinInt8, math.MaxInt8
	case Short:
		return math.MinInt16, math.MaxInt16
	case Integer:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// dates are the forms that both servers read by default, longest first.
var dates = []string{
	"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02", "2006-01", "2006",
}

func readDate(text string, isText bool) (int64, error) {
	if isText {
		for _, form := range dates {
			if t, err := time.Parse(form, text); err == nil {
				return t.UnixMilli(), nil
			}
		}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.New("the value is no date; dates are written like 2021-01-01T12:34:56Z")
	}
	return ms, nil
}

func readPoint(v jsontext.Value) (Value, error) {
	p := Value{Has: true, Lat: math.NaN(), Lon: math.NaN()}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return Value{}, errKind
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return Value{}, errKind
		}
		into := map[string]*float64{"lat": &p.Lat, "lon": &p.Lon}[name.String()]
		number, err := dec.ReadValue()
		if err != nil || into == nil {
			return Value{}, errors.New(`a place is {"lat":number,"lon":number}`)
		}
		if *into, err = strconv.ParseFloat(string(bytes.Trim(number, `"`)), 64); err != nil {
			return Value{}, errors.New(`a place is {"lat":number,"lon":number}`)
		}
	}
	if !(math.Abs(p.Lat) <= 90) || !(math.Abs(p.Lon) <= 180) {
		return Value{}, errors.New("latitudes are from -90 to 90, longitudes from -180 to 180")
	}
	return p, nil
}

// units counts a text as the servers do: in UTF-16.
func units(s string) (n int) {
	for _, r := range s {
		if n++; r >= 0x10000 {
			n++
		}
	}
	return n
}

// Term is a value as equality compares it; false: it is not indexed. sub asks for the
// keyword beside a Text.
func (f *Field) Term(v Value, sub bool) (string, bool) {
	switch {
	case !v.Has || f.Stored || f.Type == GeoPoint || f.Type == Text && !sub:
		return "", false
	case f.Type == Text:
		return v.Text, fits(v.Text, SubUnits)
	case f.Type == Keyword:
		return v.Text, fits(v.Text, KeywordUnits)
	case f.Type == Double:
		return strconv.FormatFloat(v.Float, 'g', -1, 64), true
	}
	return strconv.FormatInt(v.Int, 10), true
}

func fits(s string, most int) bool {
	return len(s) <= most || utf8.RuneCountInString(s) <= most && units(s) <= most
}
