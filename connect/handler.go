package connect

import (
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/crm"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/entries"
	"github.com/tidemill/tidemill/serve/probe"
	"github.com/tidemill/tidemill/serve/records"
	"github.com/tidemill/tidemill/state/project"
)

// handle puts together what the common listener answers: the API and what operators ask
// for, and behind it the door of the events.
func (i *Instance) handle(parts *admin.Parts, door http.Handler) {
	parts.Uses = i.Uses
	api := admin.New(*parts)
	i.operator = api.Admits
	i.mux.Handle(admin.Prefix, api)
	i.liveness(i.mux)
	i.mux.Handle("GET /metrics", i.metricsHandler())
	profiles := http.NewServeMux()
	profiles.HandleFunc("GET /debug/pprof/", pprof.Index)
	profiles.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	i.mux.Handle("/debug/pprof/", api.GuardByToken(profiles))
	if i.entries != nil {
		i.mux.Handle(entries.Path, api.Guard(i.entries))
	}
	switch {
	case i.probes != nil:
		i.probes.Register(i.mux)
	case i.healthz != nil:
		i.mux.Handle("GET /healthz", i.healthz)
	}
	i.Handler = i.route(door)
}

// liveness says whether it lives and whether it takes events.
func (i *Instance) liveness(mux *http.ServeMux) {
	mux.Handle("GET /livez", health(i.live))
	mux.Handle("GET /readyz", health(i.takes))
}

func (i *Instance) metricsHandler() http.Handler {
	return promhttp.HandlerFor(i.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// ours says whether a path is of a probe or an operator.
func (i *Instance) ours(path string) bool {
	switch path {
	case "/livez", "/readyz", "/metrics":
		return true
	case entries.Path:
		return i.entries != nil
	case "/healthz":
		return i.healthz != nil || i.probes != nil
	}
	return i.probes != nil && slices.Contains(probe.Paths, path) || strings.HasPrefix(path, admin.Prefix) || strings.HasPrefix(path, "/debug/pprof/")
}

// route sends what operators ask for to ours and everything else to the door, by the path
// as it is: http.ServeMux would redirect paths with double slashes, which SDKs take for an
// error or for success.
func (i *Instance) route(door http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.events != nil && deliveryPath(r.URL.Path) {
			i.events.ServeHTTP(w, r)
			return
		}
		if i.business != nil && crm.Serves(r.URL.Path) {
			i.business.ServeHTTP(w, r)
			return
		}
		if i.records != nil && records.Serves(r.URL.Path) {
			i.records.ServeHTTP(w, r)
			return
		}
		if door == nil || i.ours(r.URL.Path) {
			i.mux.ServeHTTP(w, r)
			return
		}
		door.ServeHTTP(w, r)
	})
}

// endpoint is what all endpoints have whose clients show these projects' keys.
func (i *Instance) endpoint(keys project.Projects) endpoint.Options {
	return endpoint.Options{Projects: keys, TrustProxy: i.limits().Trusted, Now: i.options.Now, Log: i.options.Log, Registerer: i.Metrics}
}
