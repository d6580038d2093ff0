package ui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/web"
)

// mutesAt is the path of the mutes.
const mutesAt = "/mutes"

// ended is the verb for a deleted mute or session.
const ended = "ended"

// alertTabs are the tabs of the pages about alerts.
type alertTabs struct {
	Here string
	Some bool // the visitor is limited to some rules and sees no mutes
}

// mutesView lists the mutes, with a form for a new one.
type mutesView struct {
	listing
	permissions
	Live   []mute // in effect
	Later  []mute // they begin later
	Past   []mute
	Form   muteForm
	Reach  *reach   // effect of the new mute; nil: no fields yet
	Made   *reach   // effect of the mute that was just created; nil: none was
	Errors []string // errors of the new mute; empty: none
	Done   *bulkResult
}

// mute is a mute for display.
type mute struct {
	web.Mute
	Matches []matched
}

// matched is a field of a mute with its pattern.
type matched struct{ Name, Pattern string }

// muteForm is the form of a new mute.
type muteForm struct {
	Fields []matched // fields of every alert
	Labels string    // name=pattern, one per line
	Starts string    // UTC; empty: now
	For    string
	Reason string
}

// reach is the effect of a mute.
type reach struct {
	web.MuteReach
	Any []matched
}

// muteClient reads mutes.
type muteClient struct{ client }

// reach reads the open alerts that a mute matches; nil: the mute has no matchers, or invalid ones. It also lists the patterns with a *, because a * can't be escaped and matches any text.
func (c muteClient) reach(match map[string]string) (*reach, error) {
	if len(match) == 0 {
		return nil, nil
	}
	r := &reach{}
	for _, name := range slices.Sorted(maps.Keys(match)) {
		if strings.Contains(match[name], "*") {
			r.Any = append(r.Any, matched{name, match[name]})
		}
	}
	err := c.do(http.MethodPost, mutesAt+"/preview", nil, web.MuteMatch{Match: match}, &r.MuteReach)
	if p := asProblem(err); p != nil && p.Status == http.StatusUnprocessableEntity {
		return nil, nil
	}
	return r, err
}

// muteFields names the fields of the form.
var muteFields = []string{"rule", "entity", "key", "severity"}

// muteSpans are the selectable durations of a mute.
var muteSpans = []span{{Words: "15 minutes", Text: "15m"}, {Words: "1 hour", Text: "1h"}, {Words: "4 hours", Text: "4h"}, {Words: "1 day", Text: "1d"}, {Words: "a week", Text: "7d"}, {Words: "30 days", Text: "30d"}}

// Spans returns the selectable durations.
func (muteForm) Spans() []span { return muteSpans }

// Severities returns the severities of alerts.
func (muteForm) Severities() []string { return severities }

// mutePages serves the page of mutes, and its actions.
type mutePages struct{ *UI }

func (u mutePages) mutes(c client, r *http.Request) (view, error) {
	v, err := muteClient{c}.mutes(r)
	if err != nil {
		return view{}, err
	}
	v.Form = muteFormOf(r.URL.Query())
	if v.Mute() {
		if v.Reach, err = (muteClient{c}).reach(v.Form.match()); err != nil {
			return view{}, err
		}
		if v.Made, err = (muteClient{c}).reach(v.made(r.URL.Query().Get("made"))); err != nil {
			return view{}, err
		}
	}
	v.Done = flashOf(r.URL.Query(), "mute", ended, "created")
	// A visitor allowed to mute may be filling in the form.
	return view{Title: "Mutes", Body: v, Still: v.Mute()}, err
}

// active reads the newest mutes in effect; none for a visitor who may not see them.
func (c muteClient) active() ([]web.Mute, error) {
	var page web.Page[web.Mute]
	err := c.get(mutesAt, url.Values{"active": {"true"}}, &page)
	if isForbidden(err) {
		return nil, nil
	}
	return page.Items, err
}

// mutes reads the mutes.
func (c muteClient) mutes(r *http.Request) (v mutesView, err error) {
	v.listing = listingOf(r)
	v.At = mutesAt
	if v.permissions, err = c.may(); err != nil {
		return v, err
	}
	var page web.Page[web.Mute]
	if err := c.get(mutesAt, v.query(), &page); err != nil {
		return v, err
	}
	for _, m := range page.Items {
		shown := mute{Mute: m}
		for _, name := range slices.Sorted(maps.Keys(m.Match)) {
			shown.Matches = append(shown.Matches, matched{name, m.Match[name]})
		}
		switch alerts.MuteState(m.State) {
		case alerts.MuteActive:
			v.Live = append(v.Live, shown)
		case alerts.MutePending:
			v.Later = append(v.Later, shown)
		case alerts.MuteEnded:
			v.Past = append(v.Past, shown)
		}
	}
	v.goesOn(page.Next)
	return v, nil
}

// made returns the matchers of a listed mute by its ID.
func (v mutesView) made(id string) map[string]string {
	for _, m := range slices.Concat(v.Live, v.Later) {
		if strconv.FormatInt(m.ID, 10) == id {
			return m.Match
		}
	}
	return nil
}

// Warnings returns the lines of the warning.
func (r reach) Warnings() []string {
	return strings.FieldsFunc(r.Warning, func(c rune) bool { return c == '\n' })
}

