package event

import "strconv"

// Limits that hold where a field has none of its own.
const (
	MaxSize    = 32 << 10 // bytes of an event
	maxText    = 1000     // characters
	maxURL     = 2048     // characters
	maxList    = 100      // elements
	maxDepth   = 10       // objects and arrays within each other, the event itself included
	maxNumber  = 100      // characters of a number as it is written
	maxMembers = 1000     // of one object
	noMax      = -1
)

// kind is what a value has to be.
type kind uint8

const (
	free   kind = iota // anything, within limits
	scalar             // text, number, boolean
	text
	number
	integer
	boolean
	object
	list
)

// field is what one value may be, and what is kept of it.
type field struct {
	kind     kind
	min, max int64 // characters of a text, value of a number, elements of a list, members of an object
	form     form  // of a text
	enum     []string

	members  map[string]*field // of an object, by name
	required []string          // of an object
	other    *field            // of an object: rule of members that are not named; nil: they are refused
	names    *form             // of an object: what the names of others look like; nil: anything
	elem     *field            // of a list

	buys bool // it means something only in purchases and conversions
	keep func(d *decoder, v []byte)

	bit  uint64 // its bit among the members of its object
	want string // what is allowed, in words
}

func texts(min, max int64) *field { return &field{kind: text, min: min, max: max} }
func formed(f form, keep func(*decoder, []byte)) *field {
	return &field{kind: text, min: f.min, max: f.max, form: f, keep: keep}
}
func numbers(max int64) *field { return &field{kind: number, max: max} }
func booleans(keep func(*decoder, []byte)) *field {
	return &field{kind: boolean, keep: keep}
}
func objects(members map[string]*field, required ...string) *field {
	return &field{kind: object, max: maxMembers, members: members, required: required, other: anything}
}
func (f *field) kept(keep func(*decoder, []byte)) *field { f.keep = keep; return f }
func (f *field) bought() *field                          { f.buys = true; return f }

// anything is the rule of a field that no rule names.
var anything = &field{kind: free}

// table is what each field may be. The types of events are not in it: see Rules.
func table() *field {
	purposes := map[string]*field{}
	for n := 1; n <= 11; n++ {
		bit := uint16(1) << n
		purposes[strconv.Itoa(n)] = booleans(func(d *decoder, v []byte) {
			d.e.Consent.Purposes.named |= bit
			if v[0] == 't' {
				d.e.Consent.Purposes.granted |= bit
			}
		})
	}
	vendors := func() *field {
		return &field{kind: object, max: 10_000, other: booleans(nil), names: &digits}
	}
	special := map[string]*field{"1": booleans(nil), "2": booleans(nil)}
	consent := objects(map[string]*field{
		"tcf": objects(map[string]*field{
			"version":         formed(tcfVersion, nil),
			"purposes":        {kind: object, max: maxMembers, members: purposes},
			"specialFeatures": {kind: object, max: maxMembers, members: special},
			"vendorConsent":   vendors(),
			"vendorLI":        vendors(),
			"publisherCC":     formed(country, func(d *decoder, v []byte) { d.e.Consent.PublisherFrom = d.string(v) }),
		}).kept(func(d *decoder, _ []byte) { d.e.Consent.TCF = true }),
		"gpc": booleans(func(d *decoder, v []byte) { d.e.Consent.GPC = said(v) }),
		"usp": texts(4, 4).kept(func(d *decoder, v []byte) { d.e.Consent.USP = d.string(v) }),
		"customConsent": objects(map[string]*field{
			"analytics":       booleans(func(d *decoder, v []byte) { d.e.Consent.Analytics = said(v) }),
			"marketing":       booleans(func(d *decoder, v []byte) { d.e.Consent.Marketing = said(v) }),
			"personalization": booleans(func(d *decoder, v []byte) { d.e.Consent.Personal = said(v) }),
			"advertising":     booleans(func(d *decoder, v []byte) { d.e.Consent.Advertising = said(v) }),
		}),
		"jurisdiction": {kind: text, enum: []string{"EU", "UK", "CA", "US", "BR", "AU", "ROW"}, keep: func(d *decoder, v []byte) { d.e.Consent.Jurisdiction = d.string(v) }},
		"timestamp":    formed(instant, nil),
	}).kept(func(d *decoder, _ []byte) { d.e.Consent.Present = true })

	page := objects(map[string]*field{
		"url":      texts(1, maxURL).kept(func(d *decoder, _ []byte) { d.url = true }),
		"title":    texts(0, 500),
		"referrer": texts(0, maxURL),
		"path":     texts(0, 1000),
		"search":   texts(0, 1000),
		"hash":     texts(0, 500),
	})
	geo := objects(map[string]*field{"country": formed(country, nil), "region": texts(0, 100), "city": texts(0, 100)})

	item := objects(map[string]*field{
		"id":       texts(1, 100),
		"name":     texts(0, 200),
		"category": texts(0, 100),
		"brand":    texts(0, 100),
		"variant":  texts(0, 100),
		"quantity": {kind: integer, min: 1, max: 10_000},
		"price":    numbers(1_000_000),
	}, "id")
	hash := func() *field { return formed(hex64, nil) }

	return objects(map[string]*field{
		"eventType":      formed(typeName, func(d *decoder, v []byte) { d.setType(v) }),
		"timestamp":      formed(instant, func(d *decoder, v []byte) { d.e.Time, _ = parseTime(v) }),
		"siteId":         formed(site, func(d *decoder, v []byte) { d.e.Site = d.string(v) }),
		"eventId":        formed(uuidText, func(d *decoder, v []byte) { d.e.ID = lower(v) }),
		"version":        formed(version, func(d *decoder, v []byte) { d.setVersion(v) }),
		"sessionId":      texts(0, 100).kept(func(d *decoder, v []byte) { d.e.Session = d.string(v) }),
		"userId":         formed(hex64, func(d *decoder, v []byte) { d.e.User = lower(v) }),
		"deviceId":       texts(0, 100).kept(func(d *decoder, v []byte) { d.e.Device = d.string(v) }),
		"idempotencyKey": formed(printable, func(d *decoder, v []byte) { d.e.Key = d.string(v) }),
		"consent":        consent,
		"context":        objects(map[string]*field{"page": page, "device": objects(nil), "geo": geo}),
		"properties":     {kind: object, max: 50, other: &field{kind: scalar}},

		"orderId":         texts(1, 100).kept(func(d *decoder, v []byte) { d.order = d.string(v) }).bought(),
		"value":           numbers(1_000_000_000).bought(),
		"conversionValue": numbers(1_000_000_000).bought(),
		"currency":        formed(currency, nil).bought(),
		"items":           (&field{kind: list, max: maxList, elem: item}).kept(func(d *decoder, _ []byte) { d.items = true }).bought(),
		"tax":             numbers(noMax).bought(),
		"shipping":        numbers(noMax).bought(),
		"discount":        numbers(noMax).bought(),
		"coupon":          texts(0, 50).bought(),
		"paymentMethod":   texts(0, 50).bought(),
		"enhancedConversion": objects(map[string]*field{"emailHash": hash(), "phoneHash": hash(), "firstName": hash(),
			"lastName": hash(), "addressHash": hash()}).bought(),
	}, "eventType", "timestamp", "siteId")
}
