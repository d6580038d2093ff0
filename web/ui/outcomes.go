package ui

import (
	"maps"
	"net/url"
	"strings"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// outcomeChart draws the outcomes of jobs over time.
type outcomeChart struct {
	barChart
	web.Outcomes
	buckets int    // number of buckets of the window
	span    string // the window in words
}

// kindsOfEnds returns the kinds in the order of a bar, from the bottom.
func kindsOfEnds() []kindOfEnd {
	return []kindOfEnd{{Kind: "good", Name: "resolved"}, {Kind: "unheard", Name: "resolved late"}, {Kind: "neutral", Name: "cancelled"}, {Kind: "bad", Name: "exhausted"}, {Kind: "worse", Name: "gave up"}}
}

// lateKind is the index of the kind of jobs that were resolved late.
const lateKind = 1

// kindOf returns the index of an outcome's kind.
func kindOf(o checks.Outcome) int {
	switch outcome(o) {
	case "waiting":
		return 2
	case "error":
		return 3
	case "critical":
		return 4
	}
	return 0
}

// outcomes reads the outcomes of jobs and draws them over a window of the statistics.
func (c client) outcomes(l listing, window string) (*outcomeChart, error) {
	d := &outcomeChart{buckets: 24, span: "24 hours"}
	query := url.Values{"bucket": {"1d"}}
	switch window {
	case "week":
		d.buckets, d.span = 7, "7 days"
	case "month":
		d.buckets, d.span = 30, "30 days"
	default:
		query.Set("bucket", "1h")
	}
	for _, name := range []string{"rule", "entity"} {
		if value := l.Filter[name]; value != "" {
			query.Set(name, value)
		}
	}
	if err := c.get("/history/outcomes", query, &d.Outcomes); err != nil {
		return nil, err
	}
	d.barChart = newBarChart(kindsOfEnds(), d.Outcomes.Bucket >= futurejobs.Day.Seconds())
	d.count(l)
	d.draw()
	return d, nil
}

// count sums the outcomes per bucket and in total.
func (d *outcomeChart) count(l listing) {
	all, width := int64(0), seconds(d.Bucket)
	from := d.To.Add(-time.Duration(d.buckets) * width)
	for ; from.Before(d.From); from = from.Add(width) {
		d.add(column{From: from, By: make([]int64, len(d.Kinds)), Uncounted: true})
	}
	for _, item := range d.Items {
		if item.From.Before(from) {
			continue
		}
		col := column{From: item.From, By: make([]int64, len(d.Kinds))}
		for name, n := range item.Outcomes {
			if wanted := l.Filter["outcome"]; wanted != "" && name != wanted {
				continue
			}
			col.By[kindOf(checks.Outcome(name))] += n - item.Late[name]
			col.By[lateKind] += item.Late[name]
			all += n
		}
		to := item.From.Add(time.Duration(d.Bucket) * time.Second)
		narrowed := listing{At: l.At, Filter: maps.Clone(l.Filter)}
		narrowed.Filter["ended_after"], narrowed.Filter["ended_before"] = item.From.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)
		delete(narrowed.Filter, "within")
		col.At = narrowed.page("")
		d.add(col)
	}
	d.Summary = d.sentence(l, all)
}

// sentence describes the scope of the bars. They cover all keys, even if the list is narrowed to one.
func (d *outcomeChart) sentence(l listing, all int64) string {
	text := count(int(all), "job") + scopeOf(l.Filter) + " ended"
	if outcome := l.Filter["outcome"]; outcome != "" {
		text += " as " + escapeControls(strings.ReplaceAll(outcome, "_", " "))
	}
	text += " in the last " + d.span
	if l.Filter["key"] != "" {
		text += ", all keys"
	}
	return text
}

// Partly reports whether older buckets are not counted yet.
func (d *outcomeChart) Partly() bool { return d.CountedFrom.After(d.From) }

// Shorter reports whether the window begins before the outcomes that are counted.
func (d *outcomeChart) Shorter() bool { return d.Columns[0].Uncounted }
