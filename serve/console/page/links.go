package page

import (
	"net/url"
	"strconv"

	"github.com/tidemill/tidemill/serve/api"
)

// JobAddress is the page of a job.
func JobAddress(j *api.Job, more ...string) string {
	at := "job"
	if len(more) > 0 {
		at = more[0]
	}
	q := url.Values{"id": {j.ID}}
	if j.Tenant != "" {
		q.Set("tenant", j.Tenant)
	}
	return Query(Address("queues", j.Queue, at), q)
}

// JobAt is the page of a job, or one that belongs to it.
func (v *View) JobAt(j *api.Job, more ...string) string { return JobAddress(j, more...) }

// NoSystem stands in addresses for the system of a dead letter whose pipeline no system knows.
const NoSystem = "-"

// DeadAddress is the page of a dead letter, or one that belongs to it.
func DeadAddress(l *api.DeadLetter, more ...string) string {
	return OneDeadAddress(l.System, strconv.FormatInt(l.Seq, 10), more...)
}

// OneDeadAddress is the page of the dead letter of a number.
func OneDeadAddress(system, seq string, more ...string) string {
	if system == "" {
		system = NoSystem
	}
	return Address(append([]string{"dead", system, seq}, more...)...)
}

// DeadAt is the page of a dead letter, or one that belongs to it.
func (v *View) DeadAt(l *api.DeadLetter, more ...string) string { return DeadAddress(l, more...) }

// OwnerOf is whose a dead letter is.
func OwnerOf(l *api.DeadLetter) string {
	for _, o := range []string{l.Project, l.Site, l.Tenant} {
		if o != "" {
			return o
		}
	}
	return ""
}

// OwnerAddress is the page of an owner.
func OwnerAddress(owner string) string {
	return Query(Address("owners", "one"), url.Values{"owner": {owner}})
}

// OwnerAt is the page of an owner.
func (v *View) OwnerAt(owner string) string { return OwnerAddress(owner) }

// ExplainAddress is the page that explains an event; empty: no system is known to have it.
func ExplainAddress(system, owner, id string) string {
	if system == "" {
		return ""
	}
	return Query(Address("explain"), url.Values{"system": {system}, "owner": {owner}, "id": {id}})
}
