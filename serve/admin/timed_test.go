package admin_test

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/serve/admin"
)

// Each operation's time is counted by its status, refusals too; a stream's is how long somebody looked, and is not.
func TestOperationsAreTimed(t *testing.T) {
	metrics := prometheus.NewRegistry()
	d := newDesk(t, admin.Parts{Metrics: metrics})
	defer d.api.Close()
	for range 3 {
		d.ask(http.MethodGet, "me", "")
	}
	listen(t, d, t.Context(), "stream?topic=overview").end()
	d.ask(http.MethodGet, "history/none?span=2h", "")
	all, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range all {
		if f.GetName() != "tidemill_api_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			counts[labels["operation"]+" "+labels["code"]] = m.GetHistogram().GetSampleCount()
		}
	}
	if len(counts) != 2 || counts["getMe 200"] != 3 || counts["getHistory 400"] != 1 {
		t.Errorf("timed were %v", counts)
	}
}
