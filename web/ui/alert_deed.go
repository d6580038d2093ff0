package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// What is done to alerts.
const (
	acknowledged = "acknowledged"
	takenBack    = "unacknowledged"
)

// A group is acknowledged so many alerts at a time, of so many that are looked at: an answer has to
// come within 30 seconds.
const (
	answeredMost = 1000
	pagesMost    = 20
)

// alertDeed acknowledges an alert, or takes that back.
func (u *UI) alertDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	id := chi.URLParam(r, "id")
	c := client{u.api, r}
	if err := c.answer(r.PostForm)(id); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, alertAt(id), http.StatusSeeOther)
}

// alertsDeed acknowledges the chosen alerts, or a whole group, or takes that back.
func (u *UI) alertsDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	c, chosen, rest := client{u.api, r}, r.PostForm["alert"], 0
	if r.PostForm.Has("group") {
		var err error
		if chosen, rest, err = c.groupOf(r.PostForm); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	d := doing{Noun: "alert", Verb: acknowledged, Back: backOf(r.PostForm.Get("back")).String()}
	if r.PostForm.Get("do") == "unack" {
		d.Verb = takenBack
	}
	d.each(r, chosen, c.answer(r.PostForm))
	if rest > 0 {
		d.Left = append(d.Left, left{Why: fmt.Sprintf("at most %d are at a time; do it again for the others", answeredMost), Number: rest})
	}
	c.nameAlerts(&d)
	u.report(w, r, d)
}

// answer is what a form does to an alert, given its id.
func (c client) answer(form url.Values) func(id string) error {
	if form.Get("do") == "unack" {
		return func(id string) error { return c.do(http.MethodDelete, alertAt(id)+"/ack", nil, nil, nil) }
	}
	wish := web.AckWish{For: form.Get("for"), Note: form.Get("note")}
	return func(id string) error { return c.do(http.MethodPost, alertAt(id)+"/ack", nil, wish, nil) }
}

func alertAt(id string) string { return alertsAt + "/" + url.PathEscape(id) }

// groupOf is which alerts of a group can be acknowledged and are not yet, of those that the visitor
// has seen: what came meanwhile is not theirs to answer for. rest is how many are too many.
func (c client) groupOf(form url.Values) (ids []string, rest int, err error) {
	by, name := form.Get("by"), form.Get("group")
	query := url.Values{}
	for _, filter := range inboxFilter {
		if value := form.Get(filter); value != "" {
			query.Set(filter, value)
		}
	}
	if slices.Contains(inboxFilter, by) && name != "" {
		query.Set(by, name)
	}
	seen := form.Get("seen") // ids begin with their time
	if seen == "" {
		return nil, 0, nothingAsked("The form says not which alerts were seen; load the page again.")
	}
	query.Set("open", "true")
	query.Set("limit", inboxMost)
	for range pagesMost {
		var page web.Page[web.Alert]
		if err := c.get(alertsAt, query, &page); err != nil {
			return nil, 0, err
		}
		for _, a := range page.Items {
			if (openAlert{Alert: a}).Answerable() && a.Acknowledged == nil && a.Said().Field(by) == name && a.ID.String() <= seen {
				ids = append(ids, a.ID.String())
			}
		}
		if page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	if len(ids) > answeredMost {
		rest = len(ids) - answeredMost
	}
	return ids[:len(ids)-rest], rest, nil
}

// nameAlerts puts what alerts say in the place of the ids of those that are named; an alert that
// can't be read keeps its id.
func (c client) nameAlerts(d *doing) {
	for _, l := range d.Left {
		for i, id := range l.Named() {
			var a web.Alert
			if c.get(alertAt(id), nil, &a) == nil {
				l.Names[i] = a.Text
			}
		}
	}
}
