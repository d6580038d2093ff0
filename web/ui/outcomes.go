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
}

// kindsOfEnds returns the kinds in the order of a bar, from the bottom.
func kindsOfEnds() []kindOfEnd {
	return []kindOfEnd{{Kind: "good", Name: "resolved"}, {Kind: "neutral", Name: "cancelled"}, {Kind: "unheard", Name: "exhausted"}, {Kind: "bad", Name: "gave up"}}
}

// kindOf returns the index of an outcome's kind.
func kindOf(o checks.Outcome) int {
	switch outcome(o) {
	case "waiting":
		return 1
	case "open":
		return 2
	case "error":
		return 3
	}
	return 0
}

// outcomes reads the outcomes of jobs and draws them.
func (c client) outcomes(l listing, bucket string) (*outcomeChart, error) {
	query := url.Values{"bucket": {bucket}}
	for _, name := range []string{"rule", "entity"} {
		if value := l.Filter[name]; value != "" {
			query.Set(name, value)
		}
	}
	d := new(outcomeChart)
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
	all := int64(0)
	for _, item := range d.Items {
		col := column{From: item.From, By: make([]int64, len(d.Kinds))}
		for name, n := range item.Outcomes {
			if wanted := l.Filter["outcome"]; wanted != "" && name != wanted {
				continue
			}
			col.By[kindOf(checks.Outcome(name))] += n
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
	text += " in the last 24 hours"
	if d.Daily {
		text = strings.TrimSuffix(text, "24 hours") + "14 days"
	}
	if l.Filter["key"] != "" {
		text += ", all keys"
	}
	return text
}

// Partly reports whether older buckets are not counted yet.
func (d *outcomeChart) Partly() bool { return d.CountedFrom.After(d.From) }
