package ui

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"deadman/web"
)

// chart draws the load by slot: past checks and ticks, then planned ones. Its units are stretched to the available width.
type chart struct {
	Bars       []bar
	Latenesses []bar // largest lag per bar; none: no check and no tick was late
	Ticks      []int // positions of the hours on the axis
	Hours      []time.Time
	Now        int // position of the present
	Width      int
	Height     int
	Most       string // value of the tallest bar
	Half       string
	Worst      string     // value of the tallest lag
	Summary    string     // summary in words
	Herd       *loadSpike // nil: no spike
	Rows       []loadRow
}

// bar is a bucket of the chart.
type bar struct {
	X, Y, Width, Height int
	Kind                string // past, planned, overdue or late
	Title               string
}

// loadSpike is a bucket with far more due checks and ticks than the others.
type loadSpike struct {
	From, Until time.Time
	Jobs        int64
}

// loadRow is an hour of the chart with past or planned checks, or ticks.
type loadRow struct {
	From                                     time.Time
	Checks, Alerts, Ticks, Missed, Due, Over int64
	MaxLateness                              time.Duration
}

// Layout of the chart. The span begins at an hour of the axis.
const (
	chartBack   = 6 * time.Hour
	chartGrid   = 3 * time.Hour // hours of the axis
	chartSpan   = 9 * chartGrid
	chartBucket = 15 * time.Minute
	barStep     = 10
	barHeight   = 120
	lagHeight   = 24
	lagShown    = 2 * time.Second // lags up to this are ignored
	herdJobs    = 1000            // smallest spike, in checks and ticks
	herdTimes   = 10              // smallest spike, as a multiple of the other buckets
)

// load reads the load around now and draws it.
func (c client) load(now time.Time) (*chart, error) {
	from := now.Add(-chartBack).UTC().Truncate(chartGrid)
	var slots web.Slots
	err := c.get("/slots", url.Values{
		"from": {from.Format(time.RFC3339)}, "to": {from.Add(chartSpan).Format(time.RFC3339)}, "bucket": {chartBucket.String()},
	}, &slots)
	if err != nil {
		return nil, err
	}
	return draw(slots, now), nil
}

// draw draws the load.
func draw(slots web.Slots, now time.Time) *chart {
	d := &chart{Width: barStep * len(slots.Items), Height: barHeight}
	var largest int64 = 1
	worst := lagShown
	for _, s := range slots.Items {
		largest, worst = max(largest, done(s)+due(s)), max(worst, s.Lateness())
	}
	d.Now = int(now.Sub(slots.From) * barStep / chartBucket)
	for i, s := range slots.Items {
		d.column(i*barStep, s, largest, now)
		if lateness := s.Lateness(); lateness > lagShown {
			d.Latenesses = append(d.Latenesses, newBar(i*barStep, int64(lateness), int64(worst), lagHeight, "late", spanTitle(s)+": up to "+roughly(lateness)+" late"))
		}
		if s.From.Truncate(chartGrid).Equal(s.From) {
			d.Hours, d.Ticks = append(d.Hours, s.From), append(d.Ticks, i*barStep)
		}
	}
	d.Most, d.Half, d.Worst = number(largest), number(largest/2), roughly(worst)
	if largest < 2 {
		d.Half = ""
	}
	d.Herd = herdOf(slots, now)
	d.sum(slots, now)
	return d
}

// done returns the completed checks and applied ticks of a bucket.
func done(s web.Slot) int64 { return s.Checks + s.Applied }

// due returns the checks and ticks of a bucket that are still pending.
func due(s web.Slot) int64 { return s.Planned + int64(s.Ticks) }

