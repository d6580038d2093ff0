package chart

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Panel is one small chart.
type Panel struct {
	Title  string
	Unit   string // of Grafana: s, bytes, ops, reqps, percentunit; short or empty: a number
	States bool   // a value above 0 is a failure, drawn in a row
	Lines  []Series
}

// Series is a line over time.
type Series struct {
	Name   string
	Points []At
}

// At is a value after some seconds.
type At [2]float64

// The area of the lines of a panel, in pixels from the corner of its cell.
const (
	plotLeft   = 48.0
	plotTop    = 20.0
	plotHeight = 88.0
	stateLeft  = 96.0
	stateRow   = 13.0
	numberRow  = 11.0 // for the numbers of events
	maxSteps   = 2.5  // between values without a gap, or
	maxParts   = 50.0 // such a part of the time
	maxLines   = 6    // that a panel draws: those with the largest values
	tickHeight = 20.0
)

// plot is a panel that is being drawn.
type plot struct {
	strings.Builder
	left, bottom float64
	span         float64 // seconds
}

// x returns the position of a time.
func (p *plot) x(seconds float64) float64 { return p.left + (cellWidth-p.left)*seconds/p.span }

// draw returns the SVG of the panel, and its height.
func (p Panel) draw(s Sheet) (svg string, height float64) {
	moving, still, smaller := p.split()
	at := &plot{left: plotLeft, bottom: plotTop + plotHeight, span: s.Span}
	if p.States {
		at.left, at.bottom = stateLeft, plotTop+max(plotHeight, numberRow+stateRow*float64(len(moving)))
	}
	fmt.Fprintf(at, "<text class=\"head\" y=\"11\">%s</text>\n", html.EscapeString(cut(p.Title, cellWidth)))
	for i, e := range s.Events {
		x, width := at.x(e.Begin), max(at.x(e.End)-at.x(e.Begin), 1)
		fmt.Fprintf(at, "<rect class=\"band\" x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"%g\"/><text class=\"no\" x=\"%.1f\" y=\"%g\">%d</text>\n",
			x, plotTop, width, at.bottom-plotTop, x+width/2, plotTop+8, i+1)
	}
	if p.States {
		at.states(moving)
	} else {
		shown := moving
		if len(shown) == 0 {
			shown = p.Lines[:min(1, len(p.Lines))] // at 0, as all others
		}
		at.lines(shown, p.format())
	}
	fmt.Fprintf(at, "<path class=\"axis\" d=\"M%g %gH%.1f\"/>", at.left, at.bottom, cellWidth)
	times, texts := ticks(s.Span)
	for i, t := range times {
		x, class := at.x(t), "mid"
		if x > cellWidth-12 {
			x, class = cellWidth, "end"
		}
		fmt.Fprintf(at, "<text class=%q x=\"%.1f\" y=\"%g\">%s</text>", class, x, at.bottom+13, texts[i])
	}
	at.WriteString("\n")
	height = at.bottom + tickHeight
	if !p.States {
		height = at.legend(moving, height)
	}
	height = p.rest(at, still, smaller, height)
	return at.String(), height
}

// split returns the lines to draw, and the names of those that are 0 all the time, and of the smallest beyond the colours.
func (p Panel) split() (drawn []Series, still, smaller []string) {
	var moving []Series
	for _, l := range p.Lines {
		if l.most() > 0 {
			moving = append(moving, l)
		} else {
			still = append(still, l.Name)
		}
	}
	if len(moving) <= maxLines || p.States {
		return moving, still, nil
	}
	ranked := slices.Clone(moving)
	slices.SortStableFunc(ranked, func(a, b Series) int { return cmp.Compare(b.most(), a.most()) })
	for _, l := range moving {
		if slices.ContainsFunc(ranked[:maxLines], func(r Series) bool { return r.Name == l.Name }) {
			drawn = append(drawn, l)
		} else {
			smaller = append(smaller, l.Name)
		}
	}
	return drawn, still, smaller
}

func (s Series) most() float64 {
	most := 0.0
	for _, at := range s.Points {
		most = max(most, at[1])
	}
	return most
}

// format returns how a unit of Grafana is written.
func (p Panel) format() func(float64) string {
	switch p.Unit {
	case "s":
		return FormatSeconds
	case "bytes":
		return FormatBytes
	case "ops", "reqps":
		return func(n float64) string { return FormatCount(n) + " /s" }
	case "percentunit":
		return func(n float64) string { return decimals(n*100) + " %" }
	}
	return FormatCount
}

