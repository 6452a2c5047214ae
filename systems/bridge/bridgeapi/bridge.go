// Package bridgeapi is what the API does of the bridge.
package bridgeapi

import (
	"net/http"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// API does what the API does of the bridge.
type API struct {
	Entries http.Handler // takes entries into the embedded stream
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{{Description: &SendEntries.Description, Serve: func(w http.ResponseWriter, r *http.Request) error {
		a.Entries.ServeHTTP(w, r)
		return nil
	}}}
}
