package ui

import (
	"cmp"
	"maps"
	"net/http"
	"time"

	"deadman/web"
)

// historyView is the jobs that ended: how many, how, which were slow, and the list of them, newest
// first.
type historyView struct {
	listing
	Ends   *outcomeChart
	Bucket string
	Ended  []web.Ended
	Spans  []span
	Within string // how far back the list goes, where no times are asked for
}

// anyTime is the span of a list that goes back for as long as there is history.
const anyTime = "all"

// historySpans are how far back one can look.
var historySpans = []span{
	{"the last day", "24h", 24 * time.Hour},
	{"the last week", "7d", 7 * 24 * time.Hour},
	{"the last 14 days", "14d", 14 * 24 * time.Hour},
	{"any time", anyTime, 0},
}

// historyFilter is what the list is narrowed by.
var historyFilter = []string{"rule", "entity", "key", "outcome", "ended_after", "ended_before", "within", "bucket"}

func (u *UI) history(c client, r *http.Request) (view, error) {
	v := historyView{listing: listingOf(r, historyFilter...), Spans: historySpans}
	v.Bucket, v.Within = cmp.Or(v.Asked["bucket"], "1h"), v.Asked["within"]
	query := v.query()
	query.Del("within")
	query.Del("bucket")
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
	var page web.Page[web.Ended]
	if err := c.get("/history", query, &page); err != nil {
		return view{}, err
	}
	v.Ended = page.Items
	v.goesOn(page.Next)
	var err error
	v.Ends, err = c.ends(v.listing, v.Bucket)
	// What is searched is searched once, and not every two seconds.
	return view{Title: "History", Body: v, Still: v.searches() || v.Timed() || v.cursor != ""}, err
}

// searches reports whether rows are left out that are in no index: then the list goes back a day,
// unless more is asked for.
func (v historyView) searches() bool {
	return v.Asked["key"] == "" && v.Asked["rule"]+v.Asked["entity"]+v.Asked["outcome"] != ""
}

// Timed reports whether the list is of a time that is given exactly.
func (v historyView) Timed() bool { return v.Asked["ended_after"]+v.Asked["ended_before"] != "" }

// Filtered reports whether the list is not of all that there is.
func (v historyView) Filtered() bool { return v.searches() || v.Timed() || v.Asked["key"] != "" }

// In is the page with the other width of the bars.
func (v historyView) In(bucket string) string {
	l := listing{At: v.At, Asked: maps.Clone(v.Asked)}
	l.Asked["bucket"] = bucket
	return l.page("")
}

// Wider is the list with the widest time; empty: it has it.
func (v historyView) Wider() string {
	if v.Within == anyTime {
		return ""
	}
	l := listing{At: v.At, Asked: maps.Clone(v.Asked)}
	l.Asked["within"] = "14d"
	if v.Within == "14d" {
		l.Asked["within"] = anyTime
	}
	return l.page("")
}
