package event

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

var mergeNames = [...]string{Identify: "identify", Alias: "alias", Force: "force"}

// AppendJSON appends the finished event as one line of JSON without a line end: the warehouse's
// columns under their names, without empty ones, and what the pipeline needs when it comes back
// as a dead letter. Properties are as received, except that line breaks between their members
// become blanks.
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	text := func(field int, s string) {
		if s == "" {
			return
		}
		b = appendName(b, field)
		b, _ = jsontext.AppendQuote(b, s) // U+FFFD for what is not UTF-8
	}
	id := func(field int, id uuid.UUID) {
		if id != uuid.Nil {
			text(field, id.String())
		}
	}
	number := func(field int, n uint16) {
		if n > 0 {
			b = strconv.AppendUint(appendName(b, field), uint64(n), 10)
		}
	}
	at := func(field int, t time.Time) {
		if !t.IsZero() {
			b = append(appendName(b, field), '"')
			b = append(t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z"), '"')
		}
	}
	bag := func(field int, object []byte) {
		if len(object) > 0 {
			b = appendLine(appendName(b, field), object)
		}
	}
	id(fEventID, e.ID)
	id(fProjectID, e.Project)
	text(fEventName, e.Name)
	text(fEventType, e.Type)
	text(fDistinctID, e.DistinctID)
	text(fAnonymousID, e.AnonymousID)
	text(fUserID, e.UserID)
	id(fPersonID, e.Person)
	at(fTimestamp, e.Timestamp)
	at(fIngestedAt, e.IngestedAt)
	text(fSessionID, e.SessionID)
	text(fURL, e.URL)
	text(fReferrer, e.Referrer)
	text(fPageTitle, e.PageTitle)
	text(fPagePath, e.PagePath)
	text(fDeviceType, e.DeviceType)
	text(fBrowser, e.Browser)
	text(fBrowserVersion, e.BrowserVersion)
	text(fOS, e.OS)
	text(fOSVersion, e.OSVersion)
	number(fScreenWidth, e.ScreenWidth)
	number(fScreenHeight, e.ScreenHeight)
	text(fLanguage, e.Language)
	text(fTimezone, e.Timezone)
	text(fCountry, e.Country)
	text(fRegion, e.Region)
	text(fCity, e.City)
	text(fSDKName, e.SDKName)
	text(fSDKVersion, e.SDKVersion)
	text(fIP, e.IP)
	text(fUserAgent, e.UserAgent)
	text(fBatchID, e.BatchID)
	bag(fProperties, e.Properties)
	bag(fUserProperties, e.UserProperties)
	if int(e.Merge) < len(mergeNames) {
		text(fMerge, mergeNames[e.Merge])
	}
	text(fOther, e.Other)
	text(fMergeRefused, e.MergeRefused)
	if !e.Profile {
		b = append(appendName(b, fProfile), "false"...)
	}
	if e.Origin != 0 { // as text: JavaScript's numbers are too small
		text(fOrigin, strconv.FormatUint(e.Origin, 10))
	}
	if e.Order != 0 {
		text(fOrder, strconv.FormatUint(e.Order, 10))
	}
	return append(b, '}')
}

func appendName(b []byte, field int) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), fieldNames[field]...)
	return append(b, `":`...)
}

// appendLine appends JSON with blanks for line ends, which only occur between members: within
// texts they are escaped.
func appendLine(b, object []byte) []byte {
	start := len(b)
	b = append(b, object...)
	for i := start; i < len(b); i++ {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return b
}

// ParseRow reads what AppendJSON wrote, or a row of another writer with the same columns, where
// properties may be text. The event is finished: its person and country are the row's. Its
// changes are computed anew. Byte slices point into b, unless properties were text. The error
// is a Refusal.
func ParseRow(b []byte, e *Event) error {
	d := decoders.Get().(*decoder)
	defer d.release()
	e.Reset()
	if !valid(b) {
		return invalid("row", "its bytes are no JSON")
	}
	f := &d.fields
	defer clear(f.v[:])
	c := cursor{b: b}
	if !c.at('{') {
		return invalid("row", "%s; an object is required", describe(c.any()))
	}
	f.read(&c)
	if err := d.whose(&Meta{}, f, e); err != nil {
		return err
	}
	if err := Validate(e); err != nil {
		return err
	}
	e.ID = eventID(e.Project, d.field(f, fEventID))
	if e.ID == uuid.Nil {
		return invalid("event_id", "missing; a finished row has one")
	}
	for _, at := range [...]struct {
		field int
		to    *time.Time
	}{{fTimestamp, &e.Timestamp}, {fIngestedAt, &e.IngestedAt}} {
		t, ok, err := d.time(f, at.field)
		switch {
		case err != nil:
			return err
		case ok:
			*at.to = rounded(t)
		case at.field == fTimestamp:
			return invalid("timestamp", "missing; a finished row has one")
		}
	}
	e.Person, _ = parseUUID(d.field(f, fPersonID))
	d.columns(f, e)
	e.Country = d.word(f.v[fCountry])
	e.Region, e.City = d.word(f.v[fRegion]), d.word(f.v[fCity])
	e.Origin, _ = strconv.ParseUint(string(d.field(f, fOrigin)), 10, 64)
	e.Order, _ = strconv.ParseUint(string(d.field(f, fOrder)), 10, 64)
	e.Profile = string(f.v[fProfile]) != "false"
	d.bags(f, e)
	d.person(e)
	if other := d.field(f, fOther); len(other) > 0 {
		e.Other, e.Merge, e.MergeRefused = string(other), NoMerge, d.word(f.v[fMergeRefused])
		for how, name := range mergeNames {
			if name != "" && name == string(d.field(f, fMerge)) {
				e.Merge = Merge(how)
			}
		}
	}
	return nil
}
