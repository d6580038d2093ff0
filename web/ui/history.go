package ui

import (
	"maps"
	"net/http"
	"time"

	"deadman/web"
)

// historyView is the history: outcomes and durations as charts, then the list, newest first.
type historyView struct {
	listing
	InTime *statisticsChart
	Ends   *outcomeChart
	Ended  []web.EndedJob
	Spans  []span
	Within string // span of the list, unless times are given
}

// anyTime is the span without a limit.
const anyTime = "all"

// historySpans are the selectable spans.
var historySpans = []span{
	{"the last day", "24h", 24 * time.Hour},
	{"the last week", "7d", 7 * 24 * time.Hour},
	{"the last 14 days", "14d", 14 * 24 * time.Hour},
	{"any time", anyTime, 0},
}

// historyFilter names the filters of the history.
var historyFilter = []string{"rule", "entity", "key", "outcome", "ended_after", "ended_before", "within", "window"}

func (u *UI) history(c client, r *http.Request) (view, error) {
	v := historyView{listing: listingOf(r, historyFilter...), Spans: historySpans}
	v.Within = v.Filter["within"]
	query := v.query()
	query.Del("within")
	query.Del("window")
	if v.Within == "" {
		v.Within = anyTime
		if v.searches() {
			v.Within = historySpans[0].Text
		}
	}
	if !v.Timed() {
		for _, s := range historySpans {
			if s.Text == v.Within && s.width > 0 {
				query.Set("ended_after", u.Now().Add(-s.width).UTC().Format(time.RFC3339))
			}
		}
	}
	var page web.Page[web.EndedJob]
	if err := c.get("/history", query, &page); err != nil {
		return view{}, err
	}
	v.Ended = page.Items
	v.goesOn(page.Next)
	err := v.findRule(c, len(page.Items))
	if err != nil {
		return view{}, err
	}
	if v.InTime, err = c.statisticsOf(v.listing, v.Filter["window"]); err != nil {
		return view{}, err
	}
	v.Ends, err = c.outcomes(v.listing, v.Filter["window"])
	// A search runs once, not every two seconds.
	return view{Title: "History", Body: v, Still: v.searches() || v.Timed() || v.cursor != ""}, err
}

// searches reports whether the filter has no index. The list then covers one day unless the visitor selects more.
func (v historyView) searches() bool {
	return v.Filter["key"] == "" && v.Filter["rule"]+v.Filter["entity"]+v.Filter["outcome"] != ""
}

// Timed reports whether the list has exact times.
func (v historyView) Timed() bool { return v.Filter["ended_after"]+v.Filter["ended_before"] != "" }

// Filtered reports whether the list has any filter.
func (v historyView) Filtered() bool { return v.searches() || v.Timed() || v.Filter["key"] != "" }

// Wider returns the address of the list with a wider span. It is empty at the widest.
func (v historyView) Wider() string {
	if v.Within == anyTime {
		return ""
	}
	l := listing{At: v.At, Filter: maps.Clone(v.Filter)}
	l.Filter["within"] = "14d"
	if v.Within == "14d" {
		l.Filter["within"] = anyTime
	}
	return l.page("")
}
