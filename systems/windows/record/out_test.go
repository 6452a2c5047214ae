package record_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/windows/record"
)

func TestEventOut(t *testing.T) {
	got := string(decode(t, record.Event, goodEvent).AppendOut([]byte("> ")))
	const want = `> {"globalEventId":1234567890123456789,"elasticIndexDate":"2025-03-23","eventDate":"2025-03-23T00:00:00Z",` +
		`"actor1Code":"USAGOV","actor1Name":"UNITED \u0053TATES","actor1CountryCode":"USA","actor1KnownGroupCode":null,"actor1EthnicCode":null,` +
		`"actor1Religion1Code":null,"actor1Religion2Code":null,"actor1Type1Code":null,"actor1Type2Code":null,"actor1Type3Code":null,` +
		`"actor2Code":null,"actor2Name":null,"actor2CountryCode":null,"actor2KnownGroupCode":null,"actor2EthnicCode":null,` +
		`"actor2Religion1Code":null,"actor2Religion2Code":null,"actor2Type1Code":null,"actor2Type2Code":null,"actor2Type3Code":null,` +
		`"isRootEvent":1,"eventCode":"043","eventBaseCode":"043","eventRootCode":"04","quadClass":1,"goldsteinScale":2.80,"numMentions":10,` +
		`"numSources":1,"numArticles":10,"avgTone":-1.23456789012345678901,` +
		`"actor1GeoType":3,"actor1GeoFullName":"Köln, \"Germany\"","actor1GeoCountryCode":null,"actor1GeoAdm1Code":null,"actor1GeoAdm2Code":null,` +
		`"actor1Location":{"lat":50.933,"lon":6.95},"actor1GeoFeatureId":null,` +
		`"actor2GeoType":null,"actor2GeoFullName":null,"actor2GeoCountryCode":null,"actor2GeoAdm1Code":null,"actor2GeoAdm2Code":null,` +
		`"actor2Location":{"lat":0,"lon":0},"actor2GeoFeatureId":null,` +
		`"actionGeoType":null,"actionGeoFullName":null,"actionGeoCountryCode":null,"actionGeoAdm1Code":null,"actionGeoAdm2Code":null,` +
		`"actionLocation":null,"actionGeoFeatureId":null,"dateAdded":"2025-03-23T15:15:00Z","sourceUrl":"https://example.com/a?b=c"}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMentionOut(t *testing.T) {
	got := string(decode(t, record.Mention, goodMention).AppendOut(nil))
	// There is no 30 February: the time is null, the index date has its digits.
	const want = `{"globalEventId":7,"eventTimeDate":"2025-03-23T15:15:00Z","elasticIndexDate":"2025-02-30","mentionTimeDate":null,` +
		`"mentionType":1,"mentionSourceName":"example.com","mentionIdentifier":"https://example.com/a_1","sentenceId":3,"actor1CharOffset":-1,` +
		`"actor2CharOffset":10,"actionCharOffset":20,"inRawText":1,"confidence":50,"mentionDocLen":1000,"mentionDocTone":-2.50,` +
		`"mentionDocTranslationInfo":null}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDates(t *testing.T) {
	const null = "<nil>"
	for _, c := range []struct{ day, index, date string }{
		{"20210101", "2021-01-01", "2021-01-01T00:00:00Z"},
		{"20240229", "2024-02-29", "2024-02-29T00:00:00Z"},
		{"20230229", "2023-02-29", null},
		{"19000229", "1900-02-29", null},
		{"20000229", "2000-02-29", "2000-02-29T00:00:00Z"},
		{"20251301", "2025-13-01", null},
		{"20250001", "2025-00-01", null},
		{"20250100", "2025-01-00", null},
		{"20250431", "2025-04-31", null},
		{"99991231", "9999-12-31", "9999-12-31T00:00:00Z"},
		{"2025032", null, null},
		{"202503231", null, null},
		{"-2025032", null, null},
		{"-20250323", null, null},
		{"0", null, null},
		{"null", null, null},
	} {
		var out map[string]any
		r := decode(t, record.Event, `{"globalEventId":1,"day":`+c.day+`}`)
		if err := json.Unmarshal(r.AppendOut(nil), &out); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(out["elasticIndexDate"], " ", out["eventDate"]); got != c.index+" "+c.date {
			t.Errorf("day %s: %s, want %s %s", c.day, got, c.index, c.date)
		}
	}
	for _, c := range []struct{ stamp, index, date string }{
		{"20250323151500", "2025-03-23", "2025-03-23T15:15:00Z"},
		{"20250323235959", "2025-03-23", "2025-03-23T23:59:59Z"},
		{"20250323240000", "2025-03-23", null},
		{"20250323236000", "2025-03-23", null},
		{"20250323235960", "2025-03-23", null},
		{"20250332000000", "2025-03-32", null},
		{"20250323", "2025-03-23", null},
		{"202503231515001", "2025-03-23", null},
		{"2025032", null, null},
		{"-20250323151500", null, null},
		{"null", null, null},
	} {
		var mention, event map[string]any
		r := decode(t, record.Mention, `{"globalEventId":1,"mentionTimeDate":`+c.stamp+`,"eventTimeDate":`+c.stamp+`}`)
		if err := json.Unmarshal(r.AppendOut(nil), &mention); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(decode(t, record.Event, `{"globalEventId":1,"dateAdded":`+c.stamp+`}`).AppendOut(nil), &event); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(mention["elasticIndexDate"], " ", mention["mentionTimeDate"], " ", mention["eventTimeDate"], " ", event["dateAdded"])
		if want := strings.Join([]string{c.index, c.date, c.date, c.date}, " "); got != want {
			t.Errorf("stamp %s: %s, want %s", c.stamp, got, want)
		}
	}
}

// Every day of years around leap years and centuries, and invalid ones next to them, against
// the standard library.
func TestRealDays(t *testing.T) {
	for _, year := range []int{1600, 1899, 1900, 1904, 1999, 2000, 2023, 2024, 2100} {
		for month := 0; month <= 13; month++ {
			for day := 0; day <= 32; day++ {
				text := fmt.Sprintf("%04d%02d%02d", year, month, day)
				at, err := time.Parse("20060102", text)
				want := "null"
				if err == nil {
					want = `"` + at.Format(time.RFC3339) + `"`
				}
				out := decode(t, record.Event, `{"globalEventId":1,"day":`+text+`}`).AppendOut(nil)
				if !strings.Contains(string(out[:120]), `"eventDate":`+want+",") {
					t.Fatalf("%s: want %s in %s", text, want, out[:120])
				}
			}
		}
	}
}

func TestNamesOut(t *testing.T) {
	for kind, lacks := range map[record.Kind][]string{
		record.Event: {"day", "monthYear", "year", "fractionDate", "actor1GeoLat", "actor1GeoLong", "actor2GeoLat", "actor2GeoLong", "actionGeoLat", "actionGeoLong"},
	} {
		want := []string{"elasticIndexDate", "eventDate", "actor1Location", "actor2Location", "actionLocation"}
		for f := range kind.Fields() {
			if name := kind.Name(record.Field(f)); !slices.Contains(lacks, name) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		var out map[string]any
		if err := json.Unmarshal(decode(t, kind, `{"globalEventId":1}`).AppendOut(nil), &out); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(out)); !slices.Equal(got, want) {
			t.Errorf("%s: names are %v, want %v", kind, got, want)
		}
	}
}

func TestNothingIsNull(t *testing.T) {
	var r record.Record
	if got := string(r.AppendOut(nil)) + string(r.AppendJSON(nil)); got != "nullnull" {
		t.Errorf("the zero record goes out as %s", got)
	}
}
