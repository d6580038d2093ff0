package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

//go:embed report.html
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"comma": humanize.Comma, "took": DurationText, "counts": Counts, "percent": PercentOf, "share": Percent,
	"date": func(at time.Time) string { return at.UTC().Format(time.DateOnly) },
	"time": func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") },
}).Parse(reportText))

// WriteReport writes the summary as a page of HTML that needs no other file: the alerts over time, the table of the rules, and
// for each rule how long its jobs took until they were resolved, with the steps.
func (s *Summary) WriteReport(to io.Writer) error {
	r := report{Summary: s, Severities: severities, Timeline: s.timeline()}
	for _, rule := range s.Rules {
		r.Charts = append(r.Charts, rule.chart())
		for _, n := range rule.Alerts {
			r.Alerts += n
		}
	}
	return reportTemplate.Execute(to, r)
}

// report is the data of the page.
type report struct {
	*Summary
	Severities []alerts.Severity
	Alerts     int64 // firing
	Timeline   *chart
	Charts     []*chart
}

var severities = []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}

// chart is a bar chart in SVG. Lengths are in its own units.
type chart struct {
	Width, Height, Base float64
	Unit                string // of a timeline's bars
	Rule, Caption       string // of a rule's chart
	Bars                []bar
	Steps               []mark
	Labels              []label
}

type bar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

type label struct {
	X, Y         float64
	Anchor, Text string
}

// mark is a line at a step.
type mark struct {
	X, Y, Base float64
	Text       string
	Left       bool // the text is on the left of the line
}

const (
	chartWidth = 1000
	chartRoom  = 130 // height of the tallest bar
	chartLine  = 16  // height of a line of text
	chartFoot  = 30  // below the axis
)

// newChart returns a chart with room for lines of text above its bars.
func newChart(lines int) *chart {
	base := float64(chartRoom + chartLine*lines + 4)
	return &chart{Width: chartWidth, Height: base + chartFoot, Base: base}
}

// maxTimelineBars bounds the bars of a timeline; beyond it they are weeks, and then months.
const maxTimelineBars = 200

// timeline returns the firing alerts by day, week or 30 days; nil: there are none.
func (s *Summary) timeline() *chart {
	if len(s.days) == 0 {
		return nil
	}
	days := slices.Sorted(maps.Keys(s.days))
	first, last := days[0], days[len(days)-1]
	unit, name := int64(1), "day"
	switch n := last - first; {
	case n > 7*maxTimelineBars:
		unit, name = 30, "30 days"
	case n > maxTimelineBars:
		unit, name = 7, "week"
	}
	sums := make([]dayAlerts, (last-first)/unit+1)
	var most int64
	for _, day := range days {
		sum := &sums[(day-first)/unit]
		for i, n := range s.days[day] {
			sum[i] += n
		}
		most = max(most, sum.total())
	}
	c := newChart(1)
	c.Unit = name
	width := float64(chartWidth) / float64(len(sums))
	for i, sum := range sums {
		y := c.Base
		from := dayAt(first + int64(i)*unit)
		for at, n := range sum {
			if n == 0 {
				continue
			}
			height := float64(n) / float64(most) * chartRoom
			y -= height
			c.Bars = append(c.Bars, bar{
				X: round(float64(i) * width), Y: round(y), Width: round(max(width*0.85, 0.5)), Height: round(height), Class: string(severities[at]),
				Title: fmt.Sprintf("%s from %s: %s %s", name, from.Format(time.DateOnly), humanize.Comma(n), severities[at]),
			})
		}
	}
	c.Labels = []label{
		{0, c.Base + 18, "", dayAt(first).Format(time.DateOnly)},
		{chartWidth, c.Base + 18, "end", dayAt(last).Format(time.DateOnly)},
		{0, chartLine - 4, "", fmt.Sprintf("at most %s a %s", humanize.Comma(most), name)},
	}
	return c
}

// dayAlerts counts the firing alerts of a day by severity.
type dayAlerts [4]int64

func (d dayAlerts) total() (n int64) {
	for _, of := range d {
		n += of
	}
	return n
}

// dayOf returns the days from 1970 to a time.
func dayOf(at time.Time) int64 { return at.Unix() / int64(futurejobs.Day/time.Second) }

func dayAt(day int64) time.Time { return time.Unix(day*int64(futurejobs.Day/time.Second), 0).UTC() }

// chartBins is the number of bars of a rule's chart. Their widths grow, as durations are spread over orders of magnitude.
const chartBins = 60

