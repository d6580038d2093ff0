package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"deadman/rules"
	"deadman/web"
)

// rulesView is all rules, by name.
type rulesView struct {
	listing
	Rules []web.Rule
}

func (u *UI) rules(c client, r *http.Request) (view, error) {
	v := rulesView{listing: listingOf(r, "prefix", "entity")}
	var page web.Page[web.Rule]
	if err := c.get("/rules", v.query(), &page); err != nil {
		return view{}, err
	}
	v.Rules = page.Items
	v.goesOn(page.Next)
	return view{Title: "Rules", Body: v}, nil
}

// ruleView is a rule: what it says, how it escalates, what it was, and what it would do.
type ruleView struct {
	web.Rule
	Text     string // as YAML
	Begins   string // what begins a wait, in words
	Steps    []rung
	Versions []web.RuleVersion
	Diff     string // what the newest version changed
	Tried    *tried // what it would do because of an event; nil: nobody asked
}

// rung is a step of an escalation as it is drawn.
type rung struct {
	rules.Step
	When string
}

// tried is a preview that was asked for.
type tried struct {
	Event string
	Wrong string // why there is none; empty: there is
	rules.Preview
}

func (u *UI) rule(c client, r *http.Request) (view, error) {
	v, err := c.rule(chi.URLParam(r, "name"))
	return view{Title: v.Name, Body: v, Still: true}, err
}

// rule is what the API knows of a rule.
func (c client) rule(name string) (v ruleView, err error) {
	path := "/rules/" + url.PathEscape(name)
	var page web.Page[web.Rule]
	if err := c.get("/rules", url.Values{"name": {name}}, &page); err != nil {
		return v, err
	}
	if len(page.Items) == 0 {
		return v, &web.Problem{Status: http.StatusNotFound, Title: "There is no rule " + name, Detail: "It may have been deleted; the history keeps its jobs."}
	}
	v.Rule = page.Items[0]
	if v.Text, err = c.text(path, "application/yaml"); err != nil {
		return v, err
	}
	var d rules.Document
	if err := c.get(path, nil, &d); err != nil {
		return v, err
	}
	v.Begins, v.Steps = begins(d.Trigger), ladder(d.Escalate)
	var versions web.Page[web.RuleVersion]
	if err := c.get(path+"/versions", url.Values{"limit": {"20"}}, &versions); err != nil {
		return v, err
	}
	v.Versions = versions.Items
	if v.Version > 1 {
		var diff web.RuleDiff
		if err := c.get(path+"/diff", nil, &diff); err != nil {
			return v, err
		}
		v.Diff = diff.Diff
	}
	return v, nil
}

// begins says what begins a wait.
func begins(t rules.Trigger) string {
	switch h := t.Heartbeat; {
	case h != nil && h.Event == "":
		return "a ping stays away"
	case h != nil:
		return "a beat on " + h.Event + ", or a ping, stays away"
	case t.Emit != nil:
		return "each tick of " + t.Schedule + " (" + cmp.Or(t.Zone, "UTC") + ") publishes an event on " + t.Emit.Subject
	case t.Schedule != "":
		return "each tick of " + t.Schedule + " (" + cmp.Or(t.Zone, "UTC") + ")"
	case t.If != "":
		return "an event on " + t.Event + " for which " + t.If
	}
	return "an event on " + t.Event
}

// ladder are the steps with when they are taken, in words.
func ladder(steps []rules.Step) []rung {
	all := make([]rung, len(steps))
	for i, s := range steps {
		all[i] = rung{Step: s, When: whenOf(s)}
	}
	return all
}

func whenOf(s rules.Step) string {
	var when string
	switch {
	case s.Until != "":
		when = fmt.Sprintf("every %s until %s", s.Every, s.Until)
	case s.Every > 0:
		when = fmt.Sprintf("every %s, %d times", s.Every, s.Times)
	case s.At != "":
		when = "at " + s.At
	case s.After.Computed != "":
		when = "after " + s.After.Computed
	case s.After.AtOnce:
		when = "at once"
	default:
		when = "after " + s.After.Fixed.String()
	}
	if s.Of != "" {
		when += " of " + s.Of + " time"
	}
	if s.Within != "" {
		when += ", when " + s.Within + " is open"
	}
	return when
}

// ruleDeed tries a rule, pauses it, or lets it go on.
func (u *UI) ruleDeed(w http.ResponseWriter, r *http.Request) {
	c, name := client{u.api, r}, chi.URLParam(r, "name")
	path := "/rules/" + url.PathEscape(name)
	switch what := r.PostFormValue("do"); what {
	case "pause", "resume":
		if err := c.do(http.MethodPost, path+"/"+what, nil, nil, nil); err != nil {
			u.fail(w, r, err)
			return
		}
		http.Redirect(w, r, path, http.StatusSeeOther)
	default:
		v, err := c.rule(name)
		if err != nil {
			u.fail(w, r, err)
			return
		}
		v.Tried = c.try(path+"/preview", r.PostFormValue("event"), func(ask web.PreviewAsk) any { return ask })
		u.render(w, r, http.StatusOK, "rule", view{Title: name, Body: v}, "")
	}
}

// try asks what a rule would do because of an event. question is what the path is asked.
func (c client) try(path, event string, question func(web.PreviewAsk) any) *tried {
	t := &tried{Event: event}
	if !json.Valid([]byte(event)) {
		t.Wrong = `The event is not JSON. Write an object, such as {"id": "1234"}.`
		return t
	}
	ask := question(web.PreviewAsk{Event: web.PreviewEvent{Data: json.RawMessage(event)}})
	if err := c.do(http.MethodPost, path, nil, ask, &t.Preview); err != nil {
		t.Wrong = err.Error()
	}
	return t
}
