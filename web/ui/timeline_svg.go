package ui

import (
	"fmt"
	"time"
	"unicode/utf8"

	"deadman/rules"
)

// timeAxis is what is said when, drawn from left to right. It is as wide as there is room: places are
// parts of its width in percent, and heights are pixels.
type timeAxis struct {
	Wide   bool // for a wide page; a page has one of each, and shows the one that fits
	Points []axisPoint
	Combs  []repeatBar
	Cut    string // where "by then" is; empty: nobody asked
	Lead   string // until where an early resolve is remembered; empty: none is
	Tail   string // from where the job is held; empty: it is not
	Height int
	Says   string // what there is to see, for those who don't
}

// axisPoint is one thing on an axis.
type axisPoint struct {
	X      string
	Kind   string // starts, event, looks or ends; or a severity
	Tooth  bool   // one of a comb
	Label  string // empty: it has none
	Anchor string // which end of the label is at X
	LabelY int
	Later  bool // it is after the cut

	x float64
}

// repeatBar is the line that joins the turns of one step.
type repeatBar struct{ From, To, Kind string }

// axisEvent is one thing that is to be drawn.
type axisEvent struct {
	after time.Duration // since the wait began; dots are in its order
	kind  string
	label string
	step  int  // turns of one step have the same number, from 1; 0: it is no step
	later bool // it is after the cut
}

// How an axis is drawn: pixels, and percent of the width.
const (
	axisLine    = 26 // where the line is, from the top
	axisLabels  = 54 // where the first row of labels is
	axisRow     = 19
	axisChar    = 6.8 // how wide a character of a label is, about
	axisLeft    = 4.0
	axisRight   = 96.0
	axisTail    = 86.0 // where the last point is, if the job is held after it
	roomWide    = 680  // the pixels that labels are laid out for
	roomNarrow  = 300
	labelLength = 26
)

// drawn are the dots on an axis for a wide page, and on one for a narrow page. even leaves the
// same distance between all: they are not known.
func drawn(dots []axisEvent, even, held bool, cut time.Duration, says string) []timeAxis {
	return []timeAxis{
		draft(dots, even, held, cut, says, true),
		draft(dots, even, held, cut, says, false),
	}
}

func draft(dots []axisEvent, even, held bool, cut time.Duration, says string, wide bool) timeAxis {
	a := timeAxis{Wide: wide, Says: says, Height: axisLabels}
	right := axisRight
	if held {
		right = axisTail
		a.Tail = percent(right)
	}
	rest := dots
	if n := len(dots); !held && n > 2 && dots[n-1].kind == "ends" {
		rest, right = dots[:n-1], axisTail // what is held until it ends would leave no room for the others
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

// spread are the places of dots, in percent: by their time, and never closer than can be told
// apart.
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

// labels gives each label a row in which it covers no other, and which the lines to the labels to
// its right do not cross.
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

// between is where an instant is on an axis, between the dots before and after it.
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

// shape is the path of a point: a shape goes with each colour.
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
	case kind == "looks":
		return "M-.5-4h1v8h-1z"
	case kind == "ends":
		return "M-1.5-9h3v18h-3z"
	case kind == "event":
		return "M-5-7 6 0-5 7z"
	}
	return "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z"
}

// clipped is a text of at most n characters.
func clipped(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// sinceStart is how long after the wait began something is.
func sinceStart(after time.Duration) string {
	if after <= 0 {
		return "at once"
	}
	return length(after)
}

// length is how long something is in its one or two largest units, such as "1 d 8 h".
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
	return rules.Duration(d).String()
}
