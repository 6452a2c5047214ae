// Package event is the event of the CRM system. Use it to check or read the bytes that a
// business application sent. Decode reads an event in one pass, names everything that is wrong
// with it, field by field, and finds its parts. Bytes are never changed: handlers get the event
// as it was received.
package event

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/state/profile"
)

// The limits of an event.
const (
	MaxSize   = 256 << 10 // bytes: the sync log keeps each event whole
	MaxID     = 255       // bytes of an id
	MaxType   = 100
	MaxTenant = 100
)

// Event is an event that was read.
type Event struct {
	ID       string
	Type     string
	Tenant   string
	Identity profile.Identities // as received
	Time     time.Time          // when it happened
	Payload  []byte             // a part of Raw; nil: it has none
	Raw      []byte             // all of it, as given to Decode
}

// Decode reads an event. The error is a *tidemill.Error of kind validation around an *Invalid;
// e then holds what could be read. e keeps raw, and Decode does not change it.
func Decode(raw []byte, e *Event) error {
	*e = Event{Raw: raw}
	d := decoders.Get().(*decoder)
	defer d.release()
	d.e = e
	if bad := d.decode(raw); bad != nil {
		return &tidemill.Error{Kind: tidemill.Validation, Err: bad}
	}
	return nil
}

// decoder reads one event at a time.
type decoder struct {
	in       bytes.Buffer
	json     jsontext.Decoder
	e        *Event
	problems []Problem
	more     bool
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func (d *decoder) release() {
	d.in, d.e, d.problems, d.more = bytes.Buffer{}, nil, nil, false
	decoders.Put(d)
}

func (d *decoder) decode(raw []byte) *Invalid {
	if len(raw) > MaxSize {
		return &Invalid{Problems: []Problem{{Wrong: "has " + strconv.Itoa(len(raw)) + " bytes", Allowed: "at most " + strconv.Itoa(MaxSize) + " bytes"}}}
	}
	d.in = *bytes.NewBuffer(raw)
	d.json.Reset(&d.in)
	if k := d.json.PeekKind(); k != '{' && k != 0 {
		d.wrong("", "is "+kindName(k), "an object")
		return d.invalid()
	}
	err := d.members()
	if err == nil {
		if _, err = d.json.ReadToken(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("there is something behind the event")
		}
	}
	if err != nil {
		return &Invalid{Malformed: true, Problems: []Problem{{Wrong: "is no JSON: " + jsonarray.Reason(err), Allowed: "one JSON object in UTF-8"}}}
	}
	return d.invalid()
}

func (d *decoder) invalid() *Invalid {
	if len(d.problems) == 0 {
		return nil
	}
	return &Invalid{Problems: d.problems, More: d.more}
}

// wrong notes a problem.
func (d *decoder) wrong(path, what, allowed string) {
	if len(d.problems) == MaxProblems {
		d.more = true
		return
	}
	d.problems = append(d.problems, Problem{path, what, allowed})
}

// What the fields may be, in words.
const (
	wantID       = "a text of 1 to 255 bytes without control characters"
	wantType     = "1 to 100 of A-Z a-z 0-9 . _ : -"
	wantTenant   = "1 to 100 of A-Z a-z 0-9 . _ -"
	wantIdentity = "an object with an externalId, an email or a phone"
	wantTime     = "a time in RFC 3339, such as 2026-01-15T10:00:00Z"
	wantPayload  = "an object"
	wantText     = "a text"
)

// members reads the event's own.
func (d *decoder) members() error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	var has struct{ id, typ, tenant, identity, time bool }
	for d.json.PeekKind() != '}' {
		token, err := d.json.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if d.json.PeekKind() == 'n' {
			name = "" // null counts as absent
		}
		switch name {
		case "id":
			has.id = true
			err = d.text(name, wantID, &d.e.ID, validID)
		case "type":
			has.typ = true
			err = d.text(name, wantType, &d.e.Type, ValidType)
		case "tenantId":
			has.tenant = true
			err = d.text(name, wantTenant, &d.e.Tenant, ValidTenant)
		case "occurredAt":
			has.time = true
			err = d.time()
		case "identity":
			has.identity = true
			err = d.identity()
		case "payload":
			err = d.payload()
		default:
			err = d.json.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name, want string
		has        bool
	}{{"id", wantID, has.id}, {"type", wantType, has.typ}, {"tenantId", wantTenant, has.tenant},
		{"identity", wantIdentity, has.identity}, {"occurredAt", wantTime, has.time}} {
		if !f.has {
			d.wrong(f.name, "is missing", f.want)
		}
	}
	return nil
}

// text reads a text; ok checks it.
func (d *decoder) text(path, want string, into *string, ok func(string) bool) error {
	if k := d.json.PeekKind(); k != '"' {
		if k != 0 {
			d.wrong(path, "is "+kindName(k), want)
		}
		return d.json.SkipValue()
	}
	token, err := d.json.ReadToken()
	if err != nil {
		return err
	}
	s := token.String()
	if ok != nil && !ok(s) {
		d.wrong(path, "is a text that is not allowed", want)
		return nil
	}
	*into = s
	return nil
}

func (d *decoder) time() error {
	var s string
	before := len(d.problems)
	if err := d.text("occurredAt", wantTime, &s, nil); err != nil || len(d.problems) > before {
		return err
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		d.wrong("occurredAt", "is a text that is no such time", wantTime)
		return nil
	}
	d.e.Time = t
	return nil
}

// identity reads whom the event is about. It skips members other than the three.
func (d *decoder) identity() error {
	if k := d.json.PeekKind(); k != '{' {
		if k != 0 {
			d.wrong("identity", "is "+kindName(k), wantIdentity)
		}
		return d.json.SkipValue()
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	before := len(d.problems)
	ids := &d.e.Identity
	for d.json.PeekKind() != '}' {
		token, err := d.json.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		into := map[string]*string{"externalId": &ids.External, "email": &ids.Email, "phone": &ids.Phone}[name]
		if into == nil || d.json.PeekKind() == 'n' {
			err = d.json.SkipValue()
		} else {
			err = d.text("identity."+name, wantText, into, nil)
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	if len(d.problems) > before {
		return nil
	}
	given := false
	for _, i := range [...]profile.Identity{{Kind: profile.External, Value: ids.External}, {Kind: profile.Email, Value: ids.Email}, {Kind: profile.Phone, Value: ids.Phone}} {
		n, err := i.Normal()
		if err != nil {
			d.wrong("identity."+i.Kind.String(), "cannot be one: "+err.Error(), "as it is written everywhere")
		}
		given = given || err != nil || n.Value != ""
	}
	if !given {
		d.wrong("identity", "names nobody", wantIdentity)
	}
	return nil
}

func (d *decoder) payload() error {
	if k := d.json.PeekKind(); k != '{' {
		if k != 0 {
			d.wrong("payload", "is "+kindName(k), wantPayload)
		}
		return d.json.SkipValue()
	}
	v, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	end := int(d.json.InputOffset())
	d.e.Payload = d.e.Raw[end-len(v) : end : end]
	return nil
}

func validID(s string) bool {
	return len(s) > 0 && len(s) <= MaxID && !strings.ContainsFunc(s, unicode.IsControl)
}

// ValidType reports whether s can be a type of events.
func ValidType(s string) bool { return named(s, MaxType, "._:-") }

// ValidTenant reports whether s can be a tenant.
func ValidTenant(s string) bool { return named(s, MaxTenant, "._-") }

func named(s string, most int, more string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return len(s) > 0 && len(s) <= most
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a text"
	case '0':
		return "a number"
	case '[':
		return "an array"
	}
	return "an object"
}
