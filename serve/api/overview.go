package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of how all stands.
var (
	GetOverview = operation.View[operation.None, Overview]("getOverview", "overview",
		"Show whether all is well: the books of each system and whether they balance, rates, and what wants attention, the worst first. It reads counters alone, and answers within a second though a store is away: with what was read last, and its age.").For(caller.Viewer).OfEach()
	ListHistories = operation.List[operation.None, Figures]("listHistories", "history",
		"List what has a history: queue:NAME, pipeline:NAME and partner:NAME, each with its rates of the last minute.").For(caller.Viewer).OfEach()
	GetHistory = operation.View[HistoryOf, History]("getHistory", "history/{series}",
		"Show how a queue, a pipeline or a partner went: how many came in, ended and died in each step. This instance keeps it in memory, of counters that all instances share, since it started.").For(caller.Viewer).OfEach()
)

// Overview is how all stands.
type Overview struct {
	AsOf       time.Time        `json:"as_of,omitzero"`     // left out in the topic, as each books_as_of
	Instance   string           `json:"instance,omitempty"` // that answers
	Version    string           `json:"version"`
	Started    time.Time        `json:"started"`               // this instance
	Balanced   bool             `json:"balanced"`              // all books that could be read
	Systems    []SystemOverview `json:"systems"`               // that run here
	Attention  []Attention      `json:"attention"`             // the worst first
	LeftOut    int              `json:"left_out"`              // of what wants attention: there is more than is shown
	RatesSince *time.Time       `json:"rates_since,omitempty"` // since when this instance knows rates; left out: not yet
}

// SystemOverview is how a system stands: the books of all its queues and pipelines together.
type SystemOverview struct {
	Name     string     `json:"name"`
	State    string     `json:"state"` // running, paused (some pipeline is), stopped (some pipeline has), idle
	Balanced bool       `json:"balanced"`
	Books    *Sum       `json:"books,omitempty"` // accepted = delivered + skipped + dead + in flight + lost; left out: never read
	AsOf     *time.Time `json:"books_as_of,omitempty"`
	Unread   string     `json:"books_error,omitempty"` // why they cannot be read now
	Dead     int64      `json:"dead_letters"`          // that are there
	Rates    *Rates     `json:"rates,omitempty"`       // of its books; left out: not known yet
}

// Sum are books of several queues and pipelines, without those of dead letters.
type Sum struct {
	Accepted  uint64 `json:"accepted"`
	Delivered uint64 `json:"delivered"`
	Skipped   uint64 `json:"skipped"`
	Dead      uint64 `json:"dead"`
	InFlight  uint64 `json:"in_flight"`
	Lost      uint64 `json:"lost"`
	Off       int64  `json:"off"` // unaccounted for: above zero missing, below zero counted twice
}

// Rates are averages of the last minute.
type Rates struct {
	In     float64 `json:"in_per_second"`     // accepted
	Out    float64 `json:"out_per_second"`    // delivered or skipped
	Failed float64 `json:"failed_per_second"` // dead
}

// Attention is one thing that wants it.
type Attention struct {
	Kind      string     `json:"kind"` // unbalanced, unread, stopped, credentials, circuit, errors, unanswered, off, full, growing, old, old_dead_letters, paused
	System    string     `json:"system,omitempty"`
	Pipeline  string     `json:"pipeline,omitempty"`
	Queue     string     `json:"queue,omitempty"`
	Text      string     `json:"text"`                // what is the matter, in a sentence
	Advice    string     `json:"advice"`              // what to do
	Operation string     `json:"operation,omitempty"` // that shows more, or mends it
	Since     *time.Time `json:"since,omitempty"`
	Here      bool       `json:"here,omitempty"` // it is of this instance alone
}

// HistoryOf names a history.
type HistoryOf struct {
	Series string `path:"series" arg:"" help:"queue:NAME, pipeline:NAME or partner:NAME, as tidemill api listHistories shows it."`
	Span   string `query:"span" help:"How far back: 1h in steps of 10 seconds, or 24h in steps of 5 minutes. Default: 1h." enum:",1h,24h" default:"" placeholder:"1h|24h"`
}

// History is how something went.
type History struct {
	Series string     `json:"series"`
	Step   float64    `json:"step_seconds"`
	Since  *time.Time `json:"since,omitempty"` // since when this instance knows it
	AsOf   time.Time  `json:"as_of"`
	Here   bool       `json:"here,omitempty"` // counted by this instance alone: no books are shared
	Points []Point    `json:"points"`         // the oldest first; a step that is missing is one in which nothing was looked at
}

// Point is what was counted in a step.
type Point struct {
	At     time.Time `json:"at"` // its beginning
	In     uint64    `json:"in"`
	Out    uint64    `json:"out"`
	Failed uint64    `json:"failed"`
	Oldest float64   `json:"oldest_age_seconds"` // the greatest in it; 0: none, or not known
}

// Figures are a series with its rates.
type Figures struct {
	Series string `json:"series"`
	Rates  *Rates `json:"rates,omitempty"` // left out: not known yet
}
