package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// Verbs of alert actions.
const (
	acknowledged = "acknowledged"
	takenBack    = "unacknowledged"
)

// Bounds of acknowledging a group: alerts acknowledged per request, and pages read to find them. An answer is due
// within 30 seconds.
const (
	answeredMost = 1000
	pagesMost    = 20
)

// alertActions serves the actions on alerts.
type alertActions struct{ *UI }

// alertDeed acknowledges an alert, or removes its acknowledgement.
func (u alertActions) alertDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	id := chi.URLParam(r, "id")
	_, answer, err := ackClient{client{u.api, r}}.answer(r.PostForm)
	if err == nil {
		err = answer(id)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, alertAt(id), http.StatusSeeOther)
}

// alertsDeed acknowledges the chosen alerts or a whole group, or removes their acknowledgements.
func (u alertActions) alertsDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	c, chosen, rest, group := client{u.api, r}, r.PostForm["alert"], 0, r.PostForm.Has("group")
	if group && r.PostForm.Get("do") == "" {
		r.PostForm.Set("do", "ack") // a group's button names the group only; acknowledging is a group's only action
	}
	verb, answer, err := ackClient{c}.answer(r.PostForm)
	if err == nil && group {
		chosen, rest, err = ackClient{c}.groupOf(r.PostForm)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	d := bulkResult{Noun: "alert", Verb: verb, Back: returnPath(r.PostForm.Get("back")).String()}
	if !group && u.noneChosen(w, r, d, chosen) {
		return
	}
	d.each(r, chosen, answer)
	if rest > 0 {
		d.Left = append(d.Left, skipped{Why: fmt.Sprintf("at most %d at a time; repeat for the others", answeredMost), Number: rest})
	}
	ackClient{c}.nameAlerts(&d)
	u.report(w, r, d)
}

// ackClient acknowledges alerts.
type ackClient struct{ client }

// answer returns the action of a form on an alert id, and its verb. A form without an action is refused.
func (c ackClient) answer(form url.Values) (verb string, do func(id string) error, err error) {
	switch form.Get("do") {
	case "ack":
		wish := web.AckRequest{For: form.Get("for"), Note: form.Get("note")}
		return acknowledged, func(id string) error { return c.do(http.MethodPost, alertAt(id)+"/ack", nil, wish, nil) }, nil
	case "unack":
		return takenBack, func(id string) error { return c.do(http.MethodDelete, alertAt(id)+"/ack", nil, nil, nil) }, nil
	}
	return "", nil, nothingAsked("The form has no action: acknowledge or remove the acknowledgement.")
}

func alertAt(id string) string { return alertsAt + "/" + url.PathEscape(id) }

// groupOf returns the ids of a group's open alerts that can be acknowledged and are not yet. Alerts newer than the
// form's page are left out, because the visitor has not seen them. rest counts the alerts over the limit.
func (c ackClient) groupOf(form url.Values) (ids []string, rest int, err error) {
	if err := decodeForm(form, append([]string{"by", "group"}, inboxFilter...)...); err != nil {
		return nil, 0, err
	}
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
		return nil, 0, nothingAsked("The form does not list the displayed alerts. Reload the page.")
	}
	query.Set("open", "true")
	query.Set("limit", inboxMost)
	for range pagesMost {
		var page web.Page[web.Alert]
		if err := c.get(alertsAt, query, &page); err != nil {
			return nil, 0, err
		}
		for _, a := range page.Items {
			if (openAlert{Alert: a}).Answerable() && a.Acknowledged == nil && a.Record().Field(by) == name && a.ID.String() <= seen {
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

// nameAlerts replaces the ids of listed alerts by the alerts' texts. An alert that can't be read keeps its id.
func (c ackClient) nameAlerts(d *bulkResult) {
	for _, l := range d.Left {
		for i, id := range l.Named() {
			var a web.Alert
			if c.get(alertAt(id), nil, &a) == nil {
				l.Names[i] = a.Text
			}
		}
	}
}
