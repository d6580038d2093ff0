package ui

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// pathEscape escapes a name for a path.
func pathEscape(name string) string { return url.PathEscape(name) }

// entityView is the page of one entity: its pending jobs and its past ones.
type entityView struct {
	Entity, Key string
	Waits       []pendingView
	Past        []jobStory
	More        bool // older entries exist
	Result      *bulkResult
	May         permissions
}

// Newest returns the job that ended last, or nil.
func (v entityView) Newest() *web.EndedJob {
	if len(v.Past) == 0 {
		return nil
	}
	return v.Past[0].Ended
}

// NextAt returns the next check of the only pending job. It is nil without a single pending job, or without a next
// check.
func (v entityView) NextAt() *time.Time {
	if len(v.Waits) != 1 || v.Waits[0].NextCheckAt.IsZero() {
		return nil
	}
	return &v.Waits[0].NextCheckAt
}

// shownWhole is the number of alerts shown with their deliveries.
const shownWhole = 10

func (u *UI) entity(c client, r *http.Request) (view, error) {
	entity, key := chi.URLParam(r, "entity"), r.URL.Query().Get("key")
	if key == "" {
		return view{}, &web.Problem{Status: http.StatusBadRequest, Title: "Which " + entity + "?", Detail: "Add the key to the address: /entities/" + entity + "?key=…, or use the search field."}
	}
	var known web.Entity
	if err := c.get("/entities/"+pathEscape(entity), url.Values{"key": {key}}, &known); err != nil {
		return view{}, err
	}
	v := entityView{Entity: entity, Key: key, Result: jobsDone(r.URL.Query())}
	var err error
	if v.May, err = c.may(); err != nil {
		return view{}, err
	}
	if err := c.delivered(known.Alerts.Items); err != nil {
		return view{}, err
	}
	for _, j := range known.Jobs.Items {
		w, err := c.waitingFor(j, storyOf(j, nil, alertsOfJob(j, known.Alerts.Items)))
		if err != nil {
			return view{}, err
		}
		w.Actions = v.actionsOn(w)
		if w.Reaches, err = c.channelsOf(j.Rule, w.alertID()); err != nil {
			return view{}, err
		}
		v.Waits = append(v.Waits, w)
	}
	for _, e := range known.History.Items {
		v.Past = append(v.Past, storyOf(e.Job, &e, alertsOfJob(e.Job, known.Alerts.Items)))
	}
	v.More = known.History.Next != "" || known.Alerts.Next != ""
	return view{Title: entity + " " + key, Body: v}, nil
}

// actionsOn returns the actions that the visitor may do on a pending job; nil: none.
func (v entityView) actionsOn(w pendingView) *actionRow {
	if !v.May.Answer && !v.May.Change {
		return nil
	}
	row := actionRow{permissions: v.May, Job: w.ID, Back: entityPath(v.Entity, v.Key), Acknowledged: w.Acknowledged != nil, MuteAt: muteOf("rule", w.Rule)}
	row.Alert = w.alertID()
	return &row
}

// delivered adds the deliveries to the newest alerts.
func (c client) delivered(all []web.Alert) error {
	for i := range all[:min(len(all), shownWhole)] {
		a := &all[i]
		if err := c.get("/alerts/"+a.ID.String(), nil, a); err != nil && asProblem(err) == nil {
			return err // an alert deleted meanwhile is shown as listed
		}
	}
	return nil
}
