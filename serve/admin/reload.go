package admin

import (
	"context"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// reloading are the operations of the configuration.
func (a *API) reloading() Room {
	return Room{Missing: in(a.Reload != nil, "this instance does not run, and has nothing to reload: start it with `tidemill run`"), Does: []operation.Handler{
		api.ReloadConfig.By(a.reload), api.PreviewReload.By(a.previewReload)}}
}

func (a *API) reload(ctx context.Context, _ *operation.None) (api.Reload, error) {
	done, err := a.Reload(ctx, false)
	if err == nil {
		operation.Note(ctx, nil, done)
	}
	return done, err
}

func (a *API) previewReload(ctx context.Context, _ *operation.None) (api.Reload, error) {
	return a.Reload(ctx, true)
}
