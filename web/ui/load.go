package ui

import (
	"fmt"
	"net/url"
	"time"

	"deadman/web"
)

// chart is the load by slot, drawn: what was checked, up to now, and what is planned from then on.
// Its units are those of the drawing.
type chart struct {
	Bars   []bar
	Marks  []mark
	Now    int    // where the present is
	Width  int    // of the drawing
	Height int    // of the tallest bar
	Most   int64  // what the tallest bar stands for
	Says   string // what there is to see, for those who don't
}

// bar is one part of the span.
type bar struct {
	X, Y, Width, Height int
	Kind                string // past or planned
	Title               string
}

// mark is an instant on the axis.
type mark struct {
	X    int
	Text string
}

// How the load is drawn.
const (
	chartBack   = 6 * time.Hour
	chartAhead  = 18 * time.Hour
	chartBucket = 15 * time.Minute
	barStep     = 10
	barHeight   = 120
)

// load asks for the load around now and draws it.
func (c client) load(now time.Time) (*chart, error) {
	from := now.Add(-chartBack).UTC().Truncate(chartBucket)
	var slots web.Slots
	err := c.get("/slots", url.Values{
		"from": {from.Format(time.RFC3339)}, "to": {from.Add(chartBack + chartAhead).Format(time.RFC3339)}, "bucket": {"15m"},
	}, &slots)
	if err != nil {
		return nil, err
	}
	return draw(slots, now), nil
}

// draw draws the load.
func draw(slots web.Slots, now time.Time) *chart {
	d := &chart{Width: barStep * len(slots.Items), Height: barHeight, Most: 1}
	var done, ahead int64
	for _, s := range slots.Items {
		d.Most = max(d.Most, s.Checks, s.Planned+int64(s.Ticks))
		done, ahead = done+s.Checks, ahead+s.Planned+int64(s.Ticks)
	}
	width := time.Duration(slots.Bucket * float64(time.Second))
	for i, s := range slots.Items {
		x := i * barStep
		d.add(x, s.Checks, "past", fmt.Sprintf("%s UTC: %s, %s", s.From.Format("15:04"), count(int(s.Checks), "look"), count(int(s.Alerts), "alert")))
		d.add(x, s.Planned+int64(s.Ticks), "planned", fmt.Sprintf("%s UTC: %s planned", s.From.Format("15:04"), count(int(s.Planned)+s.Ticks, "look")))
		if room := i > 1 && i < len(slots.Items)-2; room && s.From.Minute() == 0 && s.From.Hour()%3 == 0 {
			d.Marks = append(d.Marks, mark{x, s.From.Format("15:04")})
		}
	}
	if width > 0 {
		d.Now = int(now.Sub(slots.From) * barStep / width)
	}
	d.Says = fmt.Sprintf("%s in the last 6 hours, %s planned in the next 18; at most %d in a quarter of an hour", count(int(done), "look"), count(int(ahead), "look"), d.Most)
	return d
}

// add adds a bar of something; nothing has none.
func (d *chart) add(x int, n int64, kind, title string) {
	if n == 0 {
		return
	}
	height := max(2, int(n*barHeight/d.Most))
	d.Bars = append(d.Bars, bar{X: x + 1, Y: barHeight - height, Width: barStep - 2, Height: height, Kind: kind, Title: title})
}
