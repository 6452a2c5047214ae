package record

import (
	"github.com/go-json-experiment/json/jsontext"
)

// How a member of the outgoing form is made.
type making uint8

const (
	same      making = iota // the value as it came
	indexDate               // YYYY-MM-DD of the value's first eight digits
	date                    // a time in ISO 8601 of eight digits
	dateTime                // the same of fourteen digits
	place                   // {"lat":…,"lon":…} of the value and the one behind it
)

type member struct {
	name  string // with its quotes and colon, and a comma before
	bare  string
	from  Field
	makes making
}

var eventOut, mentionOut = eventMembers(), mentionMembers()

func eventMembers() []member {
	var all []member
	add := func(name string, from Field, m making) {
		all = append(all, member{`,"` + name + `":`, name, from, m})
	}
	for i, c := range eventColumns {
		switch f := Field(i); f {
		case Day:
			add("elasticIndexDate", Day, indexDate)
			add("eventDate", Day, date)
		case MonthYear, Year, FractionDate, Actor1GeoLong, Actor2GeoLong, ActionGeoLong:
		case Actor1GeoLat:
			add("actor1Location", f, place)
		case Actor2GeoLat:
			add("actor2Location", f, place)
		case ActionGeoLat:
			add("actionLocation", f, place)
		case DateAdded:
			add(c.name, f, dateTime)
		default:
			add(c.name, f, same)
		}
	}
	return all
}

func mentionMembers() []member {
	var all []member
	add := func(name string, from Field, m making) {
		all = append(all, member{`,"` + name + `":`, name, from, m})
	}
	for i, c := range mentionColumns {
		switch f := Field(i); f {
		case EventTimeDate:
			add(c.name, f, dateTime)
		case MentionTimeDate:
			add("elasticIndexDate", f, indexDate)
			add(c.name, f, dateTime)
		default:
			add(c.name, f, same)
		}
	}
	return all
}

func (k Kind) out() []member {
	if k == Mention {
		return mentionOut
	}
	return eventOut
}

// goesOut reports whether the outgoing form has a value of that name.
func (k Kind) goesOut(name string) bool {
	for _, m := range k.out() {
		if m.bare == name {
			return true
		}
	}
	return false
}

// AppendOut appends the outgoing form: one JSON object with all names, nulls written.
//
// An event has its names except day, monthYear, year, fractionDate and the latitudes and
// longitudes. Instead it has eventDate (midnight UTC of day), elasticIndexDate (day as
// YYYY-MM-DD) and actor1Location, actor2Location, actionLocation ({"lat":…,"lon":…}, null
// unless both are set). A mention has its names and elasticIndexDate, of mentionTimeDate. Times
// are ISO 8601 in UTC without fractions; an impossible date is null, never an error.
// elasticIndexDate needs digits only. Values from Add follow.
func (r *Record) AppendOut(dst []byte) []byte {
	if len(r.values[GlobalEventID]) == 0 {
		return append(dst, "null"...)
	}
	start := len(dst)
	members := r.Kind.out()
	for i := 0; i < len(members); i++ {
		m := &members[i]
		if at := r.member[m.from]; m.makes == same && at.to > 0 {
			for i+1 < len(members) && members[i+1].makes == same && r.member[members[i+1].from].from == at.to { // adjacent members are copied together
				i++
				at.to = r.member[members[i].from].to
			}
			dst = append(dst, r.raw[at.from:at.to]...)
			continue
		}
		dst = append(dst, m.name...)
		v := r.values[m.from]
		switch m.makes {
		case same:
			if v == nil {
				v = null
			}
			dst = append(dst, v...)
		case indexDate:
			dst = appendIndexDate(dst, v, r.Kind)
		case date:
			dst = appendTime(dst, v, 8)
		case dateTime:
			dst = appendTime(dst, v, 14)
		case place:
			dst = appendPlace(dst, v, r.values[m.from+1])
		}
	}
	dst = r.appendExtras(dst)
	dst[start] = '{' // where the first comma was
	return append(dst, '}')
}

// AppendJSON appends the incoming form: one JSON object with all names, nulls written, and the
// added values behind them.
func (r *Record) AppendJSON(dst []byte) []byte {
	start := len(dst)
	for i, c := range r.Kind.columns() {
		dst = append(append(dst, ','), c.quoted...)
		if v := r.values[i]; v != nil {
			dst = append(dst, v...)
		} else {
			dst = append(dst, null...)
		}
	}
	if len(dst) == start {
		return append(dst, null...)
	}
	dst = r.appendExtras(dst)
	dst[start] = '{'
	return append(dst, '}')
}

var null = []byte("null")

func (r *Record) appendExtras(dst []byte) []byte {
	for _, e := range r.extra {
		dst = append(dst, ',')
		dst, _ = jsontext.AppendQuote(dst, e.Name) // U+FFFD replaces what is not UTF-8
		dst = append(dst, ':')
		dst = append(dst, e.Value...)
	}
	return dst
}
