package event

import (
	"cmp"
	"strings"
)

// segment reads a call of Segment's API, at the cursor.
func (d *decoder) segment(m *Meta, c *cursor, e *Event) error {
	s := &d.call
	s.reset()
	var context []byte
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "type":
			s.kind = d.word(c.value())
		case "event":
			s.event = c.value()
		case "name":
			s.name = c.value()
		case "category":
			s.category = c.value()
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
			context = c.value()
		case "traits":
			s.traits, s.badTraits = d.userBag(c, "traits", false)
		case "properties":
			e.Properties, s.bad = d.bag(c, "properties", false)
		case "receivedAt", "integrations", "version", "writeKey", "projectId", "_metadata": // for library and server only
			c.any()
		default:
			s.rest = append(s.rest, member{name: key, value: c.any()})
		}
	}
	s.context.read(m.Context, context)
	user, anonymous := d.id(s.user), d.id(s.anonymous)
	if e.DistinctID = user; user == "" {
		e.DistinctID = anonymous
	}
	e.AnonymousID = anonymous
	if err := d.named(m, s, e); err != nil {
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
	if err := d.timed(m, "timestamp", s.at, s.sent, nil, false, e); err != nil {
		return err
	}
	if e.Name == "$identify" {
		e.UserID = user
	}
	d.place(m, s, e)
	d.person(e)
	e.Properties = extend(e.Properties, s.more())
	return nil
}

// segmentCall is one call, its values as received. Values that named uses are nil afterwards.
type segmentCall struct {
	kind                                                 string
	event, name, category, id, user, anonymous, previous []byte
	group, at, sent, original, channel, traits           []byte
	context                                              segmentContext
	title                                                []byte   // of a page or screen
	rest                                                 []member // that no call defines
	bad, badTraits                                       error
}

// reset forgets all but its memory.
func (s *segmentCall) reset() {
	s.context.reset()
	*s = segmentCall{context: s.context, rest: again(s.rest)}
}

// named makes an event of the call: its name, its properties and what it says of persons.
func (d *decoder) named(m *Meta, s *segmentCall, e *Event) error {
	kind := s.sort(m)
	if kind != "identify" { // then the traits are of another subject
		clear(d.ops[:])
		d.plain = false
	}
	switch kind {
	case "track":
		err := d.name(s.event, "event", e)
		s.event = nil
		return err
	case "identify":
		e.named("$identify")
		d.traits(s, e)
	case "page", "screen":
		e.named("$pageview")
		if kind == "screen" {
			e.named("$screen")
		}
		s.title = s.name
		s.put("name", &s.name)
		s.put("category", &s.category)
	case "group":
		e.named("$groupidentify")
		if s.group != nil {
			group := []byte(`"group"`)
			s.put("$group_type", &group)
			s.put("$group_key", &s.group)
			s.put("$group_set", &s.traits)
		}
	case "alias":
		e.named("$create_alias")
		d.props[pAlias] = s.previous
		s.put("alias", &s.previous)
	case "":
		return invalid("type", "missing; track, identify, page, screen, group or alias is required")
	default:
		return invalid("type", "%.60q is no call; allowed are track, identify, page, screen, group and alias", kind)
	}
	return nil
}

// put makes a value of the call a property.
func (s *segmentCall) put(name string, value *[]byte) {
	if *value != nil {
		s.context.add = append(s.context.add, named(name, *value))
		*value = nil
	}
}

// traits makes an identify's traits user properties: its own, and those of its context, where
// RudderStack's libraries put them. Its own win.
func (d *decoder) traits(s *segmentCall, e *Event) {
	e.UserProperties, s.traits = s.traits, nil
	theirs := s.context.traits
	if !is(theirs, '{') {
		return
	}
	s.context.traits = nil
	if e.UserProperties == nil {
		e.UserProperties = theirs
	} else {
		e.UserProperties = extend(e.UserProperties, members(nil, theirs))
	}
	e.UserProperties, _ = d.userBag(&cursor{b: e.UserProperties}, "traits", false)
}

// sort finds the type of the call: by the call itself, by its path, or by a member that only
// one type has.
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

// place sets page and device. The properties of a page call give the page too; servers send
// nothing else.
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
		page[3] = s.title
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

// segmentServer reports whether a library runs on servers, for many persons.
func segmentServer(lib string) bool {
	lib, _ = strings.CutPrefix(strings.ToLower(lib), "@segment/")
	switch lib {
	case "analytics-node", "analytics-node-next", "analytics-python", "analytics-go", "analytics-ruby", "analytics-php", "analytics-java",
		"analytics-net", "analytics.net", "analytics-csharp", "analytics-elixir", "analytics-rust":
		return true
	}
	return false
}
