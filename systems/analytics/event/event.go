// Package event knows what an analytics event looks like: on the wire of every supported SDK,
// as an entry of a stream, and decoded. One decoder serves the ingest API, the stream and dead
// letters.
package event

import (
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Event is one decoded event. Its byte slices point into the message's payload.
type Event struct {
	ID      uuid.UUID
	Derived bool // ID was not sent: it is made of the event's position, or of its bytes
	Project uuid.UUID
	Name    string // 1 to 255 characters
	Type    string // track, identify, pageview, pageleave, set, set_once, screen

	DistinctID  string
	AnonymousID string
	UserID      string
	SessionID   string

	Page
	Device
	Sender
	Location

	Properties, UserProperties []byte // JSON objects as received; nil is {}

	Timestamp  time.Time
	Order      uint64 // among events of one time: greater is later
	IngestedAt time.Time
	timing     Timing
	given      []byte // its time as written, JSON; nil: none

	Person       uuid.UUID         // resolved
	Changes      []person.Property // of its person: $set_once, then $set, then $unset
	Profile      bool              // false: $process_person_profile is false, no person is stored
	Merge        Merge
	Other        string // Merge, MergeRefused: the other distinct id
	MergeRefused string // IllegalMerge: Other stands for no person, so nothing is merged; else empty

	BatchID string
	Origin  uint64 // hash of its message's position
}

// Page is where the event happened.
type Page struct {
	URL, Referrer, PageTitle, PagePath string
}

// Device is what the person used.
type Device struct {
	DeviceType                string
	Browser, BrowserVersion   string
	OS, OSVersion             string
	ScreenWidth, ScreenHeight uint16 // clamped; a bad value is 0
	Language, Timezone        string
}

// Sender is what sent the event.
type Sender struct {
	SDKName, SDKVersion string
	IP, UserAgent       string // of the person; empty for servers that act for one
}

// Location is where the sender's IP address is.
type Location struct {
	Country, Region, City string
	NoGeo                 bool // $geoip_disable: it is not looked up
}

// Merge is what an event says of two distinct ids.
type Merge uint8

const (
	NoMerge  Merge = iota
	Identify       // $identify with another anonymous id
	Alias          // $create_alias
	Force          // $merge_dangerously
)

// Reset empties the event for the next message, keeping its memory unless it is large.
func (e *Event) Reset() {
	if cap(e.Changes) > 2*many {
		e.Changes = nil
	}
	*e = Event{Changes: e.Changes[:0]}
}

// Timing is when the event happened. Clock.Together finishes it with the others of its request.
func (e *Event) Timing() Timing { return e.timing }

// Ref is the event's person.
func (e *Event) Ref() person.Ref { return person.Ref{Project: e.Project, Distinct: e.DistinctID} }
