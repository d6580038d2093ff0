package ui

import (
	"fmt"
	"time"
	"unicode/utf8"

	"deadman/rules/document"
)

// timeAxis is a time axis from left to right. Its width adapts to the page: x positions are percentages of the width,
// and heights are pixels.
type timeAxis struct {
	Wide   bool // for wide pages; a page has both variants and shows the fitting one
	Points []axisPoint
	Combs  []repeatBar
	Cut    string // position of the requested time; empty: none
	Lead   string // end of the early-resolve window; empty: none
	Tail   string // start of the late-resolve window; empty: none
	Height int
	Text   string // text alternative
}

// axisPoint is a point on an axis.
type axisPoint struct {
	X      string
	Kind   string // starts, event, checks or ends; or a severity
	Tooth  bool   // a repetition of a step
	Label  string // empty: none
	Anchor string // end of the label that is at X
	LabelY int
	Later  bool // after the cut

	x float64
}

// repeatBar connects the repetitions of a step.
type repeatBar struct{ From, To, Kind string }

// axisEvent is an event to draw.
type axisEvent struct {
	after time.Duration // time since the start of the job; events are sorted by it
	kind  string
	label string
	step  int  // number of the step, from 1, equal for its repetitions; 0: no step
	later bool // after the cut
}

// Layout of an axis, in pixels and percent of the width.
const (
	axisLine    = 26 // y of the line
	axisLabels  = 54 // y of the first row of labels
	axisRow     = 19
	axisChar    = 6.8 // approximate width of a character
	axisLeft    = 4.0
	axisRight   = 96.0
	axisTail    = 86.0 // x of the last point before a late-resolve window
	roomWide    = 680  // width in pixels that labels are laid out for
	roomNarrow  = 300
	labelLength = 26
)

// timeAxes returns the axis for wide pages and the one for narrow pages. even spaces the points evenly, for unknown
// times.
func timeAxes(dots []axisEvent, even, held bool, cut time.Duration, text string) []timeAxis {
	return []timeAxis{
		newTimeAxis(dots, even, held, cut, text, true),
		newTimeAxis(dots, even, held, cut, text, false),
	}
}

func newTimeAxis(dots []axisEvent, even, held bool, cut time.Duration, text string, wide bool) timeAxis {
	a := timeAxis{Wide: wide, Text: text, Height: axisLabels}
	right := axisRight
	if held {
		right = axisTail
		a.Tail = percent(right)
	}
	rest := dots
	if n := len(dots); !held && n > 2 && dots[n-1].kind == "ends" {
		rest, right = dots[:n-1], axisTail // a long late-resolve window would leave no space for the other points
	}
	places := spread(rest, even, right, wide)
	if len(rest) < len(dots) {
		a.Tail = percent(places[len(places)-1])
		places = append(places, axisRight)
	}
	for i, m := range dots {
		p := axisPoint{X: percent(places[i]), Kind: m.kind, Label: clipped(m.label, labelLength), Later: m.later, x: places[i]}
		if m.step > 0 && i > 0 && dots[i-1].step == m.step {
			p.Tooth = true
			a.Combs = append(a.Combs, repeatBar{From: a.Points[i-1].X, To: p.X, Kind: m.kind})
		}
		a.Points = append(a.Points, p)
	}
	a.labels(wide)
	if cut > 0 {
		a.Cut = percent(between(dots, places, cut, right))
	}
	return a
}

// spread returns the positions of events in percent: proportional to time, with a minimum gap.
func spread(dots []axisEvent, even bool, right float64, wide bool) []float64 {
	gap := 7.0
	if wide {
		gap = 3.0
	}
	n := len(dots)
	places := make([]float64, n)
	if n < 2 {
		return append(places[:0], axisLeft)[:n]
	}
	gap = min(gap, (right-axisLeft)/float64(n-1))
	last := max(dots[n-1].after, 1)
	for i, m := range dots {
		places[i] = axisLeft + (right-axisLeft)*float64(m.after)/float64(last)
		if even {
			places[i] = axisLeft + (right-axisLeft)*float64(i)/float64(n-1)
		}
		if i > 0 {
			places[i] = max(places[i], places[i-1]+gap)
		}
	}
	places[n-1] = min(places[n-1], right)
	for i := n - 2; i >= 0; i-- {
		places[i] = min(places[i], places[i+1]-gap)
	}
	return places
}

// labels assigns rows to labels, so that labels do not overlap and the lines of labels further right do not cross
// them.
func (a *timeAxis) labels(wide bool) {
	room := float64(roomNarrow)
	if wide {
		room = roomWide
	}
	rows := make([]int, len(a.Points))
	for i := len(a.Points) - 1; i >= 0; i-- {
		p := &a.Points[i]
		if p.Label == "" {
			continue
		}
		x, width := p.x*room/100, axisChar*float64(utf8.RuneCountInString(p.Label))
		from, to := x, x+width
		if p.Anchor = "start"; to > room {
			p.Anchor, from, to = "end", x-width, x
		}
		for j := i + 1; j < len(a.Points); j++ {
			q := a.Points[j]
			if at := q.x * room / 100; q.Label != "" && (at < to+axisChar || q.Anchor == "end" && at-axisChar*float64(utf8.RuneCountInString(q.Label)) < to) && at > from {
				rows[i] = max(rows[i], rows[j]+1)
			}
		}
		p.LabelY = axisLabels + axisRow*rows[i]
		a.Height = max(a.Height, p.LabelY+axisRow/2)
	}
}

// between returns the position of a time on an axis, interpolated between its neighbors.
func between(dots []axisEvent, places []float64, at time.Duration, right float64) float64 {
	for i, m := range dots {
		switch {
		case m.after <= at:
		case i == 0:
			return places[0]
		default:
			before := dots[i-1].after
			part := float64(at-before) / float64(max(m.after-before, 1))
			return places[i-1] + (places[i]-places[i-1])*part
		}
	}
	return min(right+2, 99)
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

// shape returns the SVG path of a point. Each color has its own shape.
func shape(kind string, tooth bool) string {
	switch {
	case tooth:
		return "M-1.5-7h3v14h-3z"
	case kind == "warning", kind == "undetermined":
		return "M0-8 8 6H-8z"
	case kind == "error", kind == "gave_up", kind == "expired":
		return "M-6-6H6V6H-6z"
	case kind == "critical":
		return "M0-9 9 0 0 9-9 0z"
	case kind == "check":
		return "M-.5-4h1v8h-1z"
	case kind == "ends":
		return "M-1.5-9h3v18h-3z"
	case kind == "event":
		return "M-5-7 6 0-5 7z"
	}
	return "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z"
}

// clipped shortens a text to n characters.
func clipped(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// sinceStart formats a time since the start of the job.
func sinceStart(after time.Duration) string {
	if after <= 0 {
		return "immediately"
	}
	return length(after)
}

// length formats a duration in its one or two largest units, such as "1 d 8 h".
func length(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.size, u.name)
		if i+1 < len(units) && d%u.size >= units[i+1].size {
			text += fmt.Sprintf(" %d %s", d%u.size/units[i+1].size, units[i+1].name)
		}
		return text
	}
	return document.Duration(d).String()
}
