package event

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// The fields of a stream entry and of a row.
const (
	fEventID = iota
	fProjectID
	fEventName
	fEventType
	fDistinctID
	fAnonymousID
	fUserID
	fPersonID
	fSessionID
	fURL
	fReferrer
	fPageTitle
	fPagePath
	fDeviceType
	fBrowser
	fBrowserVersion
	fOS
	fOSVersion
	fScreenWidth
	fScreenHeight
	fLanguage
	fTimezone
	fCountry
	fRegion
	fCity
	fSDKName
	fSDKVersion
	fIP
	fUserAgent
	fBatchID
	fProperties
	fUserProperties
	fTimestamp
	fIngestedAt
	fMerge
	fOther
	fMergeRefused
	fProfile
	fOrigin
	fOrder
	fNone // any other, and how many there are
)

var fieldNames = [fNone]string{
	"event_id", "project_id", "event_name", "event_type", "distinct_id", "anonymous_id", "user_id", "person_id",
	"session_id", "url", "referrer", "page_title", "page_path", "device_type", "browser", "browser_version", "os",
	"os_version", "screen_width", "screen_height", "language", "timezone", "country", "region", "city", "sdk_name",
	"sdk_version", "ip", "user_agent", "batch_id", "properties", "user_properties", "timestamp", "ingested_at",
	"merge", "other", "merge_refused", "profile", "origin", "order",
}

var fieldIndex = func() map[string]int {
	index := make(map[string]int, fNone)
	for i, name := range fieldNames {
		index[name] = i
	}
	return index
}()

// field is the index of a field's name.
func field(name []byte) int {
	if i, ok := fieldIndex[string(name)]; ok {
		return i
	}
	return fNone
}

// fields are an entry's or a row's values: JSON, or plain text.
type fields struct {
	v    [fNone][]byte
	json bool
}

// stream reads the entry of a stream: its fields as headers, or as one JSON object.
func (d *decoder) stream(m *Meta, msg *tidemill.Message, e *Event) error {
	e.Profile, e.IngestedAt, e.BatchID = true, m.Received, m.Batch
	f := &d.fields
	defer clear(f.v[:])
	f.json = false
	if !f.headers(msg.Header) {
		raw := object(msg)
		if raw == nil {
			return invalid("entry", "it has none of the fields of an event, and no JSON object that has them")
		}
		if !valid(raw) {
			return invalid("entry", "the bytes of its one field are no JSON")
		}
		c := cursor{b: raw}
		f.read(&c)
	}
	return d.entry(m, msg, f, e)
}

// headers reads the fields of a flat entry; false: it is not flat.
func (f *fields) headers(hs []tidemill.Field) (flat bool) {
	for i := range hs {
		if n := field(hs[i].Name); n < fMerge && len(hs[i].Value) > 0 {
			f.v[n] = hs[i].Value
			flat = flat || n == fProjectID || n == fEventName || n == fDistinctID
		}
	}
	return flat
}

// object finds the JSON of an entry that has it in one field, of any name.
func object(msg *tidemill.Message) []byte {
	if b := bytes.TrimSpace(msg.Payload); is(b, '{') {
		return b
	}
	for i := range msg.Header {
		if b := bytes.TrimSpace(msg.Header[i].Value); is(b, '{') && field(msg.Header[i].Name) == fNone {
			return b
		}
	}
	return nil
}

// read reads the fields of the JSON object at the cursor.
func (f *fields) read(c *cursor) {
	f.json = true
	clear(f.v[:])
	if !c.open('{') {
		return
	}
	for name, ok := c.member(); ok; name, ok = c.member() {
		v := c.value()
		if n := field(name); n < fNone {
			f.v[n] = v
		}
	}
}

