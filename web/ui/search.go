package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/web"
)

// findView is what goes by what somebody typed.
type findView struct {
	Asked string
	Found []found
}

// found is something that goes by what was asked for.
type found struct {
	Kind string // rule, alert, or the kind of an entity
	Name string
	At   string // its page
}

// findMost bounds what is found of one kind.
const findMost = "20"

// Long reports whether what was asked for is longer than any key.
func (v findView) Long() bool { return !fits(v.Asked) }

// MaxKey is the most that a key may hold, in bytes.
func (findView) MaxKey() int { return rules.MaxKey }

// find shows what goes by a text: a rule's name or the beginning of some, an alert's id or a part of it, or the key
// of an entity, alone or after the entity's or the rule's name. What is the only one is shown at once.
func (u *UI) find(w http.ResponseWriter, r *http.Request) {
	v := findView{Asked: strings.TrimSpace(r.URL.Query().Get("q"))}
	if v.Asked != "" {
		var err error
		if v.Found, err = (client{u.api, r}).find(v.Asked); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	if len(v.Found) == 1 {
		http.Redirect(w, r, v.Found[0].At, http.StatusSeeOther)
		return
	}
	u.render(w, r, http.StatusOK, "find", view{Title: "Find", Body: v}, "")
}

func (c client) find(asked string) ([]found, error) {
	var all []found
	for _, look := range []func(string) ([]found, error){c.findAlert, c.findKey, c.findQualified, c.findRules} {
		some, err := look(asked)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// findAlert finds the alert of an id, or the newest ones whose ids have a part, as deadman alert list
// shows them.
func (c client) findAlert(asked string) ([]found, error) {
	if uuid.Validate(asked) != nil {
		return c.findAlerts(asked)
	}
	var a web.Alert
	if is, err := exists(c.get("/alerts/"+url.PathEscape(asked), nil, &a)); !is || err != nil {
		return nil, err
	}
	return []found{{"alert", a.Text, "/alerts/" + a.ID.String()}}, nil
}

func (c client) findAlerts(part string) (all []found, err error) {
	if !alerts.IsPartialID(part) {
		return nil, nil
	}
	var page web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"limit": {strconv.Itoa(futurejobs.MaxLimit)}}, &page); err != nil {
		return nil, err
	}
	for _, a := range page.Items {
		if alerts.MatchesPartialID(a.ID, part) {
			all = append(all, found{"alert", a.Text, "/alerts/" + a.ID.String()})
		}
	}
	return all, nil
}

func (c client) findRules(asked string) (all []found, err error) {
	if !fits(asked) {
		return nil, nil
	}
	var page web.Page[web.Rule]
	if err := c.get("/rules", url.Values{"prefix": {asked}, "limit": {findMost}}, &page); err != nil {
		return nil, err
	}
	for _, r := range page.Items {
		all = append(all, found{"rule", r.Name, "/rules/" + url.PathEscape(r.Name)})
	}
	return all, nil
}

// findKey finds the entities that have a key: those that are waited for, and those that were.
func (c client) findKey(asked string) (all []found, err error) {
	if !fits(asked) {
		return nil, nil
	}
	query := url.Values{"key": {asked}, "limit": {findMost}}
	var jobs web.Page[web.Job]
	if err := c.get("/jobs", query, &jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs.Items {
		all = append(all, foundEntity(j.Entity, j.Key))
	}
	var ended web.Page[web.Ended]
	if err := c.get("/history", query, &ended); err != nil {
		return nil, err
	}
	for _, e := range ended.Items {
		all = append(all, foundEntity(e.Entity, e.Key))
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.Kind, b.Kind) })
	return slices.Compact(all), nil
}

// findQualified finds the entity of a key that stands after its kind, or after the name of a rule.
func (c client) findQualified(asked string) ([]found, error) {
	before, key, is := strings.Cut(asked, " ")
	if key = strings.TrimSpace(key); is && key != "" && fits(before) && fits(key) {
		var e web.Entity
		if err := c.get("/entities/"+url.PathEscape(before), url.Values{"key": {key}}, &e); err != nil {
			return nil, err
		}
		if len(e.Jobs.Items)+len(e.History.Items)+len(e.Alerts.Items) > 0 {
			return []found{foundEntity(before, key)}, nil
		}
	}
	if before, key, is = strings.Cut(asked, "/"); is && before != "" && key != "" && fits(before) && fits(key) {
		var j web.Job
		if is, err := exists(c.get("/jobs/"+url.PathEscape(before), url.Values{"key": {key}}, &j)); is || err != nil {
			return []found{foundEntity(j.Entity, j.Key)}, err
		}
	}
	return nil, nil
}

// fits reports whether the API takes a text as a key, or as a name: of a longer one there is nothing.
func fits(text string) bool { return len(text) <= rules.MaxKey }

func foundEntity(entity, key string) found { return found{entity, key, entityPath(entity, key)} }

// exists reports whether what was asked for is there, and any error but that it is not, or is not
// for the visitor: what is closed to them is not found.
func exists(err error) (bool, error) {
	if problem := asProblem(err); problem != nil && (problem.Status == http.StatusNotFound || problem.Status == http.StatusForbidden) {
		return false, nil
	}
	return err == nil, err
}
