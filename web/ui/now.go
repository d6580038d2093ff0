package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"deadman/web"
)

// nowRows is how much of each list the front page shows.
const nowRows = "12"

// nowView is the front page: is deadman all right, what went wrong, what is next.
type nowView struct {
	Fine     bool
	Sentence string
	Broken   []web.Condition
	Alerts   []web.Alert
	Rules    []web.Rule
	Jobs     []job
	MoreJobs bool
	Blind    string // why the lists could not be read; empty: they could
}

// now is the front page. Lists that can't be read are part of the news: this is what people look
// at when something is wrong.
func (u *UI) now(c client, _ *http.Request) (view, error) {
	state, err := c.readiness()
	if err != nil {
		return view{}, err
	}
	v := nowView{Fine: state.Fine}
	for _, condition := range state.Conditions {
		if !condition.OK {
			v.Broken = append(v.Broken, condition)
		}
	}
	if err := v.lists(c); err != nil {
		v.Fine, v.Blind = false, err.Error()
	}
	v.Sentence = v.sentence()
	return view{Title: v.Sentence, Body: v, Ill: !v.Fine}, nil
}

func (v *nowView) lists(c client) error {
	var said web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"limit": {nowRows}}, &said); err != nil {
		return err
	}
	var rules web.Page[web.Rule]
	if err := c.get("/rules", url.Values{"limit": {"500"}}, &rules); err != nil {
		return err
	}
	var jobs web.Page[web.Job]
	if err := c.get("/jobs", url.Values{"limit": {nowRows}}, &jobs); err != nil {
		return err
	}
	v.Alerts, v.Rules, v.Jobs, v.MoreJobs = said.Items, rules.Items, jobsOf(jobs.Items), jobs.Next != ""
	return nil
}

// sentence is how it is, in one.
func (v *nowView) sentence() string {
	var names []string
	for _, condition := range v.Broken {
		names = append(names, condition.Name)
	}
	switch {
	case v.Blind != "":
		return "deadman is not fine: its lists can't be read"
	case !v.Fine:
		return "deadman is not fine: " + strings.Join(names, ", ")
	case len(v.Rules) == 0:
		return "deadman is fine, and has no rules yet"
	case len(v.Jobs) == 0:
		return "deadman is fine, and waits for nothing at the moment"
	}
	return "deadman is fine"
}

// readiness is what the node says of itself.
func (c client) readiness() (state web.Readiness, err error) {
	r, err := c.request(http.MethodGet, "/readyz", nil)
	if err != nil {
		return state, err
	}
	var a answer
	c.api.ServeHTTP(&a, r)
	if err := json.Unmarshal(a.body.Bytes(), &state); err != nil { // 503 says what is wrong as well
		return state, fmt.Errorf("readiness: %w", err)
	}
	return state, nil
}
