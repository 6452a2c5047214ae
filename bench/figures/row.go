package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Row is a line of a table: a name, and cells of nine characters.
type Row struct{ b strings.Builder }

// NewRow begins a row with a name of this width.
func NewRow(width int, name string) *Row {
	r := new(Row)
	fmt.Fprintf(&r.b, "%-*s", width, name)
	return r
}

// Head is a row of column names; first is above the names of rows.
func Head(width int, first string, columns ...string) string {
	r := NewRow(width, first)
	for _, c := range columns {
		fmt.Fprintf(&r.b, " %9s", c)
	}
	return r.b.String()
}

// Cell adds a number; 0 does not apply, and leaves the cell empty.
func (r *Row) Cell(format string, v float64) {
	text := ""
	if v != 0 {
		text = fmt.Sprintf(format, v)
	}
	fmt.Fprintf(&r.b, " %9s", text)
}

// Quantiles adds a cell for each.
func (r *Row) Quantiles(q *Quantiles) {
	for _, v := range []float64{q.P50, q.P90, q.P99, q.P999, q.Max} {
		r.Cell("%.2f", v)
	}
}

// Text adds text in place of cells.
func (r *Row) Text(format string, args ...any) { fmt.Fprintf(&r.b, format, args...) }

// End is the line, with the problem behind it.
func (r *Row) End(problem string) string {
	if problem != "" {
		fmt.Fprintf(&r.b, "  PROBLEM: %s", problem)
	}
	return strings.TrimRight(r.b.String(), " ")
}

// Note adds an error to a problem; nil adds nothing.
func Note(problem *string, err error) {
	switch {
	case err == nil:
	case *problem == "":
		*problem = err.Error()
	default:
		*problem += "; " + err.Error()
	}
}

// JSON writes a result as a line.
func JSON(w io.Writer, result any) {
	if b, err := json.Marshal(result); err == nil {
		_, _ = fmt.Fprintf(w, "%s\n", b)
	}
}

// Medians fills each exported float64 of a struct with its median over all rounds in which it
// is not 0.
func Medians[T any](into *T, rounds []*T) {
	to := reflect.ValueOf(into).Elem()
	for i := range to.NumField() {
		if f := to.Field(i); f.Kind() != reflect.Float64 || !f.CanSet() {
			continue
		}
		var v []float64
		for _, r := range rounds {
			if x := reflect.ValueOf(r).Elem().Field(i).Float(); x != 0 {
				v = append(v, x)
			}
		}
		to.Field(i).SetFloat(Median(v))
	}
}
