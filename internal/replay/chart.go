package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	futurejobs "deadman/future_jobs"
)

// Timeline is the firing alerts over time.
type Timeline struct {
	Days int64         `json:"days" doc:"Days of a bar: 1, 7 or 30."`
	Bars []TimelineBar `json:"bars" nullable:"false" doc:"Alerts by time, from the day of the first alert to that of the last."`
}

// TimelineBar is the firing alerts of some days by severity.
type TimelineBar struct {
	From     time.Time `json:"from" doc:"Begin of the bar."`
	Info     int64     `json:"info" doc:"Alerts of severity info."`
	Warning  int64     `json:"warning" doc:"Alerts of severity warning."`
	Error    int64     `json:"error" doc:"Alerts of severity error."`
	Critical int64     `json:"critical" doc:"Alerts of severity critical."`
}

// Histogram is the time until the jobs of a rule were resolved, beside the steps of the rule.
type Histogram struct {
	Bins  []Bin      `json:"bins" nullable:"false" doc:"Resolved jobs by the time from their start to their end. The widths grow."`
	Steps []StepTime `json:"steps" nullable:"false" doc:"Steps that raised alerts, in the order of their times."`
}

// Bin is the jobs of a range of durations.
type Bin struct {
	From float64 `json:"from" doc:"Shortest time of the bin, in seconds."`
	To   float64 `json:"to" doc:"End of the bin, in seconds."`
	Jobs int64   `json:"jobs" doc:"Jobs that were resolved within this time."`
}

// span returns the durations of a bin as text. Those below a second are in the first bin.
func (b Bin) span() string {
	from, to := DurationText(&b.From), DurationText(&b.To)
	switch {
	case b.From <= 1:
		return "up to " + to
	case from == to:
		return "about " + to
	}
	return from + " to " + to
}

// counted returns a number and its noun.
func counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(n) + " " + noun
}

// StepTime is the place of a step within the durations.
type StepTime struct {
	Step   string  `json:"step" doc:"Name of the step."`
	At     float64 `json:"at" doc:"Median of the time from the start of a job to the alert, in seconds."`
	Alerts int64   `json:"alerts" doc:"Firing alerts of the step."`
	Share  float64 `json:"share" doc:"Share of the jobs that the step alerted on, from 0 to 1. It exceeds 1 if the step is repeated."`
}

// Chart is a bar chart in SVG, for the templates of ChartTemplates. Lengths are in its own units.
type Chart struct {
	Width, Height, Base float64
	Unit                string // of a timeline's bars
	Rule, Caption       string // of a histogram
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

	maxBarWidth = 60 // of a timeline
)

// newChart returns a chart with room for lines of text above its bars.
func newChart(lines int) *Chart {
	base := float64(chartRoom + chartLine*lines + 4)
	return &Chart{Width: chartWidth, Height: base + chartFoot, Base: base}
}

// maxTimelineBars bounds the bars of a timeline; beyond it they are weeks, and then months.
const maxTimelineBars = 200

// Timeline returns the firing alerts by day, week or 30 days; nil: no alert fired.
func (s *Summary) Timeline() *Timeline {
	if len(s.days) == 0 {
		return nil
	}
	days := slices.Sorted(maps.Keys(s.days))
	first, last := days[0], days[len(days)-1]
	t := &Timeline{Days: 1}
	switch n := last - first; {
	case n > 7*maxTimelineBars:
		t.Days = 30
	case n > maxTimelineBars:
		t.Days = 7
	}
	t.Bars = make([]TimelineBar, (last-first)/t.Days+1)
	for i := range t.Bars {
		t.Bars[i].From = dayAt(first + int64(i)*t.Days)
	}
	for _, day := range days {
		b, n := &t.Bars[(day-first)/t.Days], s.days[day]
		b.Info, b.Warning, b.Error, b.Critical = b.Info+n[0], b.Warning+n[1], b.Error+n[2], b.Critical+n[3]
	}
	return t
}

// bySeverity returns the alerts in the order of severities.
func (b TimelineBar) bySeverity() dayAlerts { return dayAlerts{b.Info, b.Warning, b.Error, b.Critical} }

