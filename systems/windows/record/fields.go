package record

// Field is the number of a value within its record: its column in the GDELT file.
type Field uint8

// Type of a value. Every value may be null, except globalEventId.
type Type uint8

// The types.
const (
	Integer Type = iota // a whole number of 64 bits
	Number
	Text
)

// String says what a value of the type is, for refusals.
func (t Type) String() string { return [...]string{"an integer", "a number", "a text"}[min(t, Text)] }

// GlobalEventID is the first value of both kinds: the id of the event.
const GlobalEventID Field = 0

// Values of an event behind GlobalEventID.
const (
	Day       Field = iota + 1 // YYYYMMDD
	MonthYear                  // YYYYMM
	Year
	FractionDate
	Actor1Code
	Actor1Name
	Actor1CountryCode
	Actor1KnownGroupCode
	Actor1EthnicCode
	Actor1Religion1Code
	Actor1Religion2Code
	Actor1Type1Code
	Actor1Type2Code
	Actor1Type3Code
	Actor2Code
	Actor2Name
	Actor2CountryCode
	Actor2KnownGroupCode
	Actor2EthnicCode
	Actor2Religion1Code
	Actor2Religion2Code
	Actor2Type1Code
	Actor2Type2Code
	Actor2Type3Code
	IsRootEvent
	EventCode
	EventBaseCode
	EventRootCode
	QuadClass
	GoldsteinScale
	NumMentions
	NumSources
	NumArticles
	AvgTone
	Actor1GeoType
	Actor1GeoFullName
	Actor1GeoCountryCode
	Actor1GeoAdm1Code
	Actor1GeoAdm2Code
	Actor1GeoLat
	Actor1GeoLong
	Actor1GeoFeatureID
	Actor2GeoType
	Actor2GeoFullName
	Actor2GeoCountryCode
	Actor2GeoAdm1Code
	Actor2GeoAdm2Code
	Actor2GeoLat
	Actor2GeoLong
	Actor2GeoFeatureID
	ActionGeoType
	ActionGeoFullName
	ActionGeoCountryCode
	ActionGeoAdm1Code
	ActionGeoAdm2Code
	ActionGeoLat
	ActionGeoLong
	ActionGeoFeatureID
	DateAdded // YYYYMMDDhhmmss
	SourceURL

	EventFields = iota + 1 // how many values an event has
)

// Values of a mention behind GlobalEventID.
const (
	EventTimeDate     Field = iota + 1 // YYYYMMDDhhmmss
	MentionTimeDate                    // YYYYMMDDhhmmss
	MentionType                        //
	MentionSourceName                  //
	MentionIdentifier                  // of the document, usually its URL
	SentenceID
	Actor1CharOffset
	Actor2CharOffset
	ActionCharOffset
	InRawText
	Confidence
	MentionDocLen
	MentionDocTone
	MentionDocTranslationInfo

	MentionFields = iota + 1 // how many values a mention has
)

type named struct {
	name string
	typ  Type
}

type column struct {
	named
	quoted string // the name as it is written, with the colon behind
}

var mentionColumns = columnsOf([]named{
	{"globalEventId", Integer}, {"eventTimeDate", Integer}, {"mentionTimeDate", Integer}, {"mentionType", Integer},
	{"mentionSourceName", Text}, {"mentionIdentifier", Text}, {"sentenceId", Integer},
	{"actor1CharOffset", Integer}, {"actor2CharOffset", Integer}, {"actionCharOffset", Integer},
	{"inRawText", Integer}, {"confidence", Integer}, {"mentionDocLen", Integer},
	{"mentionDocTone", Number}, {"mentionDocTranslationInfo", Text},
})

var eventColumns = columnsOf([]named{
	{"globalEventId", Integer}, {"day", Integer}, {"monthYear", Integer}, {"year", Integer}, {"fractionDate", Number},

	{"actor1Code", Text}, {"actor1Name", Text}, {"actor1CountryCode", Text}, {"actor1KnownGroupCode", Text}, {"actor1EthnicCode", Text},
	{"actor1Religion1Code", Text}, {"actor1Religion2Code", Text}, {"actor1Type1Code", Text}, {"actor1Type2Code", Text}, {"actor1Type3Code", Text},

	{"actor2Code", Text}, {"actor2Name", Text}, {"actor2CountryCode", Text}, {"actor2KnownGroupCode", Text}, {"actor2EthnicCode", Text},
	{"actor2Religion1Code", Text}, {"actor2Religion2Code", Text}, {"actor2Type1Code", Text}, {"actor2Type2Code", Text}, {"actor2Type3Code", Text},

	{"isRootEvent", Integer}, {"eventCode", Text}, {"eventBaseCode", Text}, {"eventRootCode", Text}, {"quadClass", Integer},
	{"goldsteinScale", Number}, {"numMentions", Integer}, {"numSources", Integer}, {"numArticles", Integer}, {"avgTone", Number},

	{"actor1GeoType", Integer}, {"actor1GeoFullName", Text}, {"actor1GeoCountryCode", Text}, {"actor1GeoAdm1Code", Text},
	{"actor1GeoAdm2Code", Text}, {"actor1GeoLat", Number}, {"actor1GeoLong", Number}, {"actor1GeoFeatureId", Text},

	{"actor2GeoType", Integer}, {"actor2GeoFullName", Text}, {"actor2GeoCountryCode", Text}, {"actor2GeoAdm1Code", Text},
	{"actor2GeoAdm2Code", Text}, {"actor2GeoLat", Number}, {"actor2GeoLong", Number}, {"actor2GeoFeatureId", Text},

	{"actionGeoType", Integer}, {"actionGeoFullName", Text}, {"actionGeoCountryCode", Text}, {"actionGeoAdm1Code", Text},
	{"actionGeoAdm2Code", Text}, {"actionGeoLat", Number}, {"actionGeoLong", Number}, {"actionGeoFeatureId", Text},

	{"dateAdded", Integer}, {"sourceUrl", Text},
})

func columnsOf(all []named) []column {
	columns := make([]column, len(all))
	for i, n := range all {
		columns[i] = column{n, `"` + n.name + `":`}
	}
	return columns
}

var eventByName, mentionByName = byName(eventColumns), byName(mentionColumns)

func byName(columns []column) map[string]Field {
	m := make(map[string]Field, len(columns))
	for i, c := range columns {
		m[c.name] = Field(i)
	}
	return m
}

func (k Kind) columns() []column {
	switch k {
	case Event:
		return eventColumns
	case Mention:
		return mentionColumns
	}
	return nil
}

// Fields is how many values a record of the kind has: its fields are those below.
func (k Kind) Fields() int { return len(k.columns()) }

// Name is the JSON name of a value.
func (k Kind) Name(f Field) string { return k.columns()[f].name }

// Type is the type of a value.
func (k Kind) Type(f Field) Type { return k.columns()[f].typ }

// Lookup finds a value by its JSON name.
func (k Kind) Lookup(name string) (f Field, ok bool) {
	f, ok = k.names()[name]
	return f, ok
}

func (k Kind) names() map[string]Field {
	switch k {
	case Event:
		return eventByName
	case Mention:
		return mentionByName
	}
	return nil
}