// entry makes an event of a stream entry's fields.
func (d *decoder) entry(m *Meta, msg *tidemill.Message, f *fields, e *Event) error {
	if err := d.whose(m, f, e); err != nil {
		return err
	}
	if err := Validate(e); err != nil {
		return err
	}
	if e.ID = m.Event; e.ID == uuid.Nil {
		e.ID = eventID(e.Project, d.field(f, fEventID))
	}
	t, ok, err := d.time(f, fTimestamp)
	switch {
	case err != nil:
		return err
	case ok:
		e.timing = Timing{known: true, At: rounded(t), given: t, sent: m.Received, keeps: true}
		if e.given = f.v[fTimestamp]; !f.json {
			e.given = quoted(e.given)
		}
	case msg.Time.IsZero():
		return invalid("timestamp", "missing, and the entry has no time of its own")
	default:
		e.timing = Timing{known: true, At: rounded(msg.Time), sent: m.Received}
	}
	d.columns(f, e)
	d.bags(f, e)
	d.person(e)
	return nil
}

// whose reads project, name and distinct id.
func (d *decoder) whose(m *Meta, f *fields, e *Event) error {
	e.named(d.words.get(d.field(f, fEventName)))
	if e.DistinctID = string(d.field(f, fDistinctID)); f.json {
		e.DistinctID = d.id(f.v[fDistinctID])
	}
	e.Project = m.Project
	if p := d.field(f, fProjectID); len(p) > 0 {
		var ok bool
		if e.Project, ok = parseUUID(p); !ok {
			return invalid("project_id", "%.60q is no UUID", p)
		}
	}
	return nil
}

// columns reads what an entry and a row have in common besides project, name and distinct id.
func (d *decoder) columns(f *fields, e *Event) {
	word := func(field int) string { return d.words.get(d.field(f, field)) }
	text := func(field int) string { return string(d.field(f, field)) }
	if s := word(fEventType); s != "" {
		e.Type = s
	}
	if e.UserID = text(fUserID); e.UserID == "" && e.Name == "$identify" {
		e.UserID = e.DistinctID
	}
	if s := text(fBatchID); s != "" {
		e.BatchID = s
	}
	e.AnonymousID, e.SessionID = text(fAnonymousID), text(fSessionID)
	e.URL, e.Referrer = text(fURL), word(fReferrer)
	e.PageTitle, e.PagePath = word(fPageTitle), text(fPagePath)
	e.DeviceType = word(fDeviceType)
	e.Browser, e.BrowserVersion = word(fBrowser), word(fBrowserVersion)
	e.OS, e.OSVersion = word(fOS), word(fOSVersion)
	e.ScreenWidth, e.ScreenHeight = size(d.field(f, fScreenWidth)), size(d.field(f, fScreenHeight))
	e.Language, e.Timezone = word(fLanguage), word(fTimezone)
	e.SDKName, e.SDKVersion = word(fSDKName), word(fSDKVersion)
	e.IP, e.UserAgent = text(fIP), word(fUserAgent)
}

// bags reads both objects of properties. Text that is not a JSON object counts as no
// properties.
func (d *decoder) bags(f *fields, e *Event) {
	user, own := cursor{b: f.object(fUserProperties)}, cursor{b: f.object(fProperties)}
	e.UserProperties, _ = d.userBag(&user, "", false)
	e.Properties, _ = d.bag(&own, "", false)
}

// object is the JSON object of a field, which may be stored as text.
func (f *fields) object(field int) []byte {
	v := f.v[field]
	switch {
	case f.json && is(v, '"'):
		v, _ = jsontext.AppendUnquote(nil, v)
	case f.json && is(v, '{'):
		return v
	case f.json:
		return nil
	}
	if v = bytes.TrimSpace(v); !is(v, '{') || !valid(v) {
		return nil
	}
	return v
}

// time reads a field's time; ok is false if it has none.
func (d *decoder) time(f *fields, field int) (t time.Time, ok bool, err error) {
	if f.json {
		return d.when(f.v[field], fieldNames[field])
	}
	s := string(f.v[field])
	if s == "" {
		return t, false, nil
	}
	if t, ok = parseTime(s); !ok {
		return t, false, noTime(fieldNames[field], s)
	}
	return t, true, nil
}

// field is the text of a field; empty if it is missing.
func (d *decoder) field(f *fields, field int) []byte {
	v := f.v[field]
	switch {
	case f.json:
		return d.characters(v)
	case !utf8.Valid(v):
		return []byte(toUTF8(string(v)))
	}
	return v
}
