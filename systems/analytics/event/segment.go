package event

import (
	"cmp"
	"strings"
)

// segment reads a call of Segment's API; the cursor is in the event.
func (d *decoder) segment(m *Meta, c *cursor, e *Event) error {
	var s segmentCall
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "type":
			s.kind = d.word(c.value())
		case "event":
			s.event = c.value()
		case "name":
			s.name = c.value()
		case "messageId":
			s.id = c.value()
		case "userId":
			s.user = c.value()
		case "anonymousId":
			s.anonymous = c.value()
		case "previousId":
			s.previous = c.value()
		case "groupId":
			s.group = c.value()
		case "timestamp":
			s.at = c.value()
		case "originalTimestamp":
			s.original = c.value()
		case "sentAt":
			s.sent = c.value()
		case "channel":
			s.channel = c.value()
		case "context":
			s.context.read(c)
		case "traits":
			s.traits, s.badTraits = d.userBag(c, "traits", false)
		case "properties":
			e.Properties, s.bad = d.bag(c, "properties", false)
		default:
			c.any()
		}
	}
	user, anonymous := d.id(s.user), d.id(s.anonymous)
	if e.DistinctID = user; user == "" {
		e.DistinctID = anonymous
	}
	e.AnonymousID = anonymous
	if err := d.call(m, &s, e); err != nil {
		return err
	}
	if err := e.check("event", "userId or anonymousId"); err != nil {
		return err
	}
	if err := cmp.Or(s.bad, s.badTraits); err != nil {
		return err
	}
	d.identify(s.id, e)
	if s.original != nil {
		s.at = s.original
	}
	if err := d.clientTime(m, s.at, s.sent, nil, false, e); err != nil {
		return err
	}
	if e.Name == "$identify" {
		e.UserID = user
	}
	d.place(m, &s, e)
	d.person(e)
	return nil
}

// segmentCall is one call, its values as received.
type segmentCall struct {
	kind                                                        string
	event, name, id, user, anonymous, previous, group, at, sent []byte
	original, channel, traits                                   []byte
	context                                                     segmentContext
	bad, badTraits                                              error
}

// segmentContext is what the library knows of page and device.
type segmentContext struct {
	page                                        [4][]byte // url, referrer, path, title
	os, library                                 [2][]byte // name, version
	screen                                      [2][]byte // width, height
	device                                      [1][]byte // type
	agent, address, language, timezone, session []byte
}

// call makes an event of the call: its name, its properties and what it says of persons.
func (d *decoder) call(m *Meta, s *segmentCall, e *Event) error {
	kind := s.sort(m)
	if kind != "identify" { // traits are another's then
		clear(d.ops[:])
		d.plain = false
	}
	switch kind {
	case "track":
		return d.name(s.event, "event", e)
	case "identify":
		e.named("$identify")
		e.UserProperties = s.traits
	case "page":
		e.named("$pageview")
	case "screen":
		e.named("$screen")
	case "group":
		e.named("$groupidentify")
		if e.Properties == nil && s.group != nil {
			b := append([]byte(`{"$group_type":"group","$group_key":`), s.group...)
			if s.traits != nil {
				b = append(append(b, `,"$group_set":`...), s.traits...)
			}
			e.Properties = append(b, '}')
		}
	case "alias":
		e.named("$create_alias")
		if e.Properties == nil && s.previous != nil {
			e.Properties = append(append([]byte(`{"alias":`), s.previous...), '}')
		}
		d.props[pAlias] = s.previous
	case "":
		return invalid("type", "missing; track, identify, page, screen, group or alias is required")
	default:
		return invalid("type", "%.60q is no call; allowed are track, identify, page, screen, group and alias", kind)
	}
	return nil
}

// sort says which call it is: what it says itself, what its path says, or what only one
// call has.
func (s *segmentCall) sort(m *Meta) string {
	switch {
	case s.kind != "":
		return s.kind
	case m.Call != "":
		return m.Call
	case s.event != nil:
		return "track"
	case s.previous != nil:
		return "alias"
	case s.group != nil:
		return "group"
	case s.traits != nil:
		return "identify"
	}
	return ""
}

// read takes the context at the cursor.
func (x *segmentContext) read(c *cursor) {
	*x = segmentContext{}
	if !c.open('{') {
		c.any()
		return
	}
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "page":
			c.pick(x.page[:], "url", "referrer", "path", "title")
		case "os":
			c.pick(x.os[:], "name", "version")
		case "device":
			c.pick(x.device[:], "type")
		case "library":
			c.pick(x.library[:], "name", "version")
		case "screen":
			c.pick(x.screen[:], "width", "height")
		case "userAgent":
			x.agent = c.value()
		case "ip":
			x.address = c.value()
		case "locale":
			x.language = c.value()
		case "timezone":
			x.timezone = c.value()
		case "sessionId":
			x.session = c.value()
		default:
			c.any()
		}
	}
}

// place sets page and device. Of a page call the properties say the page too, which is all
// that servers send.
func (d *decoder) place(m *Meta, s *segmentCall, e *Event) {
	x := &s.context
	page := &x.page
	if e.Name == "$pageview" {
		for i, p := range [...]int{pPlainURL, pPlainReferrer, pPlainPath, pTitle} {
			if page[i] == nil {
				page[i] = d.props[p]
			}
		}
	}
	if page[3] == nil && (e.Name == "$pageview" || e.Name == "$screen") {
		page[3] = s.name
	}
	e.URL, e.Referrer = d.text(page[0]), d.word(page[1])
	e.PagePath, e.PageTitle = d.text(page[2]), d.word(page[3])
	e.OS, e.OSVersion = d.word(x.os[0]), d.word(x.os[1])
	e.SDKName, e.SDKVersion = d.word(x.library[0]), d.word(x.library[1])
	e.ScreenWidth, e.ScreenHeight = d.size(x.screen[0]), d.size(x.screen[1])
	e.DeviceType, e.Language, e.Timezone = d.word(x.device[0]), d.word(x.language), d.word(x.timezone)
	e.SessionID, e.IP, e.UserAgent = d.text(x.session), d.text(x.address), d.word(x.agent)
	agent, _, _ := strings.Cut(m.Agent, "/")
	if segmentServer(e.SDKName) || segmentServer(agent) || string(d.characters(s.channel)) == "server" {
		return
	}
	if x.address == nil {
		e.IP = m.IP
	}
	if e.UserAgent == "" {
		e.UserAgent = m.Agent
	}
}

// pick takes some members of the object the cursor is at; anything else has none.
func (c *cursor) pick(into [][]byte, names ...string) {
	clear(into)
	if !c.open('{') {
		c.any()
		return
	}
	for key, ok := c.member(); ok; key, ok = c.member() {
		v := c.value()
		for i, name := range names {
			if string(key) == name {
				into[i] = v
			}
		}
	}
}

// segmentServer says whether a library runs on servers, for many persons.
func segmentServer(lib string) bool {
	lib, _ = strings.CutPrefix(strings.ToLower(lib), "@segment/")
	switch lib {
	case "analytics-node", "analytics-node-next", "analytics-python", "analytics-go", "analytics-ruby", "analytics-php", "analytics-java",
		"analytics-net", "analytics.net", "analytics-csharp", "analytics-elixir", "analytics-rust":
		return true
	}
	return false
}
