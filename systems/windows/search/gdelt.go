package search

import (
	"fmt"
	"time"
)

const month = 30 * 24 * time.Hour

// Events is the schema of GDELT events.
func Events() *Schema {
	d := Definition{Name: "gdelt-events", Day: "elasticIndexDate", Time: "eventDate", Order: []string{"globalEventId"}, Keep: month}
	d.add(Long, "globalEventId")
	d.add(Date, "eventDate", "dateAdded")
	for _, actor := range []string{"actor1", "actor2"} {
		d.add(Keyword, actor+"Code")
		d.add(Text, actor+"Name")
		for _, code := range []string{"Country", "KnownGroup", "Ethnic", "Religion1", "Religion2", "Type1", "Type2", "Type3"} {
			d.add(Keyword, actor+code+"Code")
		}
	}
	d.add(Byte, "isRootEvent")
	d.add(Keyword, "eventCode", "eventBaseCode", "eventRootCode")
	d.add(Integer, "quadClass")
	d.add(Double, "goldsteinScale")
	d.add(Integer, "numMentions", "numSources", "numArticles")
	d.add(Double, "avgTone")
	for _, place := range []struct {
		of   string
		kind Type
	}{{"actor1", Short}, {"actor2", Short}, {"action", Integer}} {
		d.add(place.kind, place.of+"GeoType")
		d.add(Text, place.of+"GeoFullName")
		d.add(Keyword, place.of+"GeoCountryCode", place.of+"GeoAdm1Code", place.of+"GeoAdm2Code", place.of+"GeoFeatureId")
		d.add(GeoPoint, place.of+"Location")
	}
	d.Fields = append(d.Fields, Field{"sourceUrl", Keyword, true})
	return must(d)
}

// Mentions is the schema of GDELT mentions.
func Mentions() *Schema {
	d := Definition{Name: "gdelt-mentions", Day: "elasticIndexDate", Time: "mentionTimeDate",
		Order: []string{"globalEventId", "mentionIdentifier", "sentenceId"}, Keep: month}
	d.add(Long, "globalEventId")
	d.add(Date, "eventTimeDate", "mentionTimeDate")
	d.add(Integer, "mentionType")
	d.add(Text, "mentionSourceName")
	d.add(Keyword, "mentionIdentifier")
	d.add(Integer, "sentenceId", "actor1CharOffset", "actor2CharOffset", "actionCharOffset")
	d.add(Byte, "inRawText")
	d.add(Integer, "confidence", "mentionDocLen")
	d.add(Double, "mentionDocTone")
	d.Fields = append(d.Fields, Field{"mentionDocTranslationInfo", Text, true})
	return must(d)
}

func (d *Definition) add(t Type, names ...string) {
	for _, n := range names {
		d.Fields = append(d.Fields, Field{Name: n, Type: t})
	}
}

func must(d Definition) *Schema {
	s, err := New(d)
	if err != nil {
		panic(fmt.Sprintf("a schema of our own is wrong: %v", err)) // every test that uses it would notice
	}
	return s
}
