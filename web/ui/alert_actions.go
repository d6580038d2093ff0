package ui

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"deadman/web"
)

// Verbs of alert actions.
const (
	acknowledged = "acknowledged"
	takenBack    = "unacknowledged"
	closed       = "closed"
)

// alertActions serves the actions on alerts.
type alertActions struct{ *UI }

// handleAlertAction acknowledges or closes an alert, or removes its acknowledgement.
func (u alertActions) handleAlertAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	id := chi.URLParam(r, "id")
	to := alertAt(id)
	if back := r.PostForm.Get("back"); back != "" {
		to = returnPath(back).String()
	}
	_, answer, err := ackClient{client{u.api, r}}.answer(r.PostForm)
	if err == nil {
		err = answer(id)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// handleAlertsAction acknowledges the chosen alerts or a whole group, or removes their acknowledgements.
func (u alertActions) handleAlertsAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	switch {
	case r.PostForm.Has("group"):
		u.handleGroupAction(w, r)
		return
	case r.PostForm.Has("snooze"):
		u.handleGroupSnooze(w, r)
		return
	}
	if r.PostForm.Get("do") == "unack-all" {
		u.handleUnackAll(w, r)
		return
	}
	c, chosen := client{u.api, r}, r.PostForm["alert"]
	verb, answer, err := ackClient{c}.answer(r.PostForm)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	d := bulkResult{Noun: "alert", Verb: verb, Back: returnPath(r.PostForm.Get("back")).String()}
	if u.noneChosen(w, r, d, chosen) {
		return
	}
	d.each(r, chosen, answer)
	ackClient{c}.nameAlerts(&d)
	u.report(w, r, d)
}

// handleGroupAction acknowledges all alerts of a group that the visitor has seen.
func (u alertActions) handleGroupAction(w http.ResponseWriter, r *http.Request) {
	if do := r.PostForm.Get("do"); do != "" && do != "ack" {
		u.fail(w, r, invalidAction("The form has no action: a group can only be acknowledged."))
		return
	}
	did, err := ackClient{client{u.api, r}}.acknowledgeGroup(r.PostForm)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.reportGroup(w, r, bulkResult{Noun: "alert", Verb: acknowledged, Done: int(did.Acknowledged)}, []skipped{
		{Why: "their jobs ended meanwhile", Number: int(did.Ended)},
		{Why: "they are about outages and close when the outage ends", Number: int(did.Outages)},
		{Why: "they are about lost data: close them", Number: int(did.Losses)},
		{Why: "the time of the request is over; repeat it for the others", Number: int(did.Remaining)},
	})
}