// chart returns the time until the jobs of a rule were resolved, with the steps.
func (r *Rule) chart() *chart {
	c := newChart(len(r.stepTimes))
	c.Rule = r.Name
	resolved := r.InTime + r.Late
	c.Caption = fmt.Sprintf("%s of %s jobs were resolved, %s of them before the first step.", humanize.Comma(resolved), humanize.Comma(r.Started), humanize.Comma(r.InTime))
	if resolved == 0 {
		return c
	}
	scale := r.scale()
	var bins [chartBins]int64
	var most int64
	for class, n := range r.durations {
		at := &bins[min(int(scale.place(secondsOf(class))*chartBins), chartBins-1)]
		*at += n
		most = max(most, *at)
	}
	width := float64(chartWidth) / chartBins
	for i, n := range bins {
		if n == 0 {
			continue
		}
		height := max(float64(n)/float64(most)*chartRoom, 1)
		from, to := scale.at(float64(i)/chartBins), scale.at(float64(i+1)/chartBins)
		c.Bars = append(c.Bars, bar{
			X: round(float64(i) * width), Y: round(c.Base - height), Width: round(width * 0.9), Height: round(height), Class: "bar",
			Title: fmt.Sprintf("%s to %s: %s jobs", DurationText(&from), DurationText(&to), humanize.Comma(n)),
		})
	}
	for _, at := range scale.ticks() {
		x := scale.place(at)
		anchor := "middle"
		switch {
		case x < 0.03:
			anchor = ""
		case x > 0.97:
			anchor = "end"
		}
		c.Labels = append(c.Labels, label{round(x * chartWidth), c.Base + 18, anchor, DurationText(&at)})
	}
	c.Steps = r.marks(scale, c.Base)
	return c
}

// marks returns the steps that raised alerts, at the median of their times.
func (r *Rule) marks(scale logScale, base float64) (all []mark) {
	names := slices.Sorted(maps.Keys(r.stepTimes))
	slices.SortStableFunc(names, func(a, b string) int {
		return int(math.Copysign(1, *r.stepTimes[a].quantile(0.5)-*r.stepTimes[b].quantile(0.5)))
	})
	for i, name := range names {
		x := scale.place(*r.stepTimes[name].quantile(0.5))
		share := float64(r.Alerts[name]) / float64(r.Started) * 100
		all = append(all, mark{
			X: round(x * chartWidth), Y: float64(chartLine * i), Base: base, Left: x > 0.7,
			Text: fmt.Sprintf("%s: %s alerts, %.1f %% of jobs", name, humanize.Comma(r.Alerts[name]), share),
		})
	}
	return all
}

// logScale maps seconds to the range from 0 to 1, logarithmically.
type logScale struct{ from, to float64 }

// scale returns the scale of the resolved jobs and the steps of a rule. Durations below a second count as one.
func (r *Rule) scale() logScale {
	s := logScale{math.Inf(1), 1}
	include := func(seconds float64) { s.from, s.to = min(s.from, max(seconds, 1)), max(s.to, seconds) }
	for class := range r.durations {
		include(secondsOf(class))
	}
	for _, times := range r.stepTimes {
		include(*times.quantile(0.5))
	}
	s.to = max(s.to, s.from*2)
	return s
}

func (s logScale) place(seconds float64) float64 {
	return math.Log(max(seconds, s.from)/s.from) / math.Log(s.to/s.from)
}

func (s logScale) at(place float64) float64 { return s.from * math.Pow(s.to/s.from, place) }

// ticks returns round durations within the scale.
func (s logScale) ticks() (all []float64) {
	const minute, hour, day = 60, 3600, 86400
	for _, at := range []float64{1, 10, minute, 10 * minute, hour, 6 * hour, day, 3 * day, 10 * day, 30 * day, 100 * day, 365 * day} {
		if at >= s.from && at <= s.to {
			all = append(all, at)
		}
	}
	return all
}

// round rounds a length to a hundredth.
func round(x float64) float64 { return math.Round(x*100) / 100 }

// DurationText returns seconds as a duration with two units at most; - if they are nil.
func DurationText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	took, unit := time.Duration(*seconds*float64(time.Second)), time.Second
	switch {
	case took >= futurejobs.Day:
		unit = time.Hour
	case took >= time.Hour:
		unit = time.Minute
	}
	return document.Duration(took.Round(unit)).String()
}
