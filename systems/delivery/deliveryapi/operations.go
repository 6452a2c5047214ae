package deliveryapi

import (
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of delivery.
var (
	ListPartners = operation.List[operation.None, Partner]("listPartners", "partners",
		"List the partners and how each stands.").For(caller.Viewer)
	OpenCircuit = operation.Act[CircuitOpening, Partner]("openCircuit", "partners/{name}/open",
		"Leave a partner alone for a while: open its circuit. Its jobs wait, and lose no try.").For(caller.Operator)
	CloseCircuit = operation.Act[OnePartner, Partner]("closeCircuit", "partners/{name}/close",
		"Let a partner's jobs go on at once: close its circuit. One that is switched off is switched on.").For(caller.Operator)
	SwitchOff = operation.Act[OnePartner, Partner]("switchOff", "partners/{name}/off",
		"Switch a partner off, in all instances: its jobs wait, and no new events are queued for it, until its circuit is closed. What is being sent is finished.").For(caller.Operator)
	SendDelivery = operation.Act[api.EventsBody, api.EventResults]("sendDelivery", "delivery/events",
		"Take in events of any site, an array or one object, without a key of the site. It answers 202 when they are durable, and 200 where all were judged and none was taken.").AsIngest()
	FindDelivery = operation.View[DeliveryID, Delivery]("findDelivery", "delivery/events/{id}",
		"Explain where an event is, of the one site that has it.").For(caller.Viewer)
	GetDelivery = operation.View[DeliveryOf, Delivery]("getDelivery", "delivery/events/{site}/{id}",
		"Explain where an event of a site is.").For(caller.Viewer)
)

// OnePartner names a partner.
type OnePartner struct {
	Partner string `path:"name" arg:"" help:"Its name, as tidemill partner list shows it."`
}

// CircuitOpening opens a circuit.
type CircuitOpening struct {
	OnePartner
	For string `query:"for" help:"For how long: 10m, 2h. Default: a minute." placeholder:"TIME"`
}

// Partner is how a partner stands, in the words that programs outside know. What is not known,
// because there were no requests, is null.
type Partner struct {
	Partner     string     `json:"partner"`
	Circuit     string     `json:"circuitState"` // closed, open, half-open
	Success     *float64   `json:"successRate"`  // of the last five minutes, 0 to 1
	P50         *float64   `json:"latencyP50"`   // ms
	P99         *float64   `json:"latencyP99"`   // ms
	Depth       int64      `json:"queueDepth"`   // waiting, put off, being sent
	LastError   *string    `json:"lastError"`
	LastSuccess *time.Time `json:"lastSuccessAt"`

	Until       *time.Time `json:"openUntil,omitempty"` // when it is tried again: its circuit is open, or it asked for less
	Why         string     `json:"openReason,omitempty"`
	Paused      bool       `json:"paused,omitempty"` // by hand
	Limit       int64      `json:"queueLimit,omitempty"`
	Full        bool       `json:"queueFull,omitempty"`
	Parked      int64      `json:"parkedJobs,omitempty"`    // found no room in the queue, and wait beside it
	Dropped     uint64     `json:"droppedJobs,omitempty"`   // by this instance, to make room
	Expired     uint64     `json:"expiredJobs,omitempty"`   // by this instance, too old
	Off         *time.Time `json:"switchedOffAt,omitempty"` // it failed for too long
	Failing     *time.Time `json:"failingSince,omitempty"`
	Dead        int        `json:"deadLetters,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
}

// DeliveryID names an event.
type DeliveryID struct {
	ID string `path:"id"`
}

// DeliveryOf names an event of a site.
type DeliveryOf struct {
	Site string `path:"site"`
	DeliveryID
}

// Delivery is where an event is.
type Delivery struct {
	ID       string            `json:"id"`
	Site     string            `json:"site"`
	Type     string            `json:"type,omitempty"`
	Received *time.Time        `json:"received_at,omitempty"`
	State    string            `json:"state"`
	Why      string            `json:"why,omitempty"`
	Queue    string            `json:"queue,omitempty"`
	Partners []PartnerDelivery `json:"partners"`
}

// PartnerDelivery is what became of an event for one partner.
type PartnerDelivery struct {
	Partner  string        `json:"partner"`
	State    string        `json:"state"`
	Why      string        `json:"why,omitempty"`
	Tries    int           `json:"tries"`
	Next     *time.Time    `json:"next_at,omitempty"`
	Ended    *time.Time    `json:"ended_at,omitempty"`
	Attempts []api.Attempt `json:"attempts,omitempty"` // failed ones
}
