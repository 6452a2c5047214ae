package console

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/queue"
)

// ownerLimitPath is the page of the limit of an owner in a queue, below page.Prefix.
const ownerLimitPath = "owners/limit"

// ownerLimitAddress is the page of the limit of an owner in a queue; it goes back to that of the owner.
func ownerLimitAddress(owner, name string) string {
	return page.Query(page.Address("owners", "limit"), url.Values{"owner": {owner}, "queue": {name}})
}

// Which limit of an owner holds.
const (
	ownLimit  = "its own: what is below"
	eachLimit = "that of each tenant"
	noLimit   = "none"
)

// setOwnerLimit changes the limit that an owner has of its own in a queue: the fields and the settings are those of
// the queue, whose form has the limits of all.
var setOwnerLimit = &page.Action{Path: ownerLimitPath, Op: api.SetQueue.ID, Ask: askOwnerLimit, Do: doOwnerLimit}

// ownerLimitFields are those of one limit.
var ownerLimitFields = limitFields("", func(s *queue.Settings) *queue.Limit { return &s.Limit })

// ownedQueue is a queue, and the owner whose limit in it is shown or changed.
func ownedQueue(v *page.Visit) (owner string, q api.Queue, err error) {
	owner = v.Query().Get("owner")
	name := v.Query().Get("queue")
	if owner == "" || name == "" {
		return "", q, operation.Refuse(http.StatusBadRequest, "Say whose limit, and where: owner=…&queue=… The page of an owner leads here.")
	}
	q, err = page.Call(v, api.GetQueue, &api.OneQueue{Queue: name})
	q.Settings = cmp.Or(q.Settings, &queue.Settings{})
	return owner, q, err
}

func askOwnerLimit(v *page.Visit) (*page.Question, error) {
	owner, q, err := ownedQueue(v)
	if err != nil {
		return nil, err
	}
	form, own, is := v.R.PostForm, ownLimit, q.Settings.Tenants[owner]
	if _, has := q.Settings.Tenants[owner]; has && is == (queue.Limit{}) {
		own = noLimit
	}
	which := page.Input{Name: "which", Label: "Which limit", Choices: []string{ownLimit, eachLimit, noLimit}, Value: cmp.Or(form.Get("which"), own),
		Help: "Each tenant without a limit of its own has in this queue: " + limitWords(q.Settings.Tenant) + "."}
	return &page.Question{Title: "Limit of " + page.Cut(owner) + " in the queue " + q.Name, Button: "Set it", Section: "owners", Back: page.OwnerAddress(owner),
		Crumbs: []page.Link{{Text: "Owners", Href: page.Address("owners")}, {Text: page.Cut(owner), Href: page.OwnerAddress(owner)}}, ETag: cmp.Or(form.Get("etag"), q.ETag), Hidden: shownLimits(v, &queue.Settings{Limit: is}, ownerLimitFields),
		Inputs: append([]page.Input{which}, limitInputs(v, ownerLimitFields, &queue.Settings{Limit: is})...),
		Texts:  []string{"It holds for all instances, at once. What a limit holds back waits, and costs nothing. An empty field is no limit. The limits of the queue and of each key hold beside it."},
		CLI:    page.Command("queue", "limits", q.Name, "--tenant", owner), Request: page.Request(api.SetQueue, &api.QueueChange{OneQueue: api.OneQueue{Queue: q.Name}})}, nil
}

func doOwnerLimit(v *page.Visit) (string, error) {
	owner, q, err := ownedQueue(v)
	if err != nil {
		return "", err
	}
	to, one := q.Settings.Clone(), queue.Settings{Limit: q.Settings.Tenants[owner]}
	switch v.R.PostFormValue("which") {
	case eachLimit:
		delete(to.Tenants, owner)
	case noLimit:
		setTenant(&to, owner, queue.Limit{})
	default:
		if err := readLimits(ownerLimitFields, &one, v.R.PostForm); err != nil {
			return "", err
		}
		if one.Limit.PerSecond == 0 && one.Limit.AtOnce == 0 {
			return "", &page.Wrong{Text: "Say how many a second or at once, or choose another limit."}
		}
		setTenant(&to, owner, one.Limit)
	}
	return setTo(v, q.Name, q.Settings, &to, page.OwnerAddress(owner))
}

// setTenant gives a tenant a limit of its own.
func setTenant(s *queue.Settings, tenant string, l queue.Limit) {
	if s.Tenants == nil {
		s.Tenants = map[string]queue.Limit{}
	}
	s.Tenants[tenant] = l
}
