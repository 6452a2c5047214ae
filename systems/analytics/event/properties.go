package event

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tidemill/tidemill/state/person"
)

// The properties that say something of the event itself or of its person.
const (
	pSet = iota
	pSetOnce
	pUnset
	pAnonDistinctID
	pAlias
	pDistinctID
	pProcessProfile
	pGeoipDisable
	pIgnoreSentAt
	pIsServer
	pCurrentURL
	pReferrer
	pPathname
	pTitle
	pScreenName
	pDeviceType
	pBrowser
	pBrowserVersion
	pOS
	pOSName
	pOSVersion
	pScreenWidth
	pScreenHeight
	pBrowserLanguage
	pLanguage
	pLocale
	pTimezone
	pLib
	pLibVersion
	pSessionID
	pIP
	pRawUserAgent
	pUserAgent
	pPlainURL
	pPlainReferrer
	pPlainPath
	pNone // any other, and how many there are
)

func property(name []byte) int {
	switch string(name) {
	case "$set":
		return pSet
	case "$set_once":
		return pSetOnce
	case "$unset":
		return pUnset
	case "$anon_distinct_id":
		return pAnonDistinctID
	case "alias":
		return pAlias
	case "distinct_id":
		return pDistinctID
	case "$process_person_profile":
		return pProcessProfile
	case "$geoip_disable":
		return pGeoipDisable
	case "$ignore_sent_at":
		return pIgnoreSentAt
	case "$is_server":
		return pIsServer
	case "$current_url":
		return pCurrentURL
	case "$referrer":
		return pReferrer
	case "$pathname":
		return pPathname
	case "title":
		return pTitle
	case "$screen_name":
		return pScreenName
	case "$device_type":
		return pDeviceType
	case "$browser":
		return pBrowser
	case "$browser_version":
		return pBrowserVersion
	case "$os":
		return pOS
	case "$os_name":
		return pOSName
	case "$os_version":
		return pOSVersion
	case "$screen_width":
		return pScreenWidth
	case "$screen_height":
		return pScreenHeight
	case "$browser_language":
		return pBrowserLanguage
	case "$language":
		return pLanguage
	case "$locale":
		return pLocale
	case "$timezone":
		return pTimezone
	case "$lib":
		return pLib
	case "$lib_version":
		return pLibVersion
	case "$session_id":
		return pSessionID
	case "$ip":
		return pIP
	case "$raw_user_agent":
		return pRawUserAgent
	case "$user_agent":
		return pUserAgent
	case "url":
		return pPlainURL
	case "referrer":
		return pPlainReferrer
	case "path":
		return pPlainPath
	}
	return pNone
}

// Limits of a native event's properties.
const (
	maxKeys = 200
	maxKey  = 200 // characters
)

// bag steps over the event's properties and notes those of interest.
func (d *decoder) bag(c *cursor, field string, limited bool) (raw []byte, err error) {
	raw, _, err = walk(c, field, limited, d.props[:])
	return raw, err
}

// userBag steps over the event's user properties and notes the operations in them.
func (d *decoder) userBag(c *cursor, field string, limited bool) (raw []byte, err error) {
	raw, d.plain, err = walk(c, field, limited, d.ops[:])
	return raw, err
}

// walk steps over an object of properties and returns its bytes, and puts the known values into
// known. others says whether it has more. Null and an absent object are not properties. Errors
// come after all of it was stepped over.
func walk(c *cursor, field string, limited bool, known [][]byte) (raw []byte, others bool, err error) {
	clear(known)
	if !c.open('{') {
		if v := c.value(); v != nil {
			return nil, false, invalid(field, "%s; an object is required", describe(v))
		}
		return nil, false, nil
	}
	start, n := c.i-1, 0 // where it was opened
	for name, ok := c.member(); ok; name, ok = c.member() {
		if n++; limited && len(name) > maxKey && utf8.RuneCount(name) > maxKey {
			err = invalid(field, "the name %.60q… is longer than %d characters", name, maxKey)
		}
		if p, v := property(name), c.any(); p < len(known) {
			known[p] = v
		} else {
			others = true
		}
	}
	if limited && n > maxKeys {
		err = invalid(field, "%d properties; at most %d are allowed", n, maxKeys)
	}
	return c.b[start:c.i:c.i], others, err
}

// flag reports whether a property is set and true (or false).
func (d *decoder) flag(p int, want bool) bool {
	return string(d.props[p]) == strconv.FormatBool(want)
}

