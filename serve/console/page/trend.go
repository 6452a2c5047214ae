package page

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
)

// Trend is how something went, as a line and as numbers.
type Trend struct {
	api.History
	In, Out, Failed string // points of lines in a box of 600 by 80
	Most            uint64 // the most of one step, which the box is as high as
	SumIn, SumOut   uint64
	SumFailed       uint64

	Late              string // the line of how long the oldest has waited, in a box of the same size
	LateNow, LateMost float64

	Rows []api.Point // the same as a table, in steps of five minutes or an hour: at most 25
}

const (
	trendWide = 600
	trendHigh = 80
)

// longSpan is the span of a page that shows more than the last hour.
const longSpan = "24h"

// LongSpan says whether a page shows how something went for a day, and not for an hour.
func (v *Visit) LongSpan() bool { return v.Query().Get("span") == longSpan }

// TrendOf is the history of the last hour, or of the day that the address asks for. A series that is
// not kept is a problem.
func TrendOf(v *Visit, series string) Part[*Trend] {
	return Look(v, func(ctx context.Context) (*Trend, error) {
		q := &api.HistoryOf{Series: series}
		if v.LongSpan() {
			q.Span = longSpan
		}
		h, err := api.GetHistory.Call(ctx, v.API, q)
		return newTrend(h), err
	})
}

func newTrend(h api.History) *Trend {
	t := &Trend{History: h}
	for _, p := range h.Points {
		t.Most = max(t.Most, p.In, p.Out, p.Failed)
		t.LateMost, t.LateNow = max(t.LateMost, p.Oldest), p.Oldest
		t.SumIn, t.SumOut, t.SumFailed = t.SumIn+p.In, t.SumOut+p.Out, t.SumFailed+p.Failed
	}
	t.Rows = rowsOf(h.Points)
	if len(h.Points) < 2 {
		return t
	}
	begin, end := h.Points[0].At, h.Points[len(h.Points)-1].At
	line := func(most float64, of func(api.Point) float64) string {
		var b strings.Builder
		for _, p := range h.Points {
			x, y := float64(p.At.Sub(begin))/float64(end.Sub(begin))*trendWide, 0.0
			if most > 0 {
				y = of(p) / most * (trendHigh - 4)
			}
			fmt.Fprintf(&b, "%.1f,%.1f ", x, trendHigh-2-y)
		}
		return b.String()
	}
	count := func(of func(api.Point) uint64) string {
		return line(float64(t.Most), func(p api.Point) float64 { return float64(of(p)) })
	}
	t.In, t.Out, t.Failed = count(func(p api.Point) uint64 { return p.In }), count(func(p api.Point) uint64 { return p.Out }), count(func(p api.Point) uint64 { return p.Failed })
	t.Late = line(t.LateMost, func(p api.Point) float64 { return p.Oldest })
	return t
}

// rowsOf are points in larger steps: what came and went in each, and how long the oldest waited at most.
func rowsOf(points []api.Point) (rows []api.Point) {
	step := 5 * time.Minute
	if n := len(points); n > 0 && points[n-1].At.Sub(points[0].At) > 2*time.Hour {
		step = time.Hour
	}
	for _, p := range points {
		p.At = p.At.Truncate(step)
		if n := len(rows); n > 0 && rows[n-1].At.Equal(p.At) {
			r := &rows[n-1]
			r.In, r.Out, r.Failed, r.Oldest = r.In+p.In, r.Out+p.Out, r.Failed+p.Failed, max(r.Oldest, p.Oldest)
		} else {
			rows = append(rows, p)
		}
	}
	return rows
}
