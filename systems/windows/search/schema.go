package search

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Type of a field, as both servers name it.
type Type string

// Types.
const (
	Long     Type = "long"
	Integer  Type = "integer"
	Short    Type = "short"
	Byte     Type = "byte"
	Double   Type = "double"
	Date     Type = "date"      // ISO-8601, or milliseconds since 1970
	Keyword  Type = "keyword"   // found by its whole value; not found above KeywordUnits
	Text     Type = "text"      // found by its words; as name.keyword by its whole value up to SubUnits
	GeoPoint Type = "geo_point" // {"lat":…,"lon":…}
)

// A longer text is stored and not indexed. Both count UTF-16 units. An index term holds 32,766
// bytes, which 8,191 characters never exceed.
const (
	KeywordUnits = 8191
	SubUnits     = 256
)

// Field is one name of a document.
type Field struct {
	Name   string
	Type   Type
	Stored bool // stored only, no query can ask for it; Keyword and Text
}

// Definition says what the documents of one family are like.
type Definition struct {
	Name   string        // indices are Name-YYYY-MM-DD
	Day    string        // the field that names the day; it is not stored
	Time   string        // a Date: hits are sorted by it, those without it as the oldest
	Order  []string      // integers and keywords that order documents of one day and time
	Keep   time.Duration // age at which daily indices are removed; 0: never
	Fields []Field       // all others are stored, and cannot be asked for
}

// Schema is a checked Definition. It never changes.
type Schema struct {
	Definition
	at    map[string]int // fields by name
	time  int
	order []int
}

var (
	familyName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,99}$`)
	fieldName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,99}$`)
)

// New checks a definition.
func New(d Definition) (*Schema, error) {
	s := &Schema{Definition: d, at: make(map[string]int, len(d.Fields))}
	s.Order, s.Fields = slices.Clone(d.Order), slices.Clone(d.Fields)
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("define the search schema %q: %w", d.Name, err)
	}
	return s, nil
}

func (s *Schema) check() error {
	if !familyName.MatchString(s.Name) || !fieldName.MatchString(s.Day) {
		return errors.New("the name has to be of a-z, 0-9 and -, and the day's field of letters and digits")
	}
	if len(s.Fields) > 256 || s.Keep < 0 {
		return errors.New("there are more than 256 fields, or Keep is negative")
	}
	for i, f := range s.Fields {
		_, twice := s.at[f.Name]
		if !fieldName.MatchString(f.Name) || twice || f.Name == s.Day {
			return fmt.Errorf("field %q: a name is of letters and digits, there once, and not the day's", f.Name)
		}
		if !slices.Contains([]Type{Long, Integer, Short, Byte, Double, Date, Keyword, Text, GeoPoint}, f.Type) {
			return fmt.Errorf("field %s: unknown type %q", f.Name, f.Type)
		}
		if f.Stored && f.Type != Keyword && f.Type != Text {
			return fmt.Errorf("field %s: only keyword and text can be Stored alone", f.Name)
		}
		s.at[f.Name] = i
	}
	i, ok := s.at[s.Time]
	if !ok || s.Fields[i].Type != Date {
		return fmt.Errorf("the time is %q, which is no field of type date", s.Time)
	}
	s.time = i
	for _, name := range s.Order {
		i, ok := s.at[name]
		if !ok || !s.Fields[i].integer() && s.Fields[i].Type != Keyword || s.Fields[i].Stored {
			return fmt.Errorf("the order has %q, which is no field of an integer type or keyword", name)
		}
		s.order = append(s.order, i)
	}
	return nil
}

func (f *Field) integer() bool {
	return f.Type == Long || f.Type == Integer || f.Type == Short || f.Type == Byte
}

// Texts are the indices in Fields of those whose words can be asked for.
func (s *Schema) Texts() (at []int) {
	for i, f := range s.Fields {
		if f.Type == Text && !f.Stored {
			at = append(at, i)
		}
	}
	return at
}

// Index is the name of a day's index.
func (s *Schema) Index(day string) string { return s.Name + "-" + day }

// ValidDay reports whether a day has the form YYYY-MM-DD. It need not exist: records may name
// any.
func ValidDay(day string) bool {
	if len(day) != 10 {
		return false
	}
	for i := range len(day) {
		if dash := i == 4 || i == 7; dash != (day[i] == '-') || !dash && (day[i] < '0' || day[i] > '9') {
			return false
		}
	}
	return true
}
