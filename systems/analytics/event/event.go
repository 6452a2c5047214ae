// Package event knows what an analytics event looks like: on the wire of every SDK that
// may send one, as an entry of a stream, and decoded. One decoder serves ingest, the
// stream and dead letters.
package event

import (
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Event is one event, decoded. Its byte slices point into the message's payload.
type Event struct {
	ID      uuid.UUID
	Derived bool // ID was not sent: it is made of where the event lies, or of its bytes
	Project uuid.UUID
	Name    string // 1 to 255 characters
	Type    string // track, identify, pageview, pageleave, set, set_once, screen

	DistinctID  string
	AnonymousID string
	UserID      string
	SessionID   string

	URL, Referrer, PageTitle, PagePath string
	DeviceType                         string
	Browser, BrowserVersion            string
	OS, OSVersion                      string
	ScreenWidth, ScreenHeight          uint16 // clamped; junk is 0
	Language, Timezone                 string
	SDKName, SDKVersion                string
	IP, UserAgent                      string // of the person; empty for servers that speak for one
	BatchID                            string
	Country, Region, City              string
	Properties, UserProperties         []byte // JSON objects as received; nil is {}
	Timestamp                          time.Time
	Order                              uint64 // of events of one time: the greater is the later
	IngestedAt                         time.Time
	Person                             uuid.UUID         // resolved
	Changes                            []person.Property // to its person: $set_once, then $set, then $unset
	Profile                            bool              // false: $process_person_profile is false, no person is stored
	Merge                              Merge
	Other                              string // Merge, MergeRefused: the other distinct id
	MergeRefused                       string // IllegalMerge: Other stands for nobody, so there is no merge; else empty
	NoGeo                              bool   // $geoip_disable
	timing                             Timing
	given                              []byte // its time as it was written, JSON; nil: none
	Origin                             uint64 // where it came from: hash of its message's position
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

// Timing is when the event happened, for Clock.Together to finish with those of its request.
func (e *Event) Timing() Timing { return e.timing }

// Ref is whose event it is.
func (e *Event) Ref() person.Ref { return person.Ref{Project: e.Project, Distinct: e.DistinctID} }
