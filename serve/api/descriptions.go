package api

import (
	"encoding/json"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of what can be described beside the file: partners, sites and handlers.
var (
	ListDescriptions = operation.List[DescriptionsOf, Description]("listDescriptions", "descriptions",
		"List the partners, sites and handlers that are in force in this instance, and where each is described: in its file, where it is read-only, or in the database that instances share.").For(caller.Viewer)
	GetDescription = operation.View[OneDescription, Description]("getDescription", "descriptions/{kind}/{name}",
		"Show how a partner, a site or a handler is described. Its ETag is what the If-Match of a change is compared with; what the file describes has none.").For(caller.Viewer)
	ListDescriptionSettings = operation.List[KindOfDescription, DescriptionSetting]("listDescriptionSettings", "descriptions/{kind}",
		"List the settings that a partner, a site or a handler can have, with what each is written like: what `tidemill config reference` says of the elements of their lists.").For(caller.Viewer)
	AddDescription = operation.Act[DescriptionText, DescriptionChanged]("addDescription", "descriptions/{kind}/{name}/add",
		"Make a partner, a site or a handler, in the database that instances share. The body has the settings that the file has for one (`tidemill config reference delivery.partners`), and is checked as the file is. Keys are kept as their SHA-256; other secrets are refused: name the variables that have them, which each instance needs. It answers when all instances have it in force, or after 10 seconds, and says which have not.")
	ChangeDescription = operation.Editing(operation.Act[DescriptionPatch, DescriptionChanged]("changeDescription", "descriptions/{kind}/{name}/change",
		"Change what the database describes. The body is a merge patch (RFC 7396) of the description. It answers as an addition does."), GetDescription.Description)
	RemoveDescription = operation.Editing(operation.Act[DescriptionRemoval, DescriptionChanged]("removeDescription", "descriptions/{kind}/{name}/remove",
		"Remove what the database describes. It answers when no instance has it in force any more, and so nothing is sent to a partner that was removed, or after 10 seconds, and says which instances have not let go of it. What waits for a partner becomes dead letters."), GetDescription.Description)
)

// DescriptionsOf chooses descriptions.
type DescriptionsOf struct {
	Kind string `query:"kind" help:"Only those of a kind: partner, site or handler." placeholder:"KIND"`
}

// KindOfDescription names a kind.
type KindOfDescription struct {
	Kind string `path:"kind" arg:"" help:"partner, site or handler."`
}

// DescriptionSetting is a setting of a partner, a site or a handler.
type DescriptionSetting struct {
	Name   string `json:"name"` // in the description: queue.full is the member full of the member queue
	Kind   string `json:"kind"` // text, whole, number, truth, duration, list (of texts), names (with texts), groups (a list of groups of settings)
	Form   string `json:"form"` // what it is written like, in words
	Help   string `json:"help,omitempty"`
	Main   bool   `json:"main,omitempty"`   // most have it
	Secret bool   `json:"secret,omitempty"` // it is not shown: its SHA-256 is kept
}

// OneDescription names one.
type OneDescription struct {
	Kind string `path:"kind" kong:"-"`
	Name string `path:"name" arg:"" help:"Its name; of a site its id."`
}

// Checking says that nothing is to be changed.
type Checking struct {
	Check bool `query:"check" help:"Only check it, and say what would change."`
}

// DescriptionText makes one.
type DescriptionText struct {
	OneDescription
	Checking
	Body []byte `body:"application/json" kong:"-"`
}

// DescriptionPatch changes one.
type DescriptionPatch struct {
	OneDescription
	Checking
	Seen
	Body []byte `body:"application/json" kong:"-"`
}

// DescriptionRemoval removes one.
type DescriptionRemoval struct {
	OneDescription
	Checking
	Seen
}

// Description is how a partner, a site or a handler is described. Secrets are not in it.
type Description struct {
	Kind    string          `json:"kind"` // partner, site or handler
	Name    string          `json:"name"`
	From    string          `json:"from"` // FILE:LINE, where it is read-only; or the database
	ETag    string          `json:"etag,omitempty"`
	Changed *time.Time      `json:"changed_at,omitempty"`
	By      string          `json:"changed_by,omitempty"`
	Is      json.RawMessage `json:"description"` // as it is in force, by the names of the file, with what a preset adds
	Given   json.RawMessage `json:"given"`       // as it is described: what a merge patch is applied to. What may be a secret is [secret] in both
}

// Version is the ETag.
func (d Description) Version() string { return d.ETag }

// DescriptionChanged is a change of a description.
type DescriptionChanged struct {
	Description                     // as it is now; of one that was removed, as it was
	Changes     []SettingChange     `json:"changes"`   // of the configuration of the instance that answers
	Instances   []DescriptionSpread `json:"instances"` // that the change concerns, the one that answers first; none: it was only checked
}

// DescriptionSpread is an instance that a change concerns.
type DescriptionSpread struct {
	ID    string `json:"id"`
	Host  string `json:"host,omitempty"`
	State string `json:"state"`         // applied; refused (it goes on as before, and says why), waiting (it has not said anything)
	Why   string `json:"why,omitempty"` // it refused
}
