package system

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
)

// Limits are those of a listener for senders.
func (h *Host) Limits() serve.Limits {
	c := &h.Config.HTTP
	trusted, _ := c.Proxies() // checked
	return serve.Limits{Connections: c.Connections, PerAddress: c.PerAddress, Trusted: trusted, Body: c.BodyTimeout}
}

// Endpoint is what all endpoints have whose clients show these projects' keys.
func (h *Host) Endpoint(keys project.Projects) endpoint.Options {
	return endpoint.Options{Projects: keys, TrustProxy: h.Limits().Trusted, Now: h.Now, Log: h.Log, Registerer: h.Metrics, Watch: h.Fates, Way: &h.Way, Tracer: h.Tracer}
}

// Liveness says whether the process lives and whether it takes events.
func (h *Host) Liveness(mux *http.ServeMux) {
	mux.Handle("GET /livez", Health(h.Live))
	mux.Handle("GET /readyz", Health(h.Takes))
}

// MetricsHandler shows the metrics of all.
func (h *Host) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(h.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Health answers probes.
func Health(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(err.Error() + "\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
}
