package event

import (
	"cmp"
	"unicode/utf8"
)

const maxNativeDistinct = 255 // characters

// native reads an element of {"events":[…]} of the native SDKs, at the cursor, and enforces
// their limits.
func (d *decoder) native(m *Meta, c *cursor, e *Event) error {
	var id, name, distinct, anonymous, at, sent []byte
	var bad [3]error
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "event_id":
			id = c.value()
		case "event":
			name = c.value()
		case "distinct_id":
			distinct = c.value()
		case "anonymous_id":
			anonymous = c.value()
		case "timestamp":
			at = c.value()
		case "sent_at":
			sent = c.value()
		case "context":
			bad[0] = d.nativeContext(c, e)
		case "properties":
			e.Properties, bad[1] = d.bag(c, "properties", true)
		case "user_properties":
			e.UserProperties, bad[2] = d.userBag(c, "user_properties", true)
		default:
			c.any()
		}
	}
	if err := d.name(name, "event", e); err != nil {
		return err
	}
	e.DistinctID = d.id(distinct)
	if err := e.check("event", "distinct_id"); err != nil {
		return err
	}
	if longer(e.DistinctID, maxNativeDistinct) {
		return invalid("distinct_id", "%d characters long; 1 to %d are allowed", utf8.RuneCountInString(e.DistinctID), maxNativeDistinct)
	}
	if len(id) > 0 && !is(id, '"') {
		return invalid("event_id", "%s; a UUID is required", describe(id))
	}
	d.identify(id, e)
	if m.Import && len(d.characters(at)) == 0 {
		return invalid("timestamp", "missing; an imported event needs the time when it happened")
	}
	if err := d.timed(m, "timestamp", at, sent, nil, false, e); err != nil {
		return err
	}
	s, err := d.limited(anonymous, "anonymous_id", maxNativeDistinct)
	if err != nil {
		return err
	}
	e.AnonymousID = string(s)
	if err := cmp.Or(bad[:]...); err != nil {
		return err
	}
	e.IP, e.UserAgent = m.IP, m.Agent
	if e.Name == "$identify" {
		e.UserID = e.DistinctID
	}
	d.person(e)
	return nil
}

// limited reads a text of at most n characters; a number counts as its text. The result may lie
// in the decoder's own memory.
func (d *decoder) limited(v []byte, field string, n int) ([]byte, error) {
	s := d.characters(v)
	if s == nil && len(v) > 0 {
		return nil, invalid(field, "%s; a text of at most %d characters is allowed", describe(v), n)
	}
	if len(s) > n && utf8.RuneCount(s) > n {
		return nil, invalid(field, "%d characters long; at most %d are allowed", utf8.RuneCount(s), n)
	}
	return s, nil
}

// nativeContext reads what the SDK knows of page and device. It steps over all of it, and then
// says what is wrong with it.
func (d *decoder) nativeContext(c *cursor, e *Event) (bad error) {
	// An earlier context does not count.
	e.SessionID, e.URL, e.Referrer, e.PageTitle, e.PagePath, e.DeviceType = "", "", "", "", "", ""
	e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.ScreenWidth, e.ScreenHeight = "", "", "", "", 0, 0
	e.Language, e.Timezone, e.SDKName, e.SDKVersion = "", "", "", ""
	if !c.open('{') {
		if v := c.value(); v != nil {
			return invalid("context", "%s; an object is required", describe(v))
		}
		return nil
	}
	for key, ok := c.member(); ok; key, ok = c.member() {
		var to *string
		var n int
		v := c.value()
		switch string(key) {
		case "session_id":
			to, n = &e.SessionID, 128
		case "url":
			to, n = &e.URL, 2048
		case "referrer":
			to, n = &e.Referrer, 2048
		case "page_path":
			to, n = &e.PagePath, 2048
		case "page_title":
			to, n = &e.PageTitle, 500
		case "device_type":
			to, n = &e.DeviceType, 50
		case "browser_version":
			to, n = &e.BrowserVersion, 50
		case "os_version":
			to, n = &e.OSVersion, 50
		case "sdk_version":
			to, n = &e.SDKVersion, 50
		case "browser":
			to, n = &e.Browser, 100
		case "os":
			to, n = &e.OS, 100
		case "timezone":
			to, n = &e.Timezone, 100
		case "sdk_name":
			to, n = &e.SDKName, 100
		case "language":
			to, n = &e.Language, 35
		case "screen_width":
			e.ScreenWidth = d.size(v)
		case "screen_height":
			e.ScreenHeight = d.size(v)
		}
		if to == nil {
			continue
		}
		s, err := d.limited(v, "context", n)
		if err != nil {
			_, bad = d.limited(v, "context."+string(key), n)
		}
		switch to {
		case &e.SessionID, &e.URL, &e.PagePath: // other events have others
			*to = string(s)
		default:
			*to = d.words.get(s)
		}
	}
	return bad
}
