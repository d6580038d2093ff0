package ui

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// alertsView is what was said, newest first.
type alertsView struct {
	listing
	Alerts     []web.Alert
	Severities []string
	Statuses   []string
}

func (u *UI) alerts(c client, r *http.Request) (view, error) {
	v := alertsView{
		listing:    listingOf(r, "rule", "entity", "key", "severity", "status"),
		Severities: []string{"info", "warning", "error", "critical"},
		Statuses:   []string{"firing", "resolved", "undetermined", "gave_up", "expired"},
	}
	var page web.Page[web.Alert]
	if err := c.get("/alerts", v.query(), &page); err != nil {
		return view{}, err
	}
	v.Alerts = page.Items
	v.goesOn(page.Next)
	return view{Title: "Alerts", Body: v}, nil
}

// alertView is one alert, and what became of it.
type alertView struct {
	web.Alert
	Event, State string // as people read JSON; empty: there is none
}

func (u *UI) alert(c client, r *http.Request) (view, error) {
	var a web.Alert
	if err := c.get("/alerts/"+url.PathEscape(chi.URLParam(r, "id")), nil, &a); err != nil {
		return view{}, err
	}
	return view{Title: a.Text, Body: alertView{Alert: a, Event: indented(a.Event), State: indented(a.State)}}, nil
}

// alertDeed acknowledges an alert, or takes that back.
func (u *UI) alertDeed(w http.ResponseWriter, r *http.Request) {
	at := "/alerts/" + url.PathEscape(chi.URLParam(r, "id"))
	c := client{u.api, r}
	var err error
	if r.PostFormValue("do") == "unack" {
		err = c.do(http.MethodDelete, at+"/ack", nil, nil, nil)
	} else {
		err = c.do(http.MethodPost, at+"/ack", nil, web.AckWish{For: r.PostForm.Get("for"), Note: r.PostForm.Get("note")}, nil)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
}
