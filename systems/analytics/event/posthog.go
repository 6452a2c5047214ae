package event

import "strings"

// posthog reads an element of a PostHog batch, of the old paths and the new, at the cursor.
func (d *decoder) posthog(m *Meta, c *cursor, e *Event) error {
	var id, name, distinct, dollarDistinct, anonymous, at, sent, offset, session, options []byte
	var bad error
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "uuid":
			id = c.value()
		case "event":
			name = c.value()
		case "distinct_id":
			distinct = c.value()
		case "$distinct_id":
			dollarDistinct = c.value()
		case "$anon_distinct_id":
			anonymous = c.value()
		case "timestamp":
			at = c.value()
		case "sent_at":
			sent = c.value()
		case "offset":
			offset = c.value()
		case "session_id":
			session = c.value()
		case "options":
			options = c.value()
		case "$set":
			d.ops[pSet] = c.value()
		case "$set_once":
			d.ops[pSetOnce] = c.value()
		case "$unset":
			d.ops[pUnset] = c.value()
		case "properties":
			e.Properties, bad = d.bag(c, "properties", false)
		default:
			c.any()
		}
	}
	e.UserProperties = d.operations()
	if name == nil && e.UserProperties != nil {
		e.named("$identify") // a body of /engage
	} else if err := d.name(name, "event", e); err != nil {
		return err
	}
	for _, v := range [...][]byte{distinct, dollarDistinct, d.props[pDistinctID]} {
		if e.DistinctID == "" {
			e.DistinctID = d.id(v)
		}
	}
	if err := e.check("event", "distinct_id"); err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	d.identify(id, e)
	o := d.options(options)
	if err := d.timed(m, "timestamp", at, sent, offset, o.asGiven || d.flag(pIgnoreSentAt, true), e); err != nil {
		return err
	}
	e.Profile = !o.noProfile
	e.AnonymousID = d.id(anonymous)
	e.SessionID = d.text(session)
	d.context(e)
	d.sender(m, e)
	if e.Name == "$identify" {
		e.UserID = e.DistinctID
	}
	d.person(e)
	return nil
}

// operations joins the user properties that an event has outside its properties to those
// inside.
func (d *decoder) operations() []byte {
	n, ops := 0, &d.ops
	for p := range ops {
		open := byte('{')
		if p == pUnset {
			open = '['
		}
		if !is(ops[p], open) {
			ops[p] = nil
			continue
		}
		n += len(`,"$set_once":`) + len(ops[p])
	}
	if n == 0 {
		return nil
	}
	b := append(make([]byte, 0, n+1), '{')
	for p, name := range [...]string{`"$set":`, `"$set_once":`, `"$unset":`} {
		if ops[p] != nil {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(append(b, name...), ops[p]...)
		}
	}
	return append(b, '}')
}

// options are what the new path has besides the properties.
type options struct {
	noProfile bool
	asGiven   bool // times are not corrected
}

func (d *decoder) options(v []byte) (o options) {
	c := cursor{b: v}
	if !c.open('{') {
		return o
	}
	for key, ok := c.member(); ok; key, ok = c.member() {
		v := c.any()
		switch string(key) {
		case "process_person_profile":
			o.noProfile = string(v) == "false"
		case "disable_skew_correction":
			o.asGiven = string(v) == "true"
		}
	}
	return o
}

// context reads page, device and library from properties under PostHog's names.
func (d *decoder) context(e *Event) {
	p := &d.props
	first := func(s string, v []byte) string {
		if s == "" {
			return d.word(v)
		}
		return s
	}
	if e.SessionID == "" {
		e.SessionID = d.text(p[pSessionID])
	}
	e.URL, e.Referrer, e.PagePath = d.text(p[pCurrentURL]), d.word(p[pReferrer]), d.text(p[pPathname])
	e.PageTitle = first(d.word(p[pTitle]), p[pScreenName])
	e.DeviceType = d.word(p[pDeviceType])
	e.Browser, e.BrowserVersion = d.word(p[pBrowser]), d.word(p[pBrowserVersion])
	e.OS, e.OSVersion = first(d.word(p[pOS]), p[pOSName]), d.word(p[pOSVersion])
	e.ScreenWidth, e.ScreenHeight = d.size(p[pScreenWidth]), d.size(p[pScreenHeight])
	e.Language = first(first(d.word(p[pBrowserLanguage]), p[pLanguage]), p[pLocale])
	e.Timezone = d.word(p[pTimezone])
	e.SDKName, e.SDKVersion = d.word(p[pLib]), d.word(p[pLibVersion])
	e.IP = d.text(p[pIP])
	e.UserAgent = first(d.word(p[pRawUserAgent]), p[pUserAgent])
}

// sender sets address and User-Agent from the connection if the event does not have its own,
// unless a server sent it: then they are the server's. An $ip of null says that the address is
// not wanted.
func (d *decoder) sender(m *Meta, e *Event) {
	agent, version, _ := strings.Cut(m.Agent, "/")
	if e.SDKName == "" && posthogServer(agent) { // on the new path only the header has it
		e.SDKName = agent
		e.SDKVersion, _, _ = strings.Cut(version, " ")
	}
	if d.flag(pIsServer, true) || posthogServer(e.SDKName) || posthogServer(agent) {
		return
	}
	if d.props[pIP] == nil {
		e.IP = m.IP
	}
	if e.UserAgent == "" {
		e.UserAgent = m.Agent
	}
}

// posthogServer reports whether a library runs on servers, for many persons.
func posthogServer(lib string) bool {
	switch lib {
	case "posthog-node", "posthog-edge", "posthog-python", "posthog-go", "posthog-ruby", "posthog-php", "posthog-java",
		"posthog-server", "posthog-dotnet", "posthog-elixir", "posthog-rs", "posthog-rust":
		return true
	}
	return false
}
