package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/queue"
)

// Of owners: projects, sites and tenants.
var (
	ListOwners = operation.List[OwnerFilter, WaitingOwner]("listOwners", "owners",
		"List the owners whose jobs wait, the deepest first: up to 1000, of the 1000 deepest of each queue. They are read at most each 10 seconds, and each page is of what was read last: between two pages, an owner whose jobs come or go may change places, unless order=name.").For(caller.Viewer).OfEach()
	GetOwner = operation.View[OneOwner, Owner]("getOwner", "owners/{owner}",
		"Show one owner: how many of its jobs wait in every queue, with what may hold them back, the limits that are its own, and its dead letters. The count of dead letters stops at 1000, and after 15 ms.").For(caller.Viewer).OfEach()
)

// OwnerFilter chooses owners.
type OwnerFilter struct {
	Prefix string `query:"prefix" help:"Only owners whose name begins so." placeholder:"TEXT"`
	Max    int    `query:"max" help:"At most this many." short:"n"`
	Order  string `query:"order" enum:",deepest,name" default:"" help:"Which comes first: deepest, the one with the most jobs that wait, or name, by the bytes of their names. Default: deepest." placeholder:"deepest|name"`
	operation.Page
}

// OrderByName is the Order of owners by their names.
const OrderByName = "name"

// WaitingOwner is an owner whose jobs wait.
type WaitingOwner struct {
	Owner   string    `json:"owner"` // a project's id, a site, or a tenant
	Waiting int64     `json:"waiting"`
	Queues  int       `json:"queues"` // that they wait in
	Oldest  time.Time `json:"oldest_added_at,omitzero"`
	Limited bool      `json:"limited"` // in some queue a limit of its own, or of each owner, applies

	Position string `json:"-"` // in a listing
}

// PageKey is its position.
func (o WaitingOwner) PageKey() string { return o.Position }

// OneOwner names an owner.
type OneOwner struct {
	Owner string `path:"owner" arg:"" help:"A project's id, a site, or a tenant."`
}

// Owner is an owner over all systems.
type Owner struct {
	Owner  string          `json:"owner"`
	Queues []OwnerQueue    `json:"queues"` // that jobs of it wait in, then those where it only has a limit of its own
	Dead   operation.Count `json:"dead_letters"`
	AsOf   time.Time       `json:"as_of"`
}

// OwnerQueue is what an owner has in a queue.
type OwnerQueue struct {
	Queue   string     `json:"queue"`
	Waiting int64      `json:"waiting"` // jobs; those that are put off or worked on are not counted by owner
	Oldest  *time.Time `json:"oldest_added_at,omitempty"`
	Holds   string     `json:"holds,omitempty"` // what may hold them back, beside the turns of others

	Limit *queue.Limit `json:"limit,omitempty"` // its own, instead of that of each tenant; left out: it has none
}
