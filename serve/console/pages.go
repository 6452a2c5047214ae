package console

import (
	"embed"
	"html/template"
	"net/url"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/serve/live"
)

//go:embed templates/*.html
var templateFiles embed.FS

// Groups of the navigation, before and after that of the systems.
const (
	first = -1
	later = 1
	last  = 2
)

// pages are those that are of no system.
func (c *Console) pages() *page.Set {
	return &page.Set{Places: places, Said: said, Things: things, Templates: templateFiles,
		Funcs: template.FuncMap{
			"reasons": func() []page.Fact { return reasons }, "jobStates": func() []page.Fact { return jobStates }, "operationStates": func() []page.Fact { return operationStates },
			"outcomes": func() []string { return []string{"done", "refused", "failed", "unknown"} }, "noted": noted, "operationOf": operationOf, "attentionAt": attentionAt, "grave": grave,
			"fates": live.Outcomes, "titled": titled,
			"queuesTable": queuesTable, "jobsTable": jobsTable, "ownersTable": ownersTable, "tenantsTable": tenantsTable, "ownedTable": ownedTable,
			"deadTable": deadTable, "groupsTable": groupsTable, "operationsTable": operationsTable, "fatesTable": fatesTable, "viewsTable": viewsTable, "savedAt": savedAt,
		},
		Pages: []page.Page{
			{Path: "{$}", Show: showOverview},
			{Path: "live", Show: showLive},
			{Path: "queues", Show: showQueues},
			{Path: "queues/{queue}", Show: showQueue},
			{Path: "queues/{queue}/jobs", Show: showJobs},
			{Path: "queues/{queue}/job", Show: showJob},
			{Path: "owners", Show: showOwners},
			{Path: "owners/one", Show: showOwner},
			{Path: "dead", Show: showDeadLetters},
			{Path: "dead/{system}/{seq}", Show: showDeadLetter},
			{Path: "operations", Show: showOperations},
			{Path: "operations/{id}", Show: showOperation},
			{Path: "books", Show: showBooks},
			{Path: "audit", Show: showTrail},
			{Path: "instances", Show: showInstances},
			{Path: "health", Show: c.showHealth},
			{Path: "config", Show: showConfig},
			{Path: "descriptions", Show: showDescriptions},
			{Path: "descriptions/{kind}/{name}", Show: showDescription},
			{Path: "reference", Show: showReference},
			{Path: "reference/{operation}", Show: showOperationTry},
			{Path: "access", Show: showAccess},
			{Path: "me", Show: showMe},
			{Path: "views", Show: showViews},
			{Path: "find", Show: showFind},
			{Path: "explain", Show: showExplain},
			{Path: "menu", Show: showMenu},
		},
		Actions: []*page.Action{
			pauseQueue, resumeQueue, drainQueue, setQueue, setBack, setOwnerLimit,
			retryJobs, promoteJobs, removeJobs, cleanJobs, editJob,
			replayDead, discardDead, editDead,
			stopOperation, againOperation,
			addUser, setUserRole, setUserPassword, removeUser, makeToken, revokeToken, endAnySession, setMyPassword,
			pausePipeline, resumePipeline,
			saveView, changeView, removeView,
			addDescription, changeDescription, removeDescription,
		},
		Downloads: []page.Page{
			{Path: "dead/export", Show: exportDead},
			{Path: "audit/export", Show: exportTrail},
			{Path: "queues/{queue}/payload", Show: jobPayload},
			{Path: "dead/{system}/{seq}/payload", Show: deadPayload},
			{Path: "dead/{system}/{seq}/original", Show: deadOriginal},
		},
	}
}

var places = []page.Place{
	{Section: "overview", Text: "Overview", Path: "", Key: "o", Op: "getStatus", Group: first},
	{Section: "live", Text: "Live", Path: "live", Key: "l", Op: "getLive", Group: first},
	{Section: "dead", Text: "Dead letters", Path: "dead", Key: "d", Op: "listDead", Group: first},
	{Section: "queues", Text: "Queues", Path: "queues", Key: "q", Op: "listQueues", Group: first},
	{Section: "owners", Text: "Owners", Path: "owners", Key: "w", Op: "listOwners", Group: first},
	{Section: "views", Text: "Saved views", Path: "views", Key: "v", Op: "listViews", Group: later},
	{Section: "operations", Text: "Operations", Path: "operations", Key: "p", Op: "listOperations", Group: later},
	{Section: "books", Text: "Books", Path: "books", Key: "b", Op: "getAudit", Group: later},
	{Section: "instances", Text: "Instances", Path: "instances", Key: "i", Op: "getStatus", Group: later},
	{Section: "health", Text: "Health", Path: "health", Key: "h", Op: "getDoctor", Group: later},
	{Section: "audit", Text: "Audit trail", Path: "audit", Key: "a", Op: "listAuditTrail", Group: later},
	{Section: "access", Text: "Access", Path: "access", Key: "u", Op: "listUsers", Group: later},
	{Section: "config", Text: "Configuration", Path: "config", Key: "c", Op: "getConfig", Group: later},
	{Section: descriptionsSection, Text: "Descriptions", Path: "descriptions", Key: "y", Op: "listDescriptions", Group: later},
	{Section: "reference", Text: "Reference", Path: "reference", Key: "r", Op: "getOpenAPI", Group: last},
}

// said are what was done before a page, in words.
var said = map[string]string{
	"paused": "Paused.", "resumed": "Resumed.", "draining": "It takes no new jobs; what is there is worked on.", "settings": "The settings are in force.",
	"saved": "The payload was replaced.", "preferences": "Saved.", "ended": "The session is ended.",
	"added": "The user was added.", "role": "The role was changed.", "password": "The password was changed.", "userremoved": "The user was removed.", "revoked": "The token was revoked.",
	"description.added": "It is in force in all instances.", "description.changed": "The change is in force in all instances.", "description.removed": "It is removed in all instances.",
	"description.added.some": "It is kept, and in force in this instance, but not in all: below is how each stands.", "description.changed.some": "The change is kept, and in force in this instance, but not in all: below is how each stands.", "description.removed.some": "It is removed in this instance, but not in all: below is how each stands.",
	"view.saved": "The view is saved. It stands under Saved views, and on the overview.", "view.changed": "The view was changed.", "view.removed": "The view was removed.",
	"started": "The operation is asked for. This page says how far it is.", "stopped": "The operation is stopped.",
}

// things are the pages of things, by the operation that shows one.
var things = map[string]func(map[string]string) string{
	api.Explain.ID: func(p map[string]string) string {
		q := url.Values{}
		for name, value := range p {
			q.Set(name, value)
		}
		return page.Query(page.Address("explain"), q)
	},
	api.GetJob.ID: func(p map[string]string) string {
		return page.JobAddress(&api.Job{Queue: p["name"], ID: p["id"], Tenant: p["tenant"]})
	},
	api.ListAuditTrail.ID: func(p map[string]string) string {
		return page.Query(page.Address("audit"), url.Values{"operation": {p["operation"]}, "since": {p["since"]}, "until": {p["until"]}})
	},
	api.GetDescription.ID: func(p map[string]string) string { return descriptionAt(p["kind"], p["name"]) },
	api.GetDead.ID:        func(p map[string]string) string { return page.OneDeadAddress(p["system"], p["letter"]) },
	api.GetOperation.ID:   func(p map[string]string) string { return page.Address("operations", p["id"]) },
	api.GetQueue.ID:       func(p map[string]string) string { return page.Address("queues", p["name"]) },
}
