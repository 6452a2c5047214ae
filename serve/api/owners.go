package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/queue"
)

// Of owners: projects, sites and tenants.
var (
	ListOwners = operation.List[OwnerFilter, OwnerInList]("listOwners", "owners",
		"List owners: the 1000 with the most jobs that wait, of the 1000 deepest of each queue, and the 1000 with the most dead letters, of the 1000 of each pipeline. They are read at most each 10 seconds, and each page is of what was read last: between two pages, an owner whose jobs or dead letters come or go may change places, unless order=name.").For(caller.Viewer).OfEach()
	GetOwner = operation.View[OneOwner, Owner]("getOwner", "owners/{owner}",
		"Show one owner: how many of its jobs wait in every queue, with what may hold them back, the limits that are its own, and its dead letters. The count of dead letters stops at 1000, and after 15 ms.").For(caller.Viewer).OfEach()
)

// OwnerFilter chooses owners.
type OwnerFilter struct {
	Prefix  string `query:"prefix" help:"Only owners whose name begins so." placeholder:"TEXT"`
	Max     int    `query:"max" help:"At most this many." short:"n"`
	Limited bool   `query:"limited" help:"Only owners to which a limit applies in some queue where their jobs wait."`
	Order   string `query:"order" enum:",deepest,dead,name" default:"" help:"Which comes first: deepest, the one with the most jobs that wait, dead, the one with the most dead letters, or name, by the bytes of their names. Default: deepest." placeholder:"deepest|dead|name"`
	operation.Page
}

// Orders of owners beside the default one.
const (
	OrderByDead = "dead"
	OrderByName = "name"
)

// OwnerInList is an owner whose jobs wait, or who has dead letters.
type OwnerInList struct {
	Owner   string    `json:"owner"` // a project's id, a site, or a tenant
	Waiting int64     `json:"waiting"`
	Queues  int       `json:"queues"` // that they wait in
	Oldest  time.Time `json:"oldest_added_at,omitzero"`
	Limited bool      `json:"limited"`      // in some queue a limit of its own, or of each owner, applies
	Dead    int64     `json:"dead_letters"` // of pipelines where it is among the 1000 with the most

	Position string `json:"-"` // in a listing
}

// PageKey is its position.
func (o OwnerInList) PageKey() string { return o.Position }

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
