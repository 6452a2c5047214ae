package growth

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
)

// kept are the rows of -with.
func (o *options) kept() (rows []*result, err error) {
	if o.with == "" {
		return nil, nil
	}
	for file := range strings.SplitSeq(o.with, ",") {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			r := new(result)
			if err := json.Unmarshal(lines.Bytes(), r); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if r.Size > 0 { // and not the line that says where it was measured
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// draw writes the plot of rows, if one is wanted.
func (o *options) draw(rows []*result) error {
	if o.plot == "" {
		return nil
	}
	return os.WriteFile(o.plot, plot(rows), 0o644)
}

// point is a measurement at a size.
type point struct{ size, value float64 }

// line is the points of one name, by size.
type line struct {
	name   string
	points []point
}

// panels are the lines of the two parts of the plot: of work over that of a fresh store, and of pages.
func panels(rows []*result) (work, pages []line) {
	add := func(to *[]line, name string, size, value float64) {
		if value <= 0 {
			return
		}
		i := slices.IndexFunc(*to, func(l line) bool { return l.name == name })
		if i < 0 {
			i = len(*to)
			*to = append(*to, line{name: name})
		}
		l := &(*to)[i]
		l.points = append(l.points, point{size, value})
		slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.size, b.size) })
	}
	for _, r := range rows {
		_, what, ok := strings.Cut(r.Name, ": ")
		switch {
		case !ok:
			add(&work, r.Of, r.Size, r.CPUOf)
		case strings.HasPrefix(what, "events ") || strings.HasPrefix(what, "search "):
			add(&pages, what, r.Size, r.P50)
		}
	}
	return work, pages
}

// Where the parts of the plot are.
const (
	plotWidth  = 960
	plotLeft   = 60
	plotRight  = 640 // labels follow
	partHeight = 300
	partTop    = 50
	partBottom = 260
	colours    = 9
)

