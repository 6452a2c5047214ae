package api

import "github.com/tidemill/tidemill/serve/api/operation"

// Of the configuration.
var (
	ReloadConfig = operation.Act[operation.None, Reload]("reloadConfig", "config/reload",
		"Read the configuration again, from where it came at the start, and apply what has changed while everything runs. It is all or nothing: where anything is wrong, the answer says what, and everything stays as it was. What needs a restart is named, and stays as it was. When it answers, nothing is sent to a partner that was removed.")
	PreviewReload = operation.View[operation.None, Reload]("previewReload", "config/reload",
		"Say what a reload of the configuration would change now, and change nothing.")
)

// Reload is what a reload changes. Secrets are not in it, only that they changed.
type Reload struct {
	File    string          `json:"file,omitempty"` // that was read; left out: none
	Applied []SettingChange `json:"applied"`        // while it runs
	Restart []SettingChange `json:"needs_restart"`  // these stay as they were
}

// SettingChange is a setting that is another one.
type SettingChange struct {
	Setting string `json:"setting"`          // of an element of a list with its name: delivery.partners[shop].timeout
	What    string `json:"what"`             // changed; added or removed, of an element
	Before  string `json:"before,omitempty"` // left out: none, or it is an element
	After   string `json:"after,omitempty"`
}