// muteFormOf reads the form of a new mute, or a link to it. Parameters with the prefix label. become labels.
func muteFormOf(form url.Values) muteForm {
	w := muteForm{Labels: form.Get("labels"), Starts: form.Get("starts"), For: form.Get("for"), Reason: form.Get("reason")}
	for _, name := range muteFields {
		w.Fields = append(w.Fields, matched{name, form.Get(name)})
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if label, ok := strings.CutPrefix(name, "label."); ok {
			w.Labels = strings.TrimPrefix(w.Labels+"\n"+label+"="+form.Get(name), "\n")
		}
	}
	return w
}

// Field returns the pattern of a field.
func (w muteForm) Field(name string) string {
	for _, f := range w.Fields {
		if f.Name == name {
			return f.Pattern
		}
	}
	return ""
}

// Open reports whether any field is filled in.
func (w muteForm) Open() bool {
	return w.Labels+w.Starts+w.For+w.Reason != "" || slices.ContainsFunc(w.Fields, func(f matched) bool { return f.Pattern != "" })
}

// match returns the matchers for the API. A label without = must merely be present.
func (w muteForm) match() map[string]string {
	match := map[string]string{}
	for _, f := range w.Fields {
		if pattern := strings.TrimSpace(f.Pattern); pattern != "" {
			match[f.Name] = pattern
		}
	}
	for line := range strings.Lines(w.Labels) {
		name, pattern, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "" && !ok:
		case !ok:
			match[name] = "*"
		default:
			match[strings.TrimSpace(name)] = strings.TrimSpace(pattern)
		}
	}
	return match
}

// wrong returns the errors of the form in its own words.
func (w muteForm) wrong(p *web.Problem) (all []string) {
	for _, d := range p.Errors {
		switch {
		case d.Location == "body.match" && len(w.match()) == 0:
			all = append(all, "Set a rule, entity, key, severity or label; otherwise every alert would be muted.")
		case d.Location == "body.reason":
			all = append(all, "Reason: enter 1 to 500 characters.")
		case d.Location == "body.starts_at":
			all = append(all, "Starts: "+d.Message+".")
		case d.Location == "body" && w.For == "":
			all = append(all, "Duration: select one.")
		default:
			all = append(all, detail(d))
		}
	}
	if len(all) == 0 {
		all = append(all, problemText(p))
	}
	return all
}

// muteOf returns the address of a new mute for a value. A * in the value matches more alerts, and the form warns
// about that.
func muteOf(field, value string) string { return muteWithin(url.Values{}, field, value) }

// muteWithin returns the address of a mute of the alerts that match a query and have a value in a field.
func muteWithin(query url.Values, field, value string) string {
	name := field
	if !slices.Contains(alerts.Fields, field) {
		name = "label." + field
	}
	query.Set(name, value)
	return mutesAt + "?" + query.Encode() + "#new"
}

// handleMuteAction creates a mute, or ends the chosen ones.
func (u mutePages) handleMuteAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	c := client{u.api, r}
	switch r.PostForm.Get("do") {
	case "make":
		u.makeMute(w, r, c)
	case "end":
		d, chosen := bulkResult{Noun: "mute", Verb: ended, Back: mutesAt}, r.PostForm["mute"]
		if u.noneChosen(w, r, d, chosen) {
			return
		}
		d.each(r, chosen, func(id string) error {
			return c.do(http.MethodDelete, mutesAt+"/"+url.PathEscape(id), nil, nil, nil)
		})
		u.report(w, r, d)
	default:
		u.fail(w, r, invalidAction("The form has no action: create or end a mute."))
	}
}

// make creates the mute of the form.
func (w muteForm) make(c client) (made web.Mute, err error) {
	request := web.MuteRequest{Match: w.match(), Reason: w.Reason, For: w.For}
	if w.Starts != "" {
		if request.Starts, err = time.Parse("2006-01-02T15:04", w.Starts); err != nil {
			message := w.Starts + " is not a UTC time such as 2026-01-31T15:04"
			return made, &web.Problem{
				Status: http.StatusUnprocessableEntity, Detail: message, Errors: []web.ProblemDetail{{Location: "body.starts_at", Message: message}},
			}
		}
	}
	err = c.do(http.MethodPost, mutesAt, nil, request, &made)
	return made, err
}

// makeMute creates a mute. A refused one returns to the form with its errors.
func (u mutePages) makeMute(w http.ResponseWriter, r *http.Request, c client) {
	wanted := muteFormOf(r.PostForm)
	made, err := wanted.make(c)
	if err == nil {
		u.report(w, r, bulkResult{Noun: "mute", Verb: "created", Done: 1, Back: mutesAt + "?made=" + strconv.FormatInt(made.ID, 10)})
		return
	}
	problem := asProblem(err)
	if problem == nil || problem.Status == http.StatusForbidden {
		u.fail(w, r, err)
		return
	}
	v, listErr := muteClient{c}.mutes(r)
	if listErr != nil {
		u.fail(w, r, listErr)
		return
	}
	if v.Reach, listErr = (muteClient{c}).reach(wanted.match()); listErr != nil {
		u.fail(w, r, listErr)
		return
	}
	v.Form, v.Errors = wanted, wanted.wrong(problem)
	u.render(w, r, problem.Status, "mutes", view{Title: "Mutes", Body: v, Still: true}, "")
}

// Named returns a name for the mute, for screen readers.
func (m mute) Named() string { return "mute " + strconv.FormatInt(m.ID, 10) }
