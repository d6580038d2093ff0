package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// tickFilters names the filters of ticks.
var tickFilters = []string{"id", "outcome", "late", "missed", "within", "from", "to"}

// tickForm is the filter of the ticks of stored schedules.
type tickForm struct {
	listing
	Rule   string
	Within string // span of the list, unless times are given
}

func newTickForm(l listing, rule string) tickForm {
	l.At = rulePath(rule) + "/ticks"
	within := l.Filter["within"]
	if within == "" {
		within = anyTime
	}
	return tickForm{l, rule, within}
}

// Spans returns the selectable spans.
func (tickForm) Spans() []span {
	return append([]span{{"the last hour", "1h", time.Hour}}, historySpans...)
}

// Outcomes returns the selectable outcomes.
func (tickForm) Outcomes() []futurejobs.TickOutcome {
	return []futurejobs.TickOutcome{
		futurejobs.TickEmitted, futurejobs.TickPlanned, futurejobs.TickPaused, futurejobs.TickSkipped, futurejobs.TickCanceled, futurejobs.TickUnknown, futurejobs.TickFailed,
	}
}

// Timed reports whether the list has exact times.
func (f tickForm) Timed() bool { return f.Filter["from"]+f.Filter["to"] != "" }

// ticksView is the ticks of the stored schedules of a rule, or of one of them, newest first.
type ticksView struct {
	tickForm
	Ticks []web.ScheduleTick
}

// ticks serves the ticks of the stored schedules of a rule.
func (u *UI) ticks(c client, r *http.Request) (view, error) {
	v := ticksView{tickForm: newTickForm(listingOf(r, tickFilters...), chi.URLParam(r, "name"))}
	query := v.query()
	query.Del("within")
	for _, s := range v.Spans() {
		if !v.Timed() && s.Text == v.Within && s.width > 0 {
			query.Set("from", u.Now().Add(-s.width).UTC().Format(time.RFC3339))
		}
	}
	page, err := c.scheduleTicks(v.Rule, query)
	if err != nil {
		return view{}, noSchedule(err, v.Filter["id"], "No tick of a deleted schedule has this ID either. The address may be mistyped.")
	}
	v.Ticks = page.Items
	v.goesOn(page.Next)
	return view{Title: "Ticks of " + v.Rule, Body: v, Still: v.Narrowed() || v.cursor != ""}, nil
}

// scheduleTicks reads a page of ticks of the stored schedules of a rule.
func (c client) scheduleTicks(rule string, query url.Values) (page web.Page[web.ScheduleTick], err error) {
	err = c.get("/schedules/"+url.PathEscape(rule)+"/ticks", query, &page)
	return page, err
}

// noSchedule gives the error of a missing schedule a title of its own: a missing page of a rule is reported as a missing rule.
func noSchedule(err error, id, remedy string) error {
	var p *web.Problem
	if id == "" || !errors.As(err, &p) || p.Status != http.StatusNotFound || !strings.HasPrefix(p.Detail, "schedule ") {
		return err
	}
	return &web.Problem{Status: http.StatusNotFound, Title: "No schedule " + id, Detail: remedy}
}
