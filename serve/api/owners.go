package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of owners: projects, sites and tenants.
var (
	ListOwners = operation.List[OwnerFilter, WaitingOwner]("listOwners", "owners",
		"List the owners whose jobs wait, the deepest first: up to 1000, of the 1000 deepest of each queue. They are read at most each 10 seconds.").For(caller.Viewer).OfEach()
	GetOwner = operation.View[OneOwner, Owner]("getOwner", "owners/{owner}",
		"Show one owner: how many of its jobs wait in every queue, with what may hold them back, and its dead letters. The count of dead letters stops at 1000, and after 15 ms.").For(caller.Viewer).OfEach()
)

// OwnerFilter chooses owners.
type OwnerFilter struct {
	Prefix string `query:"prefix" help:"Only owners whose name begins so." placeholder:"TEXT"`
	Max    int    `query:"max" help:"At most this many." short:"n"`
}

// WaitingOwner is an owner whose jobs wait.
type WaitingOwner struct {
	Owner   string    `json:"owner"` // a project's id, a site, or a tenant
	Waiting int64     `json:"waiting"`
	Queues  int       `json:"queues"` // that they wait in
	Oldest  time.Time `json:"oldest_added_at,omitzero"`
	Limited bool      `json:"limited"` // in some queue a limit of its own, or of each owner, applies
}

// OneOwner names an owner.
type OneOwner struct {
	Owner string `path:"owner" arg:"" help:"A project's id, a site, or a tenant."`
}

// Owner is an owner over all systems.
type Owner struct {
	Owner  string          `json:"owner"`
	Queues []OwnerQueue    `json:"queues"` // that jobs of it wait in
	Dead   operation.Count `json:"dead_letters"`
	AsOf   time.Time       `json:"as_of"`
}

// OwnerQueue is what an owner has in a queue.
type OwnerQueue struct {
	Queue   string     `json:"queue"`
	Waiting int64      `json:"waiting"` // jobs; those that are put off or worked on are not counted by owner
	Oldest  *time.Time `json:"oldest_added_at,omitempty"`
	Holds   string     `json:"holds,omitempty"` // what may hold them back, beside the turns of others
}
