package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// editorView is a rule being written.
type editorView struct {
	Name    string // empty: it is a new one
	Version int32  // that is being changed
	Text    string
	Event   string
	Recent  []recent
	Wrong   []web.Detail
	Refused string // why it was not saved; empty: nobody tried, or it has problems
	Theirs  string // what the rule says that somebody saved meanwhile
}

// recent is an event that began a wait a while ago.
type recent struct{ Key, Event string }

const firstRule = `name: order-unshipped
description: An order was placed and nothing was shipped.
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 3h, step: primary, severity: warning, text: "order {{key}} waits since {{since}}"}
  - {after: 8h, step: escalated, severity: critical}
`

const firstEvent = `{"id": "1234"}`

func (u *UI) newRule(client, *http.Request) (view, error) {
	return view{Title: "New rule", Still: true, Body: editorView{Text: firstRule, Event: firstEvent}}, nil
}

func (u *UI) editRule(c client, r *http.Request) (view, error) {
	v, err := c.edited(chi.URLParam(r, "name"))
	return view{Title: v.Name, Body: v, Still: true}, err
}

// edited is a rule as it is, to be changed.
func (c client) edited(name string) (editorView, error) {
	v := editorView{Name: name, Event: firstEvent}
	var page web.Page[web.Rule]
	if err := c.get("/rules", url.Values{"name": {name}}, &page); err != nil {
		return v, err
	}
	if len(page.Items) == 0 {
		return v, &web.Problem{Status: http.StatusNotFound, Title: "There is no rule " + name}
	}
	v.Version = page.Items[0].Version
	var err error
	if v.Text, err = c.text("/rules/"+url.PathEscape(name), yamlType); err != nil {
		return v, err
	}
	if v.Recent, err = c.recent(name); len(v.Recent) > 0 {
		v.Event = v.Recent[0].Event
	}
	return v, err
}

const yamlType = "application/yaml"

// recentMost is how many events are offered.
const recentMost = 5

// recent are events that began waits of a rule which go on.
func (c client) recent(rule string) (all []recent, err error) {
	var page web.Page[web.Job]
	if err := c.get("/jobs", url.Values{"rule": {rule}, "limit": {strconv.Itoa(recentMost)}}, &page); err != nil {
		return nil, err
	}
	for _, listed := range page.Items {
		var j web.Job
		err := c.get("/jobs/"+url.PathEscape(rule), url.Values{"key": {listed.Key}}, &j)
		if problem := new(web.Problem); errors.As(err, &problem) && problem.Status == http.StatusNotFound {
			continue // it ended this moment
		}
		if err != nil {
			return all, err
		}
		if j.Event != nil {
			all = append(all, recent{j.Key, indented(j.Event)})
		}
	}
	return all, nil
}

// saveRule saves what was written, if the rule is still as it was when the writing began.
func (u *UI) saveRule(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
	v := editorView{Name: chi.URLParam(r, "name"), Text: r.PostFormValue("text"), Event: r.PostFormValue("event")}
	version, err := strconv.ParseInt(r.PostForm.Get("version"), 10, 32)
	if err != nil {
		u.fail(w, r, &web.Problem{Status: http.StatusBadRequest, Title: "The form is not whole", Detail: "Open the rule again."})
		return
	}
	v.Version = int32(version)
	c := client{u.api, r}
	change, err := c.save(v)
	problem := new(web.Problem)
	switch {
	case err == nil:
		http.Redirect(w, r, "/rules/"+url.PathEscape(change.Rule.Name), http.StatusSeeOther)
		return
	case !errors.As(err, &problem):
		u.fail(w, r, err)
		return
	case problem.Status == http.StatusPreconditionFailed && v.Name != "":
		if v, err = c.overtaken(v); err != nil {
			u.fail(w, r, err)
			return
		}
	default:
		v.Wrong = problem.Errors
		if len(v.Wrong) == 0 {
			v.Refused = problem.Detail
		}
	}
	u.render(w, r, problem.Status, "editor", view{Title: "Not saved", Body: v}, "")
}

func (c client) save(v editorView) (change web.RuleChange, err error) {
	method, path, header := http.MethodPost, "/rules", http.Header{"Content-Type": {yamlType}}
	if v.Name != "" {
		method, path = http.MethodPut, "/rules/"+url.PathEscape(v.Name)
		header.Set("If-Match", fmt.Sprintf(`"%d"`, v.Version))
	}
	a, err := c.ask(method, path, nil, header, []byte(v.Text))
	if err == nil {
		err = a.read(path, &change)
	}
	return change, err
}

// overtaken is what is being written, beside what somebody else saved meanwhile; saved again, it
// replaces that.
func (c client) overtaken(v editorView) (editorView, error) {
	now, err := c.edited(v.Name)
	v.Refused = fmt.Sprintf("Somebody saved version %d while you wrote. What you wrote is below; take over from theirs what you want to keep, and save again.", now.Version)
	v.Version, v.Theirs, v.Recent = now.Version, now.Text, now.Recent
	return v, err
}

// try shows what a rule that is being written would do because of an event.
func (u *UI) try(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
	text, err := json.Marshal(r.PostFormValue("text"))
	if err != nil {
		u.fail(w, r, err)
		return
	}
	t := client{u.api, r}.try("/rules/preview", r.PostFormValue("event"), func(ask web.PreviewAsk) any {
		return web.PreviewText{Rule: text, PreviewAsk: ask}
	})
	var out bytes.Buffer
	if err := u.templates["editor.html"].ExecuteTemplate(&out, "tried", t); err != nil {
		u.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(out.Bytes()) // a browser that left needs no answer
}
