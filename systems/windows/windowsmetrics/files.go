package windowsmetrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
)

// Files is a collector of one intake of windows that reads files, read when Prometheus asks:
// how many files there are and were, and rows that are no records.
type Files struct {
	source        *gdelt.Source
	count, idless *prometheus.Desc
}

// NewFiles makes the collector of the intake whose pipeline is called so.
func NewFiles(pipeline string, s *gdelt.Source) *Files {
	labels := prometheus.Labels{"pipeline": pipeline}
	return &Files{s,
		prometheus.NewDesc("tidemill_windows_files", "Files, by state: open ones are being read, stuck ones cannot be read and have rows that have not ended, done ones were read, broken ones were refused.", []string{"state"}, labels),
		prometheus.NewDesc("tidemill_windows_files_idless_rows_total", "Rows of files that had no id and were skipped.", nil, labels)}
}

// Describe implements prometheus.Collector.
func (c *Files) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.count
	ch <- c.idless
}

// Collect implements prometheus.Collector.
func (c *Files) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metrics.LookTimeout)
	defer cancel()
	t, err := c.source.Totals(ctx)
	var reading []gdelt.Reading
	if err == nil {
		reading, err = c.source.Reading(ctx)
	}
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.count, err)
		return
	}
	stuck := 0
	for _, f := range reading {
		if f.Trouble != "" {
			stuck++
		}
	}
	for _, of := range []struct {
		state string
		files float64
	}{{"open", max(0, float64(t.Open)-float64(stuck))}, {"stuck", float64(stuck)}, {"done", float64(t.Done)}, {"broken", float64(t.Broken)}} {
		ch <- prometheus.MustNewConstMetric(c.count, prometheus.GaugeValue, of.files, of.state)
	}
	ch <- prometheus.MustNewConstMetric(c.idless, prometheus.CounterValue, float64(t.Idless))
}
