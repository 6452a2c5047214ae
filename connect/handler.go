package connect

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/page"
)

// handle puts together what the common listener answers: the API, the console and what operators ask
// for, and the endpoints of the systems.
func (i *Instance) handle(parts *admin.Parts) error {
	parts.Uses, parts.Now = i.Uses, i.Now
	if i.options.Load != nil {
		parts.Reload = i.Reload
	}
	api := admin.New(*parts)
	i.OnClose(api.Close)
	i.Loops = append(i.Loops, api.Sample())
	i.operate(api)
	if parts.This.Store != nil {
		i.Loops = append(i.Loops, api.Heartbeat())
		i.shared.beat = api.Beat
	}
	i.Operator, i.inside = api.Admits, api.Inside()
	i.mux.Handle(admin.Prefix, api)
	if set := i.Config.Console; set.Enabled {
		pages, err := console.New(console.Parts{Gate: api.Gate(), SignIn: api.SignIn(), Systems: i.pages, Admit: api.Admit, Parts: page.Parts{API: operation.Inside(api.Inside()), Operations: api.Operations(), Once: api.Once != nil,
			Base: set.Base, Name: set.Name, Environment: set.Environment, Colour: set.Colour, Log: i.Log, Now: i.Now}})
		if err != nil {
			return err
		}
		i.mux.Handle(console.Prefix, pages)
	}
	i.Liveness(i.mux)
	i.mux.Handle("GET /metrics", i.MetricsHandler())
	profiles := http.NewServeMux()
	profiles.HandleFunc("GET /debug/pprof/", pprof.Index)
	profiles.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	i.mux.Handle("/debug/pprof/", api.GuardByToken(profiles))
	return nil
}

// ServeHTTP answers what the common listener is asked.
func (i *Instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, _ := i.whose(r.URL.Path)
	h.ServeHTTP(w, r)
}

// ours says whether a path is of the process itself, and not of a system.
func ours(path string) bool {
	return path == "/livez" || path == "/readyz" || path == "/metrics" || strings.HasPrefix(path, admin.Prefix) || strings.HasPrefix(path+"/", console.Prefix) || strings.HasPrefix(path, "/debug/pprof/")
}

// whose answers a path, and whether who asks is a probe or an operator: the first system that serves
// it, else the process itself, else the system that takes all that is left. It goes by the path as it
// is: http.ServeMux would redirect paths with double slashes, which SDKs take for an error or for
// success.
func (i *Instance) whose(path string) (h http.Handler, operators bool) {
	var rest http.Handler = i.mux // which answers that there is nothing
	for n := range i.endpoints {
		switch e := &i.endpoints[n]; {
		case e.Serves == nil:
			rest = e.Handler
		case e.Serves(path):
			return e.Handler, e.Operators
		}
	}
	if ours(path) {
		return i.mux, true
	}
	return rest, false
}

// reserved says whether a request is answered though all connections are at work.
func (i *Instance) reserved(r *http.Request) bool {
	_, operators := i.whose(r.URL.Path)
	return operators || r.URL.Path == "/health" || r.URL.Path == "/ready"
}
