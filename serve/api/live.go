package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// GetLive shows what becomes of events at this moment.
var GetLive = operation.View[LiveFilter, Live]("getLive", "live",
	"Show a sample of what becomes of events in this instance: at most 10 a second of what the ingest API accepted or refused, and of what was delivered, skipped or died. It is taken only while somebody asks: the first answer is empty, and who asks again within 30 seconds sees what came since. The topic live of the stream shows the same.").For(caller.Viewer).OfEach()

// LiveFilter says what is looked at.
type LiveFilter struct {
	System string `query:"system" help:"Only of this system." placeholder:"NAME"`
	Owner  string `query:"owner" help:"Only of this owner: a project, a site or a tenant." placeholder:"NAME"`
	Type   string `query:"type" help:"Only events of this type. The ingest API does not tell types." placeholder:"TYPE"`
}

// Live is what became of events since somebody began to ask.
type Live struct {
	Since   time.Time         `json:"since"`
	AsOf    time.Time         `json:"as_of,omitzero"` // left out in the topic
	Counts  map[string]uint64 `json:"counts"`         // events since then, by outcome; items are a sample of them
	Systems []LiveSystem      `json:"systems"`        // that items are of
	Items   []Fate            `json:"items"`          // the newest first, at most 50; in the topic 20
}

// LiveSystem is how far a system is behind.
type LiveSystem struct {
	System  string  `json:"system"`
	Delay   float64 `json:"delay_seconds"`         // of the middle one of its items that ended
	Longest float64 `json:"longest_delay_seconds"` // of its items
}

// Fate is what became of an event, or of the events of a request.
type Fate struct {
	At       time.Time `json:"at"`
	System   string    `json:"system"`
	Pipeline string    `json:"pipeline,omitempty"` // where it ended; left out: at the ingest API
	Outcome  string    `json:"outcome"`            // accepted, duplicate, refused, delivered, skipped, dead
	Owner    string    `json:"owner,omitempty"`
	Type     string    `json:"type,omitempty"`
	ID       string    `json:"id,omitempty"`
	Why      string    `json:"why,omitempty"`
	Count    int       `json:"count"`                   // events of a request
	Delay    *float64  `json:"delay_seconds,omitempty"` // since it happened, or was accepted where that is not known
}
