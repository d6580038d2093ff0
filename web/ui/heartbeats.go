package ui

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"deadman/web"
)

// heartbeatsView is the list of the keys of heartbeats.
type heartbeatsView struct {
	listing
	web.HeartbeatPage
	Late []web.Heartbeat // the first late keys, above the first of several pages
	more bool            // more keys are late
	now  time.Time
}

// lateRows is the number of late keys above the first of several pages.
const lateRows = "20"

// heartbeatsAt is the path of the keys of heartbeats.
const heartbeatsAt = "/heartbeats"

// heartbeats is the page of the keys of heartbeats. A key that ends in * is a prefix.
func (u *UI) heartbeats(c client, r *http.Request) (view, error) {
	v := heartbeatsView{listing: listingOf(r, "rule", "entity", "key", "state"), now: u.Now().UTC()}
	query := v.query()
	if prefix, is := strings.CutSuffix(v.Filter["key"], "*"); is {
		query.Del("key")
		query.Set("key_prefix", prefix)
	}
	if err := c.get(heartbeatsAt, query, &v.HeartbeatPage); err != nil {
		return view{}, err
	}
	v.goesOn(v.HeartbeatPage.Next)
	if err := v.readLate(c, query); err != nil {
		return view{}, err
	}
	return view{Title: "Heartbeats", Body: v, Still: v.cursor != ""}, nil
}

// readLate puts the keys that need attention first. A list of several pages is in the order of the API, so the late keys are
// read besides.
func (v *heartbeatsView) readLate(c client, query url.Values) error {
	if v.HeartbeatPage.Next == "" && v.cursor == "" {
		web.SortHeartbeats(v.Items)
	}
	if v.HeartbeatPage.Next == "" || v.cursor != "" || v.Filter["state"] != "" {
		return nil
	}
	query.Set("state", "late")
	query.Set("limit", lateRows)
	var late web.HeartbeatPage
	err := c.get(heartbeatsAt, query, &late)
	v.Late, v.more = late.Items, late.Next != ""
	return err
}

// AllLate returns the address of the list of the late keys; empty: the page has all of them.
func (v heartbeatsView) AllLate() string {
	if !v.more {
		return ""
	}
	return v.inState("late")
}

// inState returns the address of the list of the keys in a state, with the other filters.
func (v heartbeatsView) inState(state string) string {
	l := listing{At: v.At, Filter: maps.Clone(v.Filter)}
	l.Filter["state"] = state
	return l.page("")
}

// heartbeatRow is the row of a key.
type heartbeatRow struct {
	web.Heartbeat
	now time.Time
}

// Row returns the row of a key.
func (v heartbeatsView) Row(h web.Heartbeat) heartbeatRow { return heartbeatRow{h, v.now} }

// Uptime formats the uptime of the key in a month: 0 is this one, 1 the last.
func (r heartbeatRow) Uptime(month int) uptimeText {
	if month >= len(r.Months) || r.Months[month].Share == nil {
		return uptimeText{}
	}
	return newUptimeText(r.Months[month], r.now)
}

// heartbeatTab is a state with the number of its keys.
type heartbeatTab struct {
	Name, At string
	Keys     int64
	Here     bool
}

// Tabs returns the states of keys, the grave ones first. A state without keys has no tab, except up and the current one.
func (v heartbeatsView) Tabs() (tabs []heartbeatTab) {
	var c web.HeartbeatCounts
	if v.Counts != nil {
		c = *v.Counts
	}
	for _, t := range []struct {
		state, name string
		keys        int64
	}{
		{"", "All", c.Up + c.Late + c.NeverReported + c.Paused + c.Unknown},
		{"late", "Late or failed", c.Late},
		{"unknown", "Unknown", c.Unknown},
		{"never_reported", "Never reported", c.NeverReported},
		{"paused", "Paused", c.Paused},
		{"up", "Up", c.Up},
	} {
		here := v.Filter["state"] == t.state
		if t.keys == 0 && !here && t.state != "" && t.state != "up" && t.state != "late" {
			continue
		}
		tabs = append(tabs, heartbeatTab{t.name, v.inState(t.state), t.keys, here})
	}
	return tabs
}

// CountedAt returns the time of the counts; zero if they are of the rows.
func (v heartbeatsView) CountedAt() (at time.Time) {
	if partly := v.cursor != "" || v.Next != "" || v.Filter["state"] != "" || v.Filter["key"] != ""; partly && v.Counts != nil {
		at = v.Counts.CountedAt
	}
	return at
}

// Months returns the names of the months of the uptimes.
func (v heartbeatsView) Months() [2]string {
	this := time.Date(v.now.Year(), v.now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return [2]string{this.Format("January"), this.AddDate(0, -1, 0).Format("January")}
}

// Ended returns the expected keys that nothing watches; empty beyond the first page.
func (v heartbeatsView) Ended() []web.UnwatchedKey {
	if v.cursor != "" {
		return nil
	}
	return v.HeartbeatPage.Unwatched
}

// Silent returns the names of the rules that nothing ever reported to; empty beyond the first page.
func (v heartbeatsView) Silent() []string {
	if v.cursor != "" {
		return nil
	}
	return v.NeverReported
}

// uptimeText is the uptime of a month.
type uptimeText struct {
	Share string // empty: unknown
	Known string // the known part of the month; empty: all of it
	Title string
	Late  bool
}

// knownShown is the part of a month so far below which the known part is shown.
const knownShown = 0.99

func newUptimeText(u web.Uptime, now time.Time) uptimeText {
	until := u.From.AddDate(0, 1, 0)
	if now.Before(until) {
		until = now
	}
	t := uptimeText{Share: sharePercent(*u.Share), Late: u.LateSeconds > 0}
	t.Title = "late for " + roughly(seconds(u.LateSeconds)) + " of " + roughly(seconds(u.KnownSeconds))
	if u.KnownSeconds < knownShown*until.Sub(u.From).Seconds() {
		t.Known = "of " + roughly(seconds(u.KnownSeconds))
		t.Title += "; the rest of the month is unknown"
	}
	return t
}

// sharePercent formats a share. It rounds down, so that only a whole is 100 %.
func sharePercent(share float64) string {
	if share >= 1 {
		return "100 %"
	}
	return fmt.Sprintf("%.2f %%", math.Floor(share*10000)/100)
}