// plot draws rows as SVG: text is text, and its colours are for light and dark.
func plot(rows []*result) []byte {
	work, pages := panels(rows)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif">
  <title id="title">Cost against size</title>
  <desc id="desc">Above: the CPU time of the same work at growing sizes over that on a fresh store, measured in turns; what does not grow stays at 1. Below: the median time of a page.</desc>
  <style>
    .name { fill: #1c2733; font-size: 15px; font-weight: 600 }
    .text, .label { fill: #44515f; font-size: 12px }
    .grid { stroke: #d5dae1; stroke-width: 1 }
    .one { stroke: #8794a5; stroke-width: 1.5; stroke-dasharray: 5 4 }
    .line { fill: none; stroke-width: 2 }
%s    @media (prefers-color-scheme: dark) {
      .name { fill: #e7edf3 }
      .text, .label { fill: #a9b6c3 }
      .grid { stroke: #2c3743 }
      .one { stroke: #66778a }
%s    }
  </style>
`, plotWidth, 2*partHeight, colourRules("    ", 38), colourRules("      ", 65))
	drawPart(&b, 0, "CPU of the same work, over that on a fresh store", "", work, true)
	drawPart(&b, partHeight, "A page, median in ms", " ms", pages, false)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// colourRules are those of lines and their points, of a lightness in per cent.
func colourRules(indent string, light int) string {
	var b strings.Builder
	for i := range colours {
		fmt.Fprintf(&b, "%[1]s.c%[2]d { stroke: hsl(%[3]d 60%% %[4]d%%) } .f%[2]d { fill: hsl(%[3]d 60%% %[4]d%%) }\n", indent, i, (210+i*360/colours)%360, light)
	}
	return b.String()
}

// drawPart draws lines below each other's names, from a height on. ratio: there is a line at 1.
func drawPart(b *bytes.Buffer, top int, title, unit string, lines []line, ratio bool) {
	fmt.Fprintf(b, "  <text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", plotLeft, top+28, html.EscapeString(title))
	first, last, most := math.Inf(1), 0.0, 0.0
	if ratio {
		most = 1.5
	}
	for _, l := range lines {
		for _, p := range l.points {
			first, last, most = min(first, p.size), max(last, p.size), max(most, p.value)
		}
	}
	if last == 0 {
		fmt.Fprintf(b, "  <text class=\"text\" x=\"%d\" y=\"%d\">not measured</text>\n", plotLeft, top+partTop+20)
		return
	}
	grid := tick(most)
	most = math.Ceil(most/grid) * grid
	from, to := math.Floor(math.Log10(first)), math.Ceil(math.Log10(last)+1e-9)
	if to <= from {
		to = from + 1
	}
	x := func(size float64) float64 {
		return plotLeft + (math.Log10(size)-from)/(to-from)*(plotRight-plotLeft)
	}
	y := func(v float64) float64 { return float64(top) + partBottom - v/most*(partBottom-partTop) }
	for v := 0.0; v <= most+grid/2; v += grid {
		fmt.Fprintf(b, "  <path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"text\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", plotLeft, y(v), plotRight, plotLeft-8, y(v)+4, fmt.Sprintf("%.4g", v))
	}
	for e := from; e <= to; e++ {
		fmt.Fprintf(b, "  <path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"text\" x=\"%.1[1]f\" y=\"%[4]d\" text-anchor=\"middle\">%[5]s</text>\n", x(math.Pow(10, e)), top+partTop, top+partBottom, top+partBottom+18, short(math.Pow(10, e)))
	}
	if ratio {
		fmt.Fprintf(b, "  <path class=\"one\" d=\"M%d %.1fH%d\"/>\n", plotLeft, y(1), plotRight)
	}
	var way []float64 // where labels are
	for _, l := range lines {
		way = append(way, y(l.points[len(l.points)-1].value))
	}
	way = apart(way, 16, float64(top+partTop), float64(top+partBottom))
	for i, l := range lines {
		c := i % colours
		var d strings.Builder
		for j, p := range l.points {
			fmt.Fprintf(&d, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], x(p.size), y(p.value))
		}
		fmt.Fprintf(b, "  <path class=\"line c%d\" d=\"%s\"/>\n", c, &d)
		for _, p := range l.points {
			fmt.Fprintf(b, "  <circle class=\"f%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s at %.0f: %.2f%s</title></circle>\n", c, x(p.size), y(p.value), html.EscapeString(l.name), p.size, p.value, unit)
		}
		end := l.points[len(l.points)-1]
		fmt.Fprintf(b, "  <path class=\"grid\" d=\"M%.1f %.1fL%d %.1f\"/><circle class=\"f%d key\" cx=\"%d\" cy=\"%.1f\" r=\"4\"/><text class=\"label\" x=\"%d\" y=\"%.1f\">%s, %s%s</text>\n",
			x(end.size)+5, y(end.value), plotRight+14, way[i], c, plotRight+20, way[i], plotRight+30, way[i]+4, html.EscapeString(l.name), fmt.Sprintf("%.2f", end.value), unit)
	}
}

// tick is how far lines of the grid are from each other, so that there are some four of them.
func tick(most float64) float64 {
	for unit := math.Pow(10, math.Floor(math.Log10(most))-1); ; unit *= 10 {
		for _, by := range []float64{1, 2, 2.5, 5} {
			if most/(unit*by) <= 5 {
				return unit * by
			}
		}
	}
}

// short is a power of ten as people say it.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.0f M", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.0f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// apart moves heights so far that each is so far from the next, between two bounds.
func apart(at []float64, by, top, bottom float64) []float64 {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	moved := slices.Clone(at)
	low := top
	for _, i := range order {
		moved[i] = max(moved[i], low)
		low = moved[i] + by
	}
	high := bottom
	for _, i := range slices.Backward(order) {
		moved[i] = min(moved[i], high)
		high = moved[i] - by
	}
	return moved
}
