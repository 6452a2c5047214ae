// Package bridgeapi is what the API does of the bridge.
package bridgeapi

import (
	"context"
	"net/http"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// API does what the API does of the bridge.
type API struct {
	Status  func(context.Context) (Bridge, error)
	Entries http.Handler // takes entries into the embedded stream; nil: the stream is in Redis
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{
		GetBridge.By(func(ctx context.Context, _ *operation.None) (Bridge, error) { return a.Status(ctx) }),
		{Description: &SendEntries.Description, Serve: func(w http.ResponseWriter, r *http.Request) error {
			if a.Entries == nil {
				return operation.Refuse(http.StatusNotFound, "the embedded bridge does not run in this instance: write into the stream in Redis with XADD")
			}
			a.Entries.ServeHTTP(w, r)
			return nil
		}},
	}
}