// person finds what the event says of persons: whether it has a profile, whom it merges and
// what it changes. Both bags were read.
func (d *decoder) person(e *Event) {
	e.NoGeo = d.flag(pGeoipDisable, true)
	// A group is not a person, though its events need a distinct id. The sentinel is what all
	// cookieless browsers send.
	e.Profile = e.Profile && !d.flag(pProcessProfile, false) && e.Name != "$groupidentify" &&
		e.DistinctID != "$posthog_cookieless"
	if e.AnonymousID == "" {
		e.AnonymousID = d.id(d.props[pAnonDistinctID])
	}
	switch e.Name {
	case "$identify":
		e.join(Identify, e.AnonymousID)
	case "$create_alias":
		e.join(Alias, d.id(d.props[pAlias]))
	case "$merge_dangerously":
		e.join(Force, d.id(d.props[pAlias]))
	}
	d.changes(e)
}

// join notes that the other id is the same person.
func (e *Event) join(how Merge, other string) {
	switch {
	case !e.Profile || other == "" || other == e.DistinctID:
	case IllegalDistinctID(other), longer(other, maxDistinct):
		e.MergeRefused, e.Other = IllegalMerge, other
	default:
		e.Merge, e.Other = how, other
	}
}

// changes lists what the event changes of its person: $set_once, $set and $unset in its
// properties and in its user properties, whose other members are a $set too. If a key comes
// twice in one operation, user properties win over properties, and their members over their
// $set.
func (d *decoder) changes(e *Event) {
	if !e.Profile {
		return
	}
	d.each(e, person.Once, d.props[pSetOnce], d.ops[pSetOnce])
	if d.plain {
		d.each(e, person.Set, d.props[pSet], d.ops[pSet], e.UserProperties)
	} else {
		d.each(e, person.Set, d.props[pSet], d.ops[pSet])
	}
	d.each(e, person.Unset, d.props[pUnset], d.ops[pUnset])
}

// each adds what the bags do to properties by one operation; the last bag wins.
func (d *decoder) each(e *Event, op person.Op, bags ...[]byte) {
	start := len(e.Changes)
	for _, bag := range bags {
		c := cursor{b: bag}
		switch {
		case op == person.Unset && c.open('['):
			for c.element() {
				if v := c.any(); is(v, '"') {
					d.change(e, start, person.Property{Op: op, Key: d.word(v)})
				}
			}
		case op != person.Unset && c.open('{'):
			for name, ok := c.member(); ok; name, ok = c.member() {
				if v := c.any(); property(name) > pUnset { // the operations' own names are not keys
					d.change(e, start, person.Property{Op: op, Key: d.key(name), Value: v})
				}
			}
		}
	}
	if n := len(e.Changes) - start; n > many {
		d.at = nil
	} else if n > few {
		clear(d.at)
	}
}

const (
	few  = 16   // this few changes are searched faster than looked up
	many = 1024 // more changes than memory is kept for
)

// change adds one change, or replaces the one with the same key.
func (d *decoder) change(e *Event, start int, p person.Property) {
	if volatile(p.Key) {
		return
	}
	same := -1
	if n := len(e.Changes) - start; n <= few {
		same = slices.IndexFunc(e.Changes[start:], func(o person.Property) bool { return o.Key == p.Key })
	} else {
		if d.at == nil {
			d.at = make(map[string]int)
		}
		if len(d.at) == 0 {
			for i, o := range e.Changes[start:] {
				d.at[o.Key] = i
			}
		}
		if i, ok := d.at[p.Key]; ok {
			same = i
		} else {
			d.at[p.Key] = n
		}
	}
	if same >= 0 {
		e.Changes[start+same] = p
		return
	}
	e.Changes = append(e.Changes, p)
}

// key is a member's name as a property's.
func (d *decoder) key(name []byte) string {
	if utf8.Valid(name) {
		return d.words.get(name)
	}
	return toUTF8(string(name))
}

// volatile reports whether a property changes with every page and does not belong to a person.
func volatile(key string) bool {
	switch key {
	case "$browser", "$browser_version", "$os", "$os_version", "$device_type", "$screen_width", "$screen_height",
		"$viewport_width", "$viewport_height", "$current_url", "$referrer", "$referring_domain", "$pathname", "$ip",
		"$geoip_country_code", "$geoip_city_name", "$timezone", "$language":
		return true
	}
	return false
}

// fractional is size for numbers with a fraction or an exponent.
func fractional(s []byte) uint16 {
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil && !math.IsInf(f, 1) || math.IsNaN(f) || f < 0 {
		return 0
	}
	return uint16(min(f, math.MaxUint16))
}
