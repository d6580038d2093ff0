// Package chart draws measurements as SVG pictures that read well on a light and on a dark page: a Picture of one line chart,
// and a Sheet of many small charts over time.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// Picture is a line chart of medians.
type Picture struct {
	Title, Note string
	X, Y        Axis
	Lines       []Line // the first one is drawn as the upper one
}

// Line is a line of a Picture.
type Line struct {
	Name   string
	Points []Point // from left to right
}

// Point is a median at X with its minimum and maximum.
type Point struct{ X, Y, Least, Most float64 }

// The area of the lines in a picture of 720 by 400 pixels. Points keep a distance from its sides, because their labels
// are wider.
const left, right, top, bottom, inset = 76.0, 620.0, 84.0, 340.0, 26.0

// dot is a point in pixels, with its minimum, maximum and label.
type dot struct {
	X, Y, Least, Most, LabelAt float64
	Label                      string
}

// curve is a line in pixels.
type curve struct {
	Path   string
	Dots   []dot
	Name   string
	NameAt float64
}

// Draw returns the picture as SVG. It fails if a line has less than two points, or if a value is not above 0.
func (p Picture) Draw() ([]byte, error) {
	var xs, ys []float64
	for _, l := range p.Lines {
		if len(l.Points) < 2 {
			return nil, fmt.Errorf("the line %q has %d points; measure more", l.Name, len(l.Points))
		}
		for _, at := range l.Points {
			xs, ys = append(xs, at.X), append(ys, at.Least, at.Most)
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	if slices.Min(ys) <= 0 {
		return nil, errors.New("what was measured is 0")
	}
	p.X.start, p.X.end, p.Y.start, p.Y.end = left+inset, right-inset, bottom, top
	p.X.span(xs)
	rows := p.Y.span(ys)
	drawn := struct {
		Picture
		Across, Up []mark
		Break      float64 // between 0 and the next number; 0: none
		Curves     []curve
	}{Picture: p, Across: p.Y.marks(rows), Up: p.X.marks(xs)}
	if p.X.Log && xs[0] == 0 {
		drawn.Break = (p.X.at(0) + p.X.at(xs[1])) / 2
	}
	for i, l := range p.Lines {
		drawn.Curves = append(drawn.Curves, p.curve(l, i > 0))
	}
	spreadLabels(drawn.Curves)
	var out bytes.Buffer
	err := pictureSVG.Execute(&out, drawn)
	return out.Bytes(), err
}

// curve returns a line with its labels above or below.
func (p Picture) curve(l Line, below bool) curve {
	c := curve{Name: l.Name}
	var path []string
	for _, at := range l.Points {
		d := dot{X: p.X.at(at.X), Y: p.Y.at(at.Y), Least: p.Y.at(at.Least), Most: p.Y.at(at.Most), Label: p.Y.Text(at.Y)}
		if d.LabelAt = d.Most - 9; below {
			d.LabelAt = d.Least + 19
		}
		c.Dots, c.NameAt = append(c.Dots, d), d.Y+4
		path = append(path, fmt.Sprintf("%.1f,%.1f", d.X, d.Y))
	}
	c.Path = strings.Join(path, " ")
	return c
}

// spreadLabels moves the names of curves down so that they do not overlap.
func spreadLabels(curves []curve) {
	for i := 1; i < len(curves); i++ {
		curves[i].NameAt = max(curves[i].NameAt, curves[i-1].NameAt+16)
	}
}

var pictureSVG = newSVG(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 400" role="img" aria-label="{{.Title}}">
{{template "style" 13}}<style>
text { text-anchor: middle }
polyline { stroke-width: 2.5 }
</style>
<rect class="page" width="720" height="400" rx="6"/>
<text class="title" x="20" y="30">{{.Title}}</text>
<text class="start" x="20" y="50">{{.Note}}</text>
<text class="start" x="20" y="72">{{.Y.Name}}</text>
{{range .Across}}<line class="grid" x1="76" x2="620" y1="{{printf "%.1f" .At}}" y2="{{printf "%.1f" .At}}"/><text class="end" x="66" y="{{printf "%.1f" .At}}" dy="4">{{.Text}}</text>
{{end}}<line class="axis" x1="76" x2="620" y1="340" y2="340"/>
{{with .Break}}<path class="page" d="M{{printf "%.1f" .}} 340m-3 6l4 -12h6l-4 12z"/><path class="axis" d="M{{printf "%.1f" .}} 340m-3 6l4 -12m6 0l-4 12"/>
{{end}}{{range .Up}}<line class="axis" x1="{{printf "%.1f" .At}}" x2="{{printf "%.1f" .At}}" y1="340" y2="345"/><text x="{{printf "%.1f" .At}}" y="361">{{.Text}}</text>
{{end}}<text x="348" y="385">{{.X.Name}}</text>
{{range $i, $c := .Curves}}<polyline class="c{{$i}}" points="{{$c.Path}}"/>
{{range $c.Dots}}<line class="range c{{$i}}" x1="{{printf "%.1f" .X}}" x2="{{printf "%.1f" .X}}" y1="{{printf "%.1f" .Least}}" y2="{{printf "%.1f" .Most}}"/><circle class="c{{$i}}" cx="{{printf "%.1f" .X}}" cy="{{printf "%.1f" .Y}}" r="4"/><text class="c{{$i}}" x="{{printf "%.1f" .X}}" y="{{printf "%.1f" .LabelAt}}">{{.Label}}</text>
{{end}}<text class="name c{{$i}}" x="614" y="{{printf "%.1f" $c.NameAt}}">{{$c.Name}}</text>
{{end}}</svg>
`)

// newSVG returns a template that can call the template "style" with the size of its texts.
func newSVG(text string) *template.Template {
	return template.Must(template.Must(template.New("").Parse(style)).Parse(text))
}

// style has the colours of both kinds of pages. c0 to c5 are those of lines, bad and good those of states.
const style = `{{define "style"}}<style>
.page { fill: #ffffff }
text { font: {{.}}px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #59636e }
.title { font-size: 16px; font-weight: 600; fill: #1f2328; text-anchor: start }
.start, .name { text-anchor: start }
.end { text-anchor: end }
.mid { text-anchor: middle }
.name { font-weight: 600 }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
polyline, .line { fill: none; stroke-width: 1.5; stroke-linejoin: round }
.range { stroke-width: 1.5 }
.band { fill: #59636e; fill-opacity: .13 }
.c0 { stroke: #bc4c00 } .c1 { stroke: #0969da } .c2 { stroke: #1a7f37 } .c3 { stroke: #8250df } .c4 { stroke: #cf222e } .c5 { stroke: #0e7c86 }
circle.c0, text.c0 { fill: #bc4c00; stroke: none } circle.c1, text.c1 { fill: #0969da; stroke: none }
.good { fill: #1a7f37; fill-opacity: .35 } .bad { fill: #cf222e }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 }
text { fill: #9198a1 }
.title { fill: #f0f6fc }
.grid { stroke: #2f353d }
.axis { stroke: #9198a1 }
.band { fill: #9198a1; fill-opacity: .18 }
.c0 { stroke: #f0883e } .c1 { stroke: #4493f8 } .c2 { stroke: #3fb950 } .c3 { stroke: #ab7df8 } .c4 { stroke: #f85149 } .c5 { stroke: #39c5cf }
circle.c0, text.c0 { fill: #f0883e; stroke: none } circle.c1, text.c1 { fill: #4493f8; stroke: none }
.good { fill: #3fb950; fill-opacity: .35 } .bad { fill: #f85149 }
}
</style>
{{end}}`