// column draws a bucket, with due checks on top of past ones.
func (d *chart) column(x int, s web.Slot, largest int64, now time.Time) {
	title := fmt.Sprintf("%s: %s, %s", spanTitle(s), count(int(s.Checks), "check"), count(int(s.Alerts), "alert"))
	if s.Applied > 0 {
		title += ", " + count(int(s.Applied), "tick")
	}
	if s.Missed > 0 {
		title += ", " + count(int(s.Missed), "missed tick")
	}
	past := newBar(x, done(s), largest, d.Height, "past", title)
	isCurrent := x < d.Now && d.Now < x+barStep
	if isCurrent {
		past.Width = max(1, d.Now-past.X)
	}
	if done(s) > 0 {
		d.Bars = append(d.Bars, past)
	}
	if due(s) == 0 {
		return
	}
	kind, word := "planned", "planned"
	if isOver(s, now) {
		kind, word = "overdue", "overdue"
	}
	var parts []string
	if s.Planned > 0 {
		parts = append(parts, count(int(s.Planned), "check"))
	}
	if s.Ticks > 0 {
		parts = append(parts, count(s.Ticks, "tick"))
	}
	ahead := newBar(x, due(s), largest, d.Height, kind, fmt.Sprintf("%s: %s %s", spanTitle(s), strings.Join(parts, ", "), word))
	switch end := ahead.X + ahead.Width; {
	case isCurrent && kind == "planned": // it begins at now, where the past ends
		ahead.X = max(d.Now, past.X+past.Width)
		ahead.Width = max(1, end-ahead.X)
	default:
		ahead.Y = max(0, ahead.Y-past.Height)
	}
	d.Bars = append(d.Bars, ahead)
}

// newBar returns a bar from the base line. Any value above zero is visible.
func newBar(x int, n, largest int64, height int, kind, title string) bar {
	b := bar{X: x + 1, Y: height, Width: barStep - 2, Kind: kind, Title: title}
	if n > 0 {
		b.Height = max(2, int(float64(n)/float64(largest)*float64(height)))
		b.Y -= b.Height
	}
	return b
}

// isOver reports whether a bucket has passed.
func isOver(s web.Slot, now time.Time) bool { return !s.From.Add(chartBucket).After(now) }

func spanTitle(s web.Slot) string {
	return s.From.UTC().Format("15:04") + " to " + s.From.Add(chartBucket).UTC().Format("15:04 UTC")
}

// herdOf returns the future bucket that is far above the others, or nil.
func herdOf(slots web.Slots, now time.Time) *loadSpike {
	var sum int64
	var top web.Slot
	for _, s := range slots.Items {
		sum += done(s) + due(s)
		if !isOver(s, now) && due(s) > due(top) {
			top = s
		}
	}
	others := (sum - due(top)) / int64(max(1, len(slots.Items)-1))
	if due(top) < herdJobs || due(top) < herdTimes*others {
		return nil
	}
	return &loadSpike{From: top.From, Until: top.From.Add(chartBucket), Jobs: due(top)}
}

// sum writes the summary and the rows by hour.
func (d *chart) sum(slots web.Slots, now time.Time) {
	var all loadRow
	for _, s := range slots.Items {
		row := loadRow{From: s.From.Truncate(time.Hour), Checks: s.Checks, Alerts: s.Alerts, Ticks: s.Applied, Missed: s.Missed, MaxLateness: s.Lateness()}
		if isOver(s, now) {
			row.Over = due(s)
		} else {
			row.Due = due(s)
		}
		all.add(row)
		if row.Checks+row.Ticks+row.Due+row.Over == 0 {
			continue
		}
		if last := len(d.Rows) - 1; last >= 0 && d.Rows[last].From.Equal(row.From) {
			d.Rows[last].add(row)
		} else {
			d.Rows = append(d.Rows, row)
		}
	}
	d.Summary = number(all.Checks) + " checked, "
	if all.Ticks > 0 {
		d.Summary += count(int(all.Ticks), "tick") + ", "
	}
	d.Summary += number(all.Due) + " planned"
	if all.Missed > 0 {
		d.Summary += ", " + count(int(all.Missed), "missed tick")
	}
	if all.Over > 0 {
		d.Summary += ", " + number(all.Over) + " overdue"
	}
	if all.MaxLateness > lagShown {
		d.Summary += ", at most " + roughly(all.MaxLateness) + " late"
	}
}

func (r *loadRow) add(o loadRow) {
	r.Checks, r.Alerts, r.Due, r.Over, r.MaxLateness = r.Checks+o.Checks, r.Alerts+o.Alerts, r.Due+o.Due, r.Over+o.Over, max(r.MaxLateness, o.MaxLateness)
	r.Ticks, r.Missed = r.Ticks+o.Ticks, r.Missed+o.Missed
}

// LagText formats the largest lag of the hour. It is empty if the lag is small.
func (r loadRow) LagText() string {
	if r.MaxLateness <= lagShown {
		return ""
	}
	return roughly(r.MaxLateness)
}
