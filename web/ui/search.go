package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"deadman/rules/document"

	"github.com/google/uuid"

	"deadman/alerts"
	"deadman/web"
)

// findView is the data of the search page.
type findView struct {
	Query string
	Found []found
	Begin []found // entities of pending jobs whose keys begin with Query, if it is no key itself
	Of    string  // the number of these entities, if there are more than in Begin; empty: Begin has all
}

// found is a result of a search.
type found struct {
	Kind string // rule, alert, or the kind of an entity
	Name string
	At   string // page of the result
}

// isEntity reports whether the result is a key of an entity.
func (f found) isEntity() bool { return strings.HasPrefix(f.At, "/entities/") }

// findMost bounds the results per kind.
const findMost = "20"

const (
	beginMost = 20  // entities that begin with a text on the page
	beginRead = 500 // pending jobs read to find them: the API has them in the order of their next checks
)

// Long reports whether the search text is longer than any key.
func (v findView) Long() bool { return !fits(v.Query) }

// MaxKey is the largest key, in bytes.
func (findView) MaxKey() int { return document.MaxKey }

// find searches for a rule by the prefix of its name, for an alert by its id or a part of it, and for an entity by
// its key, or by a prefix of the key of a pending job. An entity or rule name may precede the key. A single result redirects
// to its page.
func (u *UI) find(w http.ResponseWriter, r *http.Request) {
	v := findView{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	if v.Query != "" {
		var err error
		c := searchClient{client{u.api, r}}
		if v.Found, err = c.find(v.Query); err == nil && !slices.ContainsFunc(v.Found, found.isEntity) {
			var more bool
			v.Begin, more, err = c.findPrefix(v.Query)
			v.bound(more)
		}
		if err != nil {
			u.fail(w, r, err)
			return
		}
	}
	if all := slices.Concat(v.Found, v.Begin); len(all) == 1 {
		http.Redirect(w, r, all[0].At, http.StatusSeeOther)
		return
	}
	u.render(w, r, http.StatusOK, "search", view{Title: "Search", Body: v}, "")
}

// bound keeps the first entities that begin with the text. more reports whether others were not read.
func (v *findView) bound(more bool) {
	switch n := len(v.Begin); {
	case more:
		v.Of = "more than " + number(n)
	case n > beginMost:
		v.Of = number(n)
	}
	v.Begin = v.Begin[:min(len(v.Begin), beginMost)]
}

// searchClient searches by what a user typed.
type searchClient struct{ client }

func (c searchClient) find(text string) ([]found, error) {
	var all []found
	for _, find := range []func(string) ([]found, error){c.findAlert, c.findKey, c.findQualified, c.findRules} {
		some, err := find(text)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// findAlert finds an alert by its id, or the alerts with a part of an id as in deadman alert list.
func (c searchClient) findAlert(text string) ([]found, error) {
	if uuid.Validate(text) != nil {
		return c.findAlerts(text)
	}
	var a web.Alert
	if is, err := exists(c.get("/alerts/"+url.PathEscape(text), nil, &a)); !is || err != nil {
		return nil, err
	}
	return []found{{"alert", a.Text, "/alerts/" + a.ID.String()}}, nil
}

func (c searchClient) findAlerts(part string) (all []found, err error) {
	if !alerts.IsPartialID(part) {
		return nil, nil
	}
	var page web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"id": {part}, "limit": {findMost}}, &page); err != nil {
		return nil, err
	}
	for _, a := range page.Items {
		all = append(all, found{"alert", a.Text, "/alerts/" + a.ID.String()})
	}
	return all, nil
}

func (c searchClient) findRules(text string) (all []found, err error) {
	if !fits(text) {
		return nil, nil
	}
	var page web.Page[web.Rule]
	if err := c.get("/rules", url.Values{"prefix": {text}, "limit": {findMost}}, &page); err != nil {
		return nil, err
	}
	for _, r := range page.Items {
		all = append(all, found{"rule", r.Name, "/rules/" + url.PathEscape(r.Name)})
	}
	return all, nil
}

// findKey finds the entities with a key in pending jobs and in the history.
func (c searchClient) findKey(text string) (all []found, err error) {
	if !fits(text) {
		return nil, nil
	}
	query := url.Values{"key": {text}, "limit": {findMost}}
	var jobs web.Page[web.Job]
	if err := c.get("/jobs", query, &jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs.Items {
		all = append(all, foundEntity(j.Entity, j.Key))
	}
	var ended web.Page[web.EndedJob]
	if err := c.get("/history", query, &ended); err != nil {
		return nil, err
	}
	for _, e := range ended.Items {
		all = append(all, foundEntity(e.Entity, e.Key))
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.Kind, b.Kind) })
	return slices.Compact(all), nil
}

// findPrefix finds the entities of pending jobs with keys that begin with a text, by key. more reports whether others were not
// read.
func (c searchClient) findPrefix(text string) (all []found, more bool, err error) {
	if !fits(text) {
		return nil, false, nil
	}
	limit := strconv.Itoa(beginRead)
	queries := []url.Values{{"key_prefix": {text}, "limit": {limit}}}
	if entity, prefix, is := strings.Cut(text, " "); is && strings.TrimSpace(prefix) != "" {
		queries = append(queries, url.Values{"entity": {entity}, "key_prefix": {strings.TrimSpace(prefix)}, "limit": {limit}})
	}
	for _, query := range queries {
		var page web.Page[web.Job]
		if err := c.get("/jobs", query, &page); err != nil {
			return nil, false, err
		}
		for _, j := range page.Items {
			all = append(all, foundEntity(j.Entity, j.Key))
		}
		more = more || page.Next != ""
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	return slices.Compact(all), more, nil
}

// findQualified finds an entity by its kind and key, or by a rule and key.
func (c searchClient) findQualified(text string) ([]found, error) {
	before, key, is := strings.Cut(text, " ")
	if key = strings.TrimSpace(key); is && key != "" && fits(before) && fits(key) {
		var e web.Entity
		if err := c.get("/entities/"+url.PathEscape(before), url.Values{"key": {key}}, &e); err != nil {
			return nil, err
		}
		if len(e.Jobs.Items)+len(e.History.Items)+len(e.Alerts.Items) > 0 {
			return []found{foundEntity(before, key)}, nil
		}
	}
	if before, key, is = strings.Cut(text, "/"); is && before != "" && key != "" && fits(before) && fits(key) {
		var j web.Job
		if is, err := exists(c.get("/jobs/"+url.PathEscape(before), url.Values{"key": {key}}, &j)); is || err != nil {
			return []found{foundEntity(j.Entity, j.Key)}, err
		}
	}
	return nil, nil
}

// fits reports whether a text is short enough for a key or name.
func fits(text string) bool { return len(text) <= document.MaxKey }

func foundEntity(entity, key string) found { return found{entity, key, entityPath(entity, key)} }

// exists reports whether a read succeeded. It turns 404 and 403 into false without an error.
func exists(err error) (bool, error) {
	if problem := asProblem(err); problem != nil && (problem.Status == http.StatusNotFound || problem.Status == http.StatusForbidden) {
		return false, nil
	}
	return err == nil, err
}
