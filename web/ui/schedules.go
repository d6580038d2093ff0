package ui

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// schedulesView is the stored schedules of a rule, by id, and the one that the visitor selected.
type schedulesView struct {
	listing
	Rule      string
	Schedules []web.Schedule
	One       *scheduleView // nil: none is selected
}

// IsInactive reports whether the rule has another trigger now.
func (v schedulesView) IsInactive() bool {
	return len(v.Schedules) > 0 && v.Schedules[0].Inactive || v.One != nil && v.One.Inactive
}

// IsPaused reports whether the rule is paused or not enabled.
func (v schedulesView) IsPaused() bool {
	return len(v.Schedules) > 0 && v.Schedules[0].Paused || v.One != nil && v.One.Paused
}

// scheduleView is a stored schedule with its last ticks.
type scheduleView struct {
	web.Schedule
	Body  string // data of its events, indented; empty: that of the rule
	Ticks []web.ScheduleTick
	Form  tickForm
	Older string // address of the ticks before the shown ones; empty: there are none
}

// Over reports whether the schedule is enabled and has no further tick.
func (v scheduleView) Over() bool { return v.Enabled && !v.Inactive && !v.Paused && v.NextAt.IsZero() }

// schedules serves the stored schedules of a rule.
func (u *UI) schedules(c client, r *http.Request) (view, error) {
	v := schedulesView{listing: listingOf(r, "prefix"), Rule: chi.URLParam(r, "name")}
	query := v.query()
	query.Set("rule", v.Rule)
	var page web.Page[web.Schedule]
	if err := c.get("/schedules", query, &page); err != nil {
		return view{}, err
	}
	v.Schedules = page.Items
	v.goesOn(page.Next)
	id := r.URL.Query().Get("id")
	if id == "" {
		return view{Title: "Schedules of " + v.Rule, Body: v}, nil
	}
	var err error
	v.One, err = c.schedule(v.Rule, id)
	err = noSchedule(err, id, "The address may be mistyped, or the schedule was deleted. The page of ticks lists those of deleted schedules.")
	return view{Title: "Schedule " + id + " of " + v.Rule, Body: v}, err
}

// schedule reads a stored schedule and its last ticks.
func (c client) schedule(rule, id string) (*scheduleView, error) {
	v := &scheduleView{}
	at := "/schedules/" + url.PathEscape(rule)
	if err := c.get(at, url.Values{"id": {id}}, &v.Schedule); err != nil {
		return nil, err
	}
	v.Body = indented(v.Data)
	v.Form = newTickForm(listing{Filter: map[string]string{"id": id}}, rule)
	ticks, err := c.scheduleTicks(rule, url.Values{"id": {id}, "limit": {ruleTicks}})
	v.Ticks = ticks.Items
	if ticks.Next != "" {
		v.Older = v.Form.page(ticks.Next)
	}
	return v, err
}