// handleUnackAll removes the acknowledgements of all alerts of a page's filter that the visitor has seen.
func (u alertActions) handleUnackAll(w http.ResponseWriter, r *http.Request) {
	var did web.UnackAllResult
	match, seen, err := filtered(r.PostForm)
	if err == nil {
		if len(match) == 0 {
			match["all"] = true
		}
		err = client{u.api, r}.do(http.MethodPost, alertsAt+"/unack", nil, map[string]any{"match": match, "through": seen}, &did)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.reportGroup(w, r, bulkResult{Noun: "alert", Verb: takenBack, Done: int(did.Unacknowledged)}, []skipped{
		{Why: "their jobs ended meanwhile", Number: int(did.Ended)},
		{Why: "the time of the request is over; repeat it for the others", Number: int(did.Remaining)},
	})
}

// groupSnooze is the duration of the snooze of a group.
const groupSnooze = "1h"

// handleGroupSnooze snoozes the jobs of all alerts of a group that the visitor has seen.
func (u alertActions) handleGroupSnooze(w http.ResponseWriter, r *http.Request) {
	var did web.SnoozeAllResult
	c := ackClient{client{u.api, r}}
	request, err := c.group(r.PostForm, "snooze")
	if err == nil {
		request["for"] = groupSnooze
		err = c.do(http.MethodPost, alertsAt+"/snooze", nil, request, &did)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.reportGroup(w, r, bulkResult{Noun: "job", Verb: jobVerbs["snooze"], Done: int(did.Snoozed), Idle: int(did.Ineffective)}, []skipped{
		{Why: "their jobs are paused", Number: int(did.Paused)},
		{Why: "the end of the snooze is beyond the horizon of their rules", Number: int(did.BeyondHorizon)},
		{Why: "their jobs ended meanwhile", Number: int(did.Ended)},
		{Why: "they are about outages and close when the outage ends", Number: int(did.Outages)},
		{Why: "they are about lost data: close them", Number: int(did.Losses)},
		{Why: "the time of the request is over; snooze the others by deadman alert snooze", Number: int(did.Remaining)},
	})
}

// reportGroup shows the result of an action on a group, with the alerts that it left out.
func (u alertActions) reportGroup(w http.ResponseWriter, r *http.Request, d bulkResult, left []skipped) {
	d.Back = returnPath(r.PostForm.Get("back")).String()
	for _, l := range left {
		if l.Number > 0 {
			d.Left = append(d.Left, l)
		}
	}
	u.report(w, r, d)
}

// ackClient acknowledges alerts.
type ackClient struct{ client }

// answer returns the action of a form on an alert id, and its verb. A form without an action is refused.
func (c ackClient) answer(form url.Values) (verb string, do func(id string) error, err error) {
	switch form.Get("do") {
	case "ack":
		request := web.AckRequest{For: form.Get("for"), Note: form.Get("note")}
		return acknowledged, func(id string) error { return c.do(http.MethodPost, alertAt(id)+"/ack", nil, request, nil) }, nil
	case "close":
		request := web.CloseRequest{Reason: form.Get("reason")}
		return closed, func(id string) error { return c.do(http.MethodPost, alertAt(id)+"/close", nil, request, nil) }, nil
	case "unack":
		return takenBack, func(id string) error { return c.do(http.MethodDelete, alertAt(id)+"/ack", nil, nil, nil) }, nil
	}
	return "", nil, invalidAction("The form has no action: acknowledge or remove the acknowledgement.")
}

func alertAt(id string) string { return alertsAt + "/" + url.PathEscape(id) }

// acknowledgeGroup acknowledges a group's open alerts.
func (c ackClient) acknowledgeGroup(form url.Values) (did web.AckAllResult, err error) {
	request, err := c.group(form, "group")
	if err != nil {
		return did, err
	}
	request["for"], request["note"] = form.Get("for"), form.Get("note")
	err = c.do(http.MethodPost, alertsAt+"/ack", nil, request, &did)
	return did, err
}

// group returns the part of a request that selects the open alerts of a group, whose value is in a field of the form.
// Alerts newer than the form's page are left out, because the visitor has not seen them.
func (c ackClient) group(form url.Values, field string) (request map[string]any, err error) {
	if err := decodeForm(form, "by", field); err != nil {
		return nil, err
	}
	match, seen, err := filtered(form)
	if err != nil {
		return nil, err
	}
	parameter, value := narrowed(form.Get("by"), form.Get(field))
	match[parameter] = value
	return map[string]any{"match": match, "through": seen}, nil
}

// filtered returns the filters of a form's page, and the newest alert that the visitor has seen there.
func filtered(form url.Values) (match map[string]any, seen uuid.UUID, err error) {
	if err := decodeForm(form, inboxFilter...); err != nil {
		return nil, seen, err
	}
	if seen, err = uuid.Parse(form.Get("seen")); err != nil {
		return nil, seen, invalidAction("The form does not list the displayed alerts. Reload the page.")
	}
	match = map[string]any{}
	for _, filter := range inboxFilter {
		if value := form.Get(filter); value != "" {
			match[filter] = value
		}
	}
	return match, seen, nil
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
