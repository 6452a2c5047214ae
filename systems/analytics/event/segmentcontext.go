package event

import "slices"

// segmentContext is what a library of Segment or RudderStack knows of page, device and
// program.
type segmentContext struct {
	page                                        [4][]byte // url, referrer, path, title
	os, library                                 [2][]byte // name, version
	screen                                      [2][]byte // width, height
	device                                      [1][]byte // type
	agent, address, language, timezone, session []byte

	traits, group []byte
	add           []member // to the properties: values without a column, under PostHog's names
	rest          []member // values that have no name there either
}

// read reads the context of a batch (empty: none) and that of a call in it, whose members
// replace the batch's.
func (x *segmentContext) read(batch string, own []byte) {
	if batch != "" {
		own = extend(own, members(nil, []byte(batch)))
	}
	if own != nil && !is(own, '{') {
		x.other("context", own)
		return
	}
	c := cursor{b: own}
	for key, ok := c.next(false); ok; key, ok = c.member() {
		x.member(key, c.value())
	}
}

// reset forgets all but its memory.
func (x *segmentContext) reset() {
	*x = segmentContext{add: again(x.add), rest: again(x.rest)}
}

// member reads one member of the context.
func (x *segmentContext) member(key, v []byte) {
	switch string(key) {
	case "page":
		x.pick("page", v, x.page[:], "url", "referrer", "path", "title")
	case "os":
		x.pick("os", v, x.os[:], "name", "version")
	case "library":
		x.pick("library", v, x.library[:], "name", "version")
	case "screen":
		x.pick("screen", v, x.screen[:], "width", "height")
	case "device":
		x.prefixed("$device_", "device", v)
	case "app":
		x.prefixed("$app_", "app", v)
	case "network":
		x.prefixed("$network_", "network", v)
	case "campaign":
		x.prefixed("utm_", "campaign", v)
	case "userAgent":
		x.agent = v
	case "ip":
		x.address = v
	case "locale":
		x.language = v
	case "timezone":
		x.timezone = v
	case "sessionId":
		x.session = v
	case "traits":
		x.traits = v
	case "groupId":
		x.group = v
	default:
		if v != nil {
			x.rest = append(x.rest, member{name: key, value: v})
		}
	}
}

// pick reads the members of an object that have columns, and keeps the others.
func (x *segmentContext) pick(key string, v []byte, into [][]byte, names ...string) {
	clear(into)
	if !is(v, '{') {
		x.other(key, v)
		return
	}
	var room [8]member
	others := room[:0]
	c := cursor{b: v}
	for name, ok := c.next(false); ok; name, ok = c.member() {
		v := c.value()
		if column := slices.Index(names, string(name)); column >= 0 {
			into[column] = v
		} else if v != nil && string(v) != `""` { // a page without a query, in every call of a browser
			others = append(others, member{name: name, value: v})
		}
	}
	x.other(key, extend(nil, others))
}

// prefixed makes the members of an object properties with a prefix. The name of a campaign is
// utm_campaign; a device's type has a column.
func (x *segmentContext) prefixed(prefix, key string, v []byte) {
	if !is(v, '{') {
		x.other(key, v)
		return
	}
	c := cursor{b: v}
	for name, ok := c.next(false); ok; name, ok = c.member() {
		switch v := c.value(); {
		case key == "device" && string(name) == "type":
			x.device[0] = v
		case v == nil:
		case key == "campaign" && string(name) == "name":
			x.add = append(x.add, named("utm_campaign", v))
		default:
			x.add = append(x.add, member{prefix: prefix, name: name, value: v})
		}
	}
}

// other keeps a value that has neither a column nor a name of its own.
func (x *segmentContext) other(key string, v []byte) {
	if v != nil {
		x.rest = append(x.rest, named(key, v))
	}
}

// more are the properties that the call and its context add to its own: all values without
// another place, so that a call is kept whole. Values without a known name go into $context and
// $call.
func (s *segmentCall) more() []member {
	x := &s.context
	if s.group == nil {
		s.group = x.group
	}
	if s.group != nil {
		x.add = append(x.add, named("$groups", append(append([]byte(`{"group":`), s.group...), '}')))
	}
	x.other("traits", x.traits)
	if rest := extend(nil, x.rest); rest != nil {
		x.add = append(x.add, named("$context", rest))
	}
	for _, m := range [...]member{named("event", s.event), named("name", s.name), named("category", s.category), named("previousId", s.previous), named("traits", s.traits)} {
		if m.value != nil {
			s.rest = append(s.rest, m)
		}
	}
	if rest := extend(nil, s.rest); rest != nil {
		x.add = append(x.add, named("$call", rest))
	}
	return x.add
}
