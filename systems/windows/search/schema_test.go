package search

import (
	"testing"
)

func TestGDELTFieldsHaveTheTypesOfTheirIndices(t *testing.T) {
	count := func(s *Schema) map[string]int {
		n := map[string]int{}
		for _, f := range s.Fields {
			kind := string(f.Type)
			if f.Stored {
				kind += " stored"
			}
			n[kind]++
		}
		return n
	}
	for _, c := range []struct {
		schema *Schema
		want   map[string]int
	}{
		// 18 codes of actors, 3 of the event, 4 of each of three places; 2 names and 3 places' names
		{Events(), map[string]int{"long": 1, "date": 2, "keyword": 33, "keyword stored": 1, "text": 5, "geo_point": 3, "byte": 1, "short": 2, "integer": 5, "double": 2}},
		{Mentions(), map[string]int{"long": 1, "date": 2, "keyword": 1, "text": 1, "text stored": 1, "byte": 1, "integer": 7, "double": 1}},
	} {
		got := count(c.schema)
		for kind, n := range c.want {
			if got[kind] != n {
				t.Errorf("%s has %d fields of type %s, want %d", c.schema.Name, got[kind], kind, n)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s has types %v", c.schema.Name, got)
		}
	}
	for name, want := range map[string]Type{"actor1Religion2Code": Keyword, "actor2Name": Text, "actionGeoType": Integer, "actor2GeoType": Short, "actionGeoFeatureId": Keyword, "actionLocation": GeoPoint, "isRootEvent": Byte, "goldsteinScale": Double} {
		s := Events()
		if i, ok := s.at[name]; !ok || s.Fields[i].Type != want {
			t.Errorf("%s is no %s", name, want)
		}
	}
}

func TestBadSchemasAreRefused(t *testing.T) {
	good := func() Definition {
		return Definition{Name: "a-b", Day: "day", Time: "at", Order: []string{"n"}, Fields: []Field{{"at", Date, false}, {"n", Long, false}, {"g", GeoPoint, false}}}
	}
	if _, err := New(good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Definition){
		"a name with a capital":   func(d *Definition) { d.Name = "A" },
		"a name with a star":      func(d *Definition) { d.Name = "a*" },
		"no day":                  func(d *Definition) { d.Day = "" },
		"a day that is a field":   func(d *Definition) { d.Day = "n" },
		"a field twice":           func(d *Definition) { d.Fields = append(d.Fields, Field{"n", Long, false}) },
		"a field of no name":      func(d *Definition) { d.Fields = append(d.Fields, Field{"a b", Long, false}) },
		"an unknown type":         func(d *Definition) { d.Fields = append(d.Fields, Field{"x", "blob", false}) },
		"a number stored alone":   func(d *Definition) { d.Fields = append(d.Fields, Field{"x", Long, true}) },
		"a time that is none":     func(d *Definition) { d.Time = "n" },
		"an order by a place":     func(d *Definition) { d.Order = []string{"g"} },
		"an order by nothing":     func(d *Definition) { d.Order = []string{"x"} },
		"a keep before beginning": func(d *Definition) { d.Keep = -1 },
	} {
		d := good()
		spoil(&d)
		if _, err := New(d); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
