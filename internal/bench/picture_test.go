package bench_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
)

// picture is a line chart.
type picture struct {
	Title, Note string
	X, Y        axis
	Lines       []line // the first one is drawn as the upper one
}

// axis is the x or y axis. A linear axis begins at 0; on a logarithmic axis 0 is drawn at a power of ten below all
// other numbers.
type axis struct {
	Name string
	Text func(float64) string
	Log  bool

	low, high  float64 // numbers, or their logarithms
	start, end float64 // pixels
}

type line struct {
	Name   string
	Points []point // from left to right
}

// point is a median at X with its minimum and maximum.
type point struct{ X, Y, Least, Most float64 }

// The area of the lines in a picture of 720 by 400 pixels. Points keep a distance from its sides, because their labels
// are wider.
const left, right, top, bottom, inset = 76.0, 620.0, 84.0, 340.0, 26.0

// mark is a text at a position.
type mark struct {
	At   float64
	Text string
}

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

// draw returns the picture as SVG.
func (p picture) draw() ([]byte, error) {
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
		picture
		Across, Up []mark
		Break      float64 // between 0 and the next number; 0: none
		Curves     []curve
	}{picture: p, Across: p.Y.marks(rows), Up: p.X.marks(xs)}
	if p.X.Log && xs[0] == 0 {
		drawn.Break = (p.X.at(0) + p.X.at(xs[1])) / 2
	}
	for i, l := range p.Lines {
		drawn.Curves = append(drawn.Curves, p.curve(l, i > 0))
	}
	spreadLabels(drawn.Curves)
	var out bytes.Buffer
	err := svg.Execute(&out, drawn)
	return out.Bytes(), err
}

// span sets the range of the axis and returns the round numbers to mark along y.
func (a *axis) span(numbers []float64) (even []float64) {
	least, limit := math.Inf(1), slices.Max(numbers)
	for _, n := range numbers {
		if n > 0 {
			least = min(least, n)
		}
	}
	switch {
	case !a.Log:
		step := axisSteps(limit/4, limit/4)[0]
		for n := 0.0; n < limit+step; n += step {
			even = append(even, n)
		}
		a.high = even[len(even)-1]
	case a.start > a.end: // along y
		even = axisSteps(least/headroom, limit*headroom)
		a.low, a.high = math.Log10(even[0]), math.Log10(even[len(even)-1])
	default:
		a.low, a.high = math.Log10(least), math.Log10(limit)
		if slices.Contains(numbers, 0) {
			a.low--
		}
	}
	return even
}

// headroom is the minimum factor between a number on a logarithmic axis and the first or last mark: the number's label
// needs space.
const headroom = 1.3

// axisSteps returns 1, 2 and 5 times powers of ten, from the last one not above least to the first one not below most.
func axisSteps(least, limit float64) (all []float64) {
	for unit := math.Pow(10, math.Floor(math.Log10(least))); ; unit *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if n *= unit; n <= least {
				all = all[:0]
			}
			if all = append(all, n); n >= limit {
				return all
			}
		}
	}
}

// at returns the position of a number.
func (a *axis) at(n float64) float64 {
	part := n
	if a.Log {
		part = a.low
		if n > 0 {
			part = math.Log10(n)
		}
	}
	return a.start + (a.end-a.start)*(part-a.low)/(a.high-a.low)
}

func (a *axis) marks(numbers []float64) (all []mark) {
	for _, n := range numbers {
		all = append(all, mark{a.at(n), a.Text(n)})
	}
	return all
}

// curve returns a line with its labels above or below.
func (p picture) curve(l line, below bool) curve {
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

var svg = template.Must(template.New("").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 400" role="img" aria-label="{{.Title}}">
<style>
.page { fill: #ffffff }
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #59636e; text-anchor: middle }
.title { font-size: 16px; font-weight: 600; fill: #1f2328; text-anchor: start }
.start, .name { text-anchor: start }
.end { text-anchor: end }
.name { font-weight: 600 }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
polyline { fill: none; stroke-width: 2.5; stroke-linejoin: round }
.range { stroke-width: 1.5 }
.c0 { stroke: #bc4c00 } .c1 { stroke: #0969da }
circle.c0, text.c0 { fill: #bc4c00; stroke: none } circle.c1, text.c1 { fill: #0969da; stroke: none }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 }
text { fill: #9198a1 }
.title { fill: #f0f6fc }
.grid { stroke: #2f353d }
.axis { stroke: #9198a1 }
.c0 { stroke: #f0883e } .c1 { stroke: #4493f8 }
circle.c0, text.c0 { fill: #f0883e } circle.c1, text.c1 { fill: #4493f8 }
}
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
`))
