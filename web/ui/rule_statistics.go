package ui

import (
	"maps"
	"net/url"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// statisticsChart draws how many jobs were resolved in time, late or never.
type statisticsChart struct {
	barChart
	web.Statistics
	At string            // address of the page without the window
	of map[string]string // filter of the history that the bars link to
}

// statistics reads the statistics of a rule and draws them. An empty window is the API's default.
func (c client) statistics(rule, window string) (*statisticsChart, error) {
	d := &statisticsChart{At: rulePath(rule), of: map[string]string{"rule": rule}}
	err := d.read(c, rulePath(rule)+"/statistics", url.Values{}, window)
	return d, err
}

// statisticsOf reads the statistics of a filter of the history and draws them. They cover all keys and outcomes.
func (c client) statisticsOf(l listing, window string) (*statisticsChart, error) {
	without := listing{At: l.At, Filter: maps.Clone(l.Filter)}
	delete(without.Filter, "window")
	d := &statisticsChart{At: without.page(""), of: make(map[string]string)}
	query := url.Values{}
	for _, name := range []string{"rule", "entity"} {
		if value := l.Filter[name]; value != "" {
			query.Set(name, value)
			d.of[name] = value
		}
	}
	err := d.read(c, "/history/statistics", query, window)
	return d, err
}

// read reads the statistics of a path and draws them.
func (d *statisticsChart) read(c client, path string, query url.Values, window string) error {
	if window != "" {
		query.Set("window", window)
	}
	if err := c.get(path, query, &d.Statistics); err != nil {
		return err
	}
	d.barChart = newBarChart(statisticsKinds(), d.Bucket >= futurejobs.Day.Seconds())
	d.Summary = "Jobs" + scopeOf(d.of) + " that ended in " + d.Span()
	for _, item := range d.Items {
		ended := url.Values{
			"ended_after": {item.From.UTC().Format(time.RFC3339)}, "ended_before": {item.From.Add(seconds(d.Bucket)).UTC().Format(time.RFC3339)},
		}
		for name, value := range d.of {
			ended.Set(name, value)
		}
		d.add(column{From: item.From, At: "/history?" + ended.Encode(), By: []int64{item.InTime, item.Late, item.Never}, Uncounted: !item.From.Before(d.To)})
	}
	d.draw()
	return nil
}

// scopeOf describes a filter by rule and entity; empty: all jobs.
func scopeOf(filter map[string]string) (text string) {
	for _, name := range []string{"rule", "entity"} {
		if value := filter[name]; value != "" {
			text += " of " + name + " " + escapeControls(value)
		}
	}
	return text
}

// WindowAt returns the address of the page with a window.
func (d *statisticsChart) WindowAt(window string) string {
	separator := "?"
	if strings.Contains(d.At, "?") {
		separator = "&"
	}
	return d.At + separator + "window=" + window + "#in-time"
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

// NextCountAt returns the approximate time of the next count.
func (d *statisticsChart) NextCountAt() time.Time { return d.To.Add(time.Hour + web.CountDelay) }

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

// Rate is the share of jobs that were resolved in time, rounded down; empty: none is counted.
func (d *statisticsChart) Rate() string {
	all := d.InTime + d.Late + d.Never
	if all == 0 {
		return ""
	}
	return sharePercent(float64(d.InTime) / float64(all))
}