// Chart returns the chart of a timeline; nil for a nil timeline.
func (t *Timeline) Chart() *Chart {
	if t == nil || len(t.Bars) == 0 {
		return nil
	}
	c := newChart(1)
	c.Unit = map[int64]string{1: "day", 7: "week", 30: "30 days"}[t.Days]
	var most int64
	for _, b := range t.Bars {
		most = max(most, b.bySeverity().total())
	}
	width := float64(chartWidth) / float64(len(t.Bars))
	for i, b := range t.Bars {
		y := c.Base
		for at, n := range b.bySeverity() {
			if n == 0 {
				continue
			}
			height := float64(n) / float64(most) * chartRoom
			y -= height
			c.Bars = append(c.Bars, bar{
				X: round(float64(i) * width), Y: round(y), Width: round(min(max(width*0.85, 0.5), maxBarWidth)), Height: round(height), Class: string(severities[at]),
				Title: fmt.Sprintf("%s from %s: %s %s", c.Unit, b.From.Format(time.DateOnly), humanize.Comma(n), severities[at]),
			})
		}
	}
	first, last := t.Bars[0].From, t.Bars[len(t.Bars)-1].From
	c.Labels = []label{
		{0, c.Base + 18, "", first.Format(time.DateOnly)},
		{0, chartLine - 4, "", fmt.Sprintf("at most %s a %s", humanize.Comma(most), c.Unit)},
	}
	if last.After(first) {
		c.Labels = append(c.Labels, label{chartWidth, c.Base + 18, "end", last.Format(time.DateOnly)})
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

// Caption summarizes the outcomes of the jobs.
func (r *RuleResult) Caption() string {
	return fmt.Sprintf("%s of %s jobs were resolved, %s of them before the first step.", humanize.Comma(r.InTime+r.Late), humanize.Comma(r.Started), humanize.Comma(r.InTime))
}

// Histogram returns the time until the jobs of a rule were resolved, with the steps; nil: none was resolved.
func (r *RuleResult) Histogram() *Histogram {
	if r.InTime+r.Late == 0 {
		return nil
	}
	scale := r.scale()
	h := &Histogram{Bins: make([]Bin, chartBins), Steps: []StepTime{}}
	for i := range h.Bins {
		h.Bins[i].From, h.Bins[i].To = scale.at(float64(i)/chartBins), scale.at(float64(i+1)/chartBins)
	}
	for class, n := range r.durations {
		h.Bins[min(int(scale.place(secondsOf(class))*chartBins), chartBins-1)].Jobs += n
	}
	for _, name := range slices.Sorted(maps.Keys(r.stepTimes)) {
		h.Steps = append(h.Steps, StepTime{Step: name, At: *r.stepTimes[name].quantile(0.5), Alerts: r.Alerts[name], Share: float64(r.Alerts[name]) / float64(r.Started)})
	}
	slices.SortStableFunc(h.Steps, func(a, b StepTime) int { return cmp.Compare(a.At, b.At) })
	return h
}

// Shrink drops the distribution of the durations. Histogram needs the distribution.
func (r *RuleResult) Shrink() { r.durations, r.stepTimes = nil, nil }

// Chart returns the chart of a histogram. It has no bars for a nil histogram.
func (h *Histogram) Chart(rule, caption string) *Chart {
	if h == nil || len(h.Bins) == 0 {
		return &Chart{Rule: rule, Caption: caption}
	}
	c := newChart(len(h.Steps))
	c.Rule, c.Caption = rule, caption
	var most int64
	for _, b := range h.Bins {
		most = max(most, b.Jobs)
	}
	width := float64(chartWidth) / float64(len(h.Bins))
	for i, b := range h.Bins {
		if b.Jobs == 0 {
			continue
		}
		height := max(float64(b.Jobs)/float64(most)*chartRoom, 1)
		c.Bars = append(c.Bars, bar{
			X: round(float64(i) * width), Y: round(c.Base - height), Width: round(width * 0.9), Height: round(height), Class: "bar",
			Title: b.span() + ": " + counted(b.Jobs, "job"),
		})
	}
	scale := logScale{h.Bins[0].From, h.Bins[len(h.Bins)-1].To}
	ticks := scale.ticks()
	if len(ticks) < 2 { // a short range may be between two round times
		ticks = []float64{scale.from, scale.to}
	}
	for _, at := range ticks {
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
	for i, step := range h.Steps {
		x := scale.place(step.At)
		c.Steps = append(c.Steps, mark{
			X: round(x * chartWidth), Y: float64(chartLine * i), Base: c.Base, Left: x > 0.6,
			Text: fmt.Sprintf("%s, median %s: %s, %.1f %% of jobs", step.Step, DurationText(&step.At), counted(step.Alerts, "alert"), step.Share*100),
		})
	}
	return c
}

// logScale maps seconds to the range from 0 to 1, logarithmically.
type logScale struct{ from, to float64 }

// scale returns the scale of the resolved jobs and the steps of a rule. Durations below a second count as one.
func (r *RuleResult) scale() logScale {
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
