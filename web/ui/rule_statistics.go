package ui

import (
	"net/url"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// statisticsChart draws how many jobs of a rule were resolved in time, late or never.
type statisticsChart struct {
	barChart
	web.RuleStatistics
}

// statistics reads the statistics of a rule and draws them. An empty window is the API's default.
func (c client) statistics(rule, window string) (*statisticsChart, error) {
	query := url.Values{}
	if window != "" {
		query.Set("window", window)
	}
	d := new(statisticsChart)
	if err := c.get(rulePath(rule)+"/statistics", query, &d.RuleStatistics); err != nil {
		return nil, err
	}
	d.barChart = newBarChart(statisticsKinds(), d.Bucket >= futurejobs.Day.Seconds())
	d.Summary = "Jobs of rule " + rule + " that ended in " + d.Span()
	for _, item := range d.Items {
		ended := url.Values{
			"rule":        {rule},
			"ended_after": {item.From.UTC().Format(time.RFC3339)}, "ended_before": {item.From.Add(seconds(d.Bucket)).UTC().Format(time.RFC3339)},
		}
		d.add(column{From: item.From, At: "/history?" + ended.Encode(), By: []int64{item.InTime, item.Late, item.Never}})
	}
	d.draw()
	return d, nil
}

// statisticsKinds returns the kinds in the order of a bar, from the bottom.
func statisticsKinds() []kindOfEnd {
	return []kindOfEnd{{Kind: "good", Name: "in time"}, {Kind: "unheard", Name: "late"}, {Kind: "bad", Name: "never"}}
}

// sparkline draws the last day of a rule; nil: none of its jobs ended.
func sparkline(day *web.RuleDay) *barChart {
	if day == nil {
		return nil
	}
	d := newBarChart(statisticsKinds(), false)
	d.Width, d.Height = 96, 20
	for i := range day.InTime {
		from := day.To.Add(time.Duration(i-len(day.InTime)) * time.Hour)
		d.add(column{From: from, By: []int64{day.InTime[i], day.Late[i], day.Never[i]}})
	}
	d.draw()
	sums := make([]string, len(d.Kinds))
	for i, kind := range d.Kinds {
		sums[i] = kind.Name + " " + number(kind.Jobs)
	}
	d.Summary = "Jobs of the last 24 hours: " + strings.Join(sums, ", ")
	return &d
}

// Windows lists the windows with their labels.
func (*statisticsChart) Windows() [][2]string {
	return [][2]string{{"day", "24 hours"}, {"week", "7 days"}, {"month", "30 days"}}
}

// Span is the label of the window.
func (d *statisticsChart) Span() string {
	for _, w := range d.Windows() {
		if w[0] == d.Window {
			return w[1]
		}
	}
	return d.Window
}

// Took tells the time that resolved jobs took; empty: none was resolved.
func (d *statisticsChart) Took() string {
	if d.P50 == nil || d.P95 == nil {
		return ""
	}
	return "p50 " + roughly(seconds(*d.P50)) + ", p95 " + roughly(seconds(*d.P95))
}
