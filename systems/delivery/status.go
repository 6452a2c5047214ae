package delivery

import (
	"time"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// States of an event and of its delivery to a partner.
const (
	StateQueued     = "queued"     // of an event: it waits for routing
	StateDelivering = "delivering" // of an event: some partner does not have it yet
	StateDone       = "done"       // of an event: every partner's delivery has ended
	StateWaiting    = "waiting"    // of a delivery: it is due
	StateDelayed    = "delayed"    // of a delivery: it comes back later
	StateSending    = "sending"    // of a delivery: it is being sent
	StateDelivered  = "delivered"
	StateSkipped    = "skipped" // on purpose: no route, no consent
	StateDead       = "dead"    // there is a dead letter
	StateHeld       = "held"    // whether it was delivered is unknown: a person decides
	StateSettled    = "settled" // it was dead, and its dead letter was discarded
)

// EventStatus is where an event is and what became of it.
type EventStatus struct {
	ID       string
	Site     string
	Type     string
	Received time.Time // zero: no longer known
	State    string
	Why      string // of skipped and dead, and why it waits
	Queue    string // the queue where it waits or waited for routing
	Partners []PartnerStatus

	Job    *queue.Job         // that waits or waited for routing; nil: its queue does not have it (any more)
	Letter *deadletter.Letter // it could not be routed; nil: it could
}

// PartnerStatus is what became of an event for one partner.
type PartnerStatus struct {
	Partner  string
	State    string
	Why      string
	Tries    int             // that failed
	Next     time.Time       // of the next try; zero: at once, or no more
	Attempts []queue.Failure // the failed ones, oldest first
	Ended    time.Time

	Job    *queue.Job         // in the partner's queue, or beside it; nil: there is none (any more)
	Letter *deadletter.Letter // nil: there is none
}

// PartnerHealth is how a partner stands.
type PartnerHealth struct {
	Partner       string
	Circuit       policy.State
	Until         time.Time     // when it is tried again: its circuit is open, or it asked for less
	Why           string        // it is left alone
	Paused        bool          // by hand, and for no set time
	Held          bool          // its queue hands out nothing: paused, or the circuit was opened by hand
	SuccessRate   float64       // share of deliveries among the requests of the last five minutes, 0 to 1; -1: no requests
	P50, P99      time.Duration // of its answers in the last five minutes, timeouts included
	Jobs          queue.Stats   // of its queue
	Parked        queue.Stats   // of the queue beside it, for jobs that found no room
	Limit         int64         // about how many jobs may wait in its queue
	Policy        partner.Full  // what happens beyond that
	Dropped       uint64        // jobs that this instance removed to make room
	Expired       uint64        // jobs that this instance ended because they were too old
	FailingSince  time.Time     // when its circuit first opened since its last success; zero: it did not
	Off           time.Time     // since when it is switched off; zero: it is not
	Dead          int           // dead letters
	LastError     string
	LastErrorAt   time.Time
	LastSuccessAt time.Time
}

// Full reports whether its queue is at its limit, or was when the parked jobs came.
func (p *PartnerHealth) Full() bool {
	return p.Depth() >= p.Limit || p.ParkedJobs() > 0
}

// ParkedJobs is how many jobs found no room in its queue and wait beside it.
func (p *PartnerHealth) ParkedJobs() int64 {
	return p.Parked.Waiting + p.Parked.Delayed + p.Parked.Leased
}

// Depth is how many jobs of the partner have not ended: waiting, delayed, being sent.
func (p *PartnerHealth) Depth() int64 { return p.Jobs.Waiting + p.Jobs.Delayed + p.Jobs.Leased }