// lines draws lines over an axis from 0.
func (p *plot) lines(all []Series, format func(float64) string) {
	axis := Axis{Text: format, start: p.bottom, end: plotTop + numberRow}
	most := 0.0
	for _, l := range all {
		most = max(most, l.most())
	}
	if most == 0 { // an axis up to 1
		most = 1
	}
	step := axisSteps(most/2, most/2)[0]
	axis.high = step * math.Ceil(most/step)
	var marked []float64
	for n := 0.0; n <= axis.high*1.01; n += step {
		marked = append(marked, n)
	}
	for _, m := range axis.marks(marked) {
		fmt.Fprintf(p, "<path class=\"grid\" d=\"M%g %.1fH%.1f\"/><text class=\"end\" x=\"%g\" y=\"%.1f\">%s</text>", p.left, m.At, cellWidth, p.left-5, m.At+4, m.Text)
	}
	p.WriteString("\n")
	for i, l := range all {
		fmt.Fprintf(p, "<path class=\"line c%d\" d=\"%s\"/>\n", i, p.path(l, &axis))
	}
}

// path returns the line of a series, with gaps where values are missing.
func (p *plot) path(l Series, axis *Axis) string {
	var out strings.Builder
	gap := max(maxSteps*l.step(), p.span/maxParts)
	for i := 0; i < len(l.Points); {
		end := i + 1
		for end < len(l.Points) && l.Points[end][0]-l.Points[end-1][0] <= gap {
			end++
		}
		var part [][2]float64
		for _, at := range l.Points[i:end] {
			part = append(part, [2]float64{p.x(at[0]), axis.at(at[1])})
		}
		for j, at := range simplify(part) {
			command := "L"
			if j == 0 {
				command = "M"
			}
			fmt.Fprintf(&out, "%s%.1f %.1f", command, at[0], at[1])
		}
		if end == i+1 { // a single value
			out.WriteString("h1")
		}
		i = end
	}
	return out.String()
}

// step returns the usual distance of two values: the median.
func (s Series) step() float64 {
	var steps []float64
	for i := 1; i < len(s.Points); i++ {
		steps = append(steps, s.Points[i][0]-s.Points[i-1][0])
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// simplify removes points of a line that are within half a pixel of it (Douglas and Peucker).
func simplify(points [][2]float64) [][2]float64 {
	if len(points) < 3 {
		return points
	}
	first, last := points[0], points[len(points)-1]
	far, at := 0.0, 0
	for i, p := range points[1 : len(points)-1] {
		on := first[1] + (last[1]-first[1])*(p[0]-first[0])/(last[0]-first[0])
		if d := math.Abs(p[1] - on); d > far {
			far, at = d, i+1
		}
	}
	if far < 0.5 {
		return [][2]float64{first, last}
	}
	return append(simplify(points[:at+1]), simplify(points[at:])[1:]...)
}

// states draws a row for each series: red where the value is above 0.
func (p *plot) states(all []Series) {
	for i, l := range all {
		y, step := plotTop+numberRow+stateRow*float64(i), l.step()
		fmt.Fprintf(p, "<text class=\"end\" x=\"%g\" y=\"%.1f\">%s</text>", p.left-5, y+stateRow-3, html.EscapeString(l.Name))
		for j := 0; j < len(l.Points); {
			end := j
			for end < len(l.Points) && (l.Points[end][1] > 0) == (l.Points[j][1] > 0) && (end == j || l.Points[end][0]-l.Points[end-1][0] <= maxSteps*step) {
				end++
			}
			class := "good"
			if l.Points[j][1] > 0 {
				class = "bad"
			}
			begin, limit := p.x(l.Points[j][0]), p.x(min(l.Points[end-1][0]+step, p.span))
			fmt.Fprintf(p, "<rect class=%q x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", class, begin, y+1, limit-begin, stateRow-3)
			j = end
		}
		p.WriteString("\n")
	}
}

// legend names the lines from a height on, and returns the height below.
func (p *plot) legend(all []Series, y float64) float64 {
	x := 0.0
	for i, l := range all {
		name := cut(l.Name, cellWidth-16)
		width := 16 + widthOf(name) + 12
		if x > 0 && x+width-12 > cellWidth {
			x, y = 0, y+legendRow
		}
		fmt.Fprintf(p, "<path class=\"line c%d\" d=\"M%.0f %.0fh11\"/><text x=\"%.0f\" y=\"%.0f\">%s</text>", i, x, y+7, x+15, y+11, html.EscapeString(name))
		x += width
	}
	if len(all) > 0 {
		p.WriteString("\n")
		y += legendRow
	}
	return y
}

// rest names the lines that are not drawn, and returns the height below.
func (p Panel) rest(at *plot, still, smaller []string, y float64) float64 {
	write := func(text string) {
		fmt.Fprintf(at, "<text y=\"%.0f\">%s</text>\n", y+11, html.EscapeString(cut(text, cellWidth)))
		y += legendRow
	}
	if len(smaller) > 0 {
		write(fmt.Sprintf("%d smaller: %s", len(smaller), strings.Join(smaller, ", ")))
	}
	switch {
	case len(p.Lines) == 0:
		write("no values")
	case len(still) > 0 && p.States:
		write("always fine: " + strings.Join(still, ", "))
	case len(still) > 0:
		write("always 0: " + strings.Join(still, ", "))
	}
	return y
}
