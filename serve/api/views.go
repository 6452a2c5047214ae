package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of saved views of the console.
var (
	ListViews = operation.List[operation.Short, View]("listViews", "views",
		"List your saved views of the console, and those that others share with everybody.").For(caller.Viewer).OfEach()
	GetView = operation.View[OneView, View]("getView", "views/{id}",
		"Show one saved view.").For(caller.Viewer).OfEach()
	SaveView = operation.Act[NewView, View]("saveView", "views",
		"Save a view of the console: a name for an address. It is yours, and up to 100 are kept of each person or token. Sharing it with everybody needs the role operator.").For(caller.Viewer).OfEach()
	ChangeView = operation.Editing(operation.Act[ViewChange, View]("changeView", "views/{id}/change",
		"Give a saved view of yours another name or another address, share it, or keep it to yourself. What is left out stays.").For(caller.Viewer).OfEach(), GetView.Description)
	RemoveView = operation.Act[OneView, View]("removeView", "views/{id}/remove",
		"Remove a saved view of yours; an admin may remove one that somebody shares, too.").For(caller.Viewer).OfEach()
)

// The types below embed what they consist of: the name of each function of an operation has all fields of its
// request and of its answer, with their tags, or only the name of what is embedded.

// View is a name for an address of the console.
type View struct{ SavedView }

// SavedView is what a view consists of.
type SavedView struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Address string    `json:"address"` // begins with /console/, whatever a proxy has before it
	Owner   string    `json:"owner"`   // who saved it: ada, token:ci, key:admin, local
	Shared  bool      `json:"shared"`  // everybody sees it, and not its owner alone
	Made    time.Time `json:"made_at"`
	ETag    string    `json:"etag"` // what a change of it is compared with
}

// Version is the ETag.
func (v View) Version() string { return v.ETag }

// PageKey is when the view was made, and its id.
func (v View) PageKey() string { return keyOf(v.Made, v.ID) }

// NewView is a view to be saved.
type NewView struct{ ViewToSave }

// ViewToSave says what is saved.
type ViewToSave struct {
	Name    string `query:"name" arg:"" help:"A name for it, of 1 to 80 characters: one that no other view of yours has."`
	Address string `query:"address" arg:"" help:"The address of the page, as /console/dead?state=held&since=1h: below /console/, with its query, of at most 2 KiB. Times that are ages stay ages."`
	Shared  bool   `query:"shared" help:"Share it with everybody who may look at the console. Default: false, it is yours alone."`
}

// OneView names a view.
type OneView struct{ ViewID }

// ViewID is the id of a view.
type ViewID struct {
	ID string `path:"id" arg:"" help:"Its id, as tidemill view list shows it."`
}

// ViewChange is another name or address of a view.
type ViewChange struct {
	ViewID
	Seen
	OtherView
}

// OtherView is what becomes of a view.
type OtherView struct {
	Name    string `query:"name" help:"Another name." placeholder:"NAME"`
	Address string `query:"address" help:"Another address, as of a new view." placeholder:"ADDRESS"`
	Shared  string `query:"shared" enum:",true,false" default:"" help:"Whether everybody sees it, and not you alone: true or false." placeholder:"true|false"`
}
