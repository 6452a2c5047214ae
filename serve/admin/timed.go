package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// took is how long operations take, by operation and status.
type took struct{ *prometheus.HistogramVec }

func newTook(to prometheus.Registerer) took {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemill_api_seconds",
		Help:    "Time that an operation of the API took, also for a page of the console, by its name and the status of its answer; not of streams.",
		Buckets: []float64{.005, .025, .1, .5, 2, 10}}, []string{"operation", "code"})
	if to != nil {
		to.MustRegister(h)
	}
	return took{h}
}

// of measures an operation. A stream takes as long as somebody looks.
func (t took) of(d *operation.Description, do http.HandlerFunc) http.HandlerFunc {
	if d.Events {
		return do
	}
	return promhttp.InstrumentHandlerDuration(t.MustCurryWith(prometheus.Labels{"operation": d.ID}), do)
}
