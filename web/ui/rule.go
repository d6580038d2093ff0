package ui

import (
	"net/http"
	"net/url"
	"slices"

	"deadman/rules/document"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// ruleView is the page of a rule: its state, definition, escalation and preview.
type ruleView struct {
	web.Rule
	permissions
	Text          string // definition as YAML
	Begins        string // trigger in words
	Steps         []stepView
	Reaches       stepChannels // channels of the steps
	Handler       string       // deciding handler; empty: none
	Drawing       []timeAxis
	ToScale       bool // distances in the drawing are proportional to time
	Subscriptions []subscriptionView
	Facts         []ruleFact
	Open          []openAlert // the newest open alerts
	Refused       int64       // its dead letters
	MoreRefused   bool        // older dead letters may exist that are not counted
	Pending       []job       // the jobs with the next checks that may raise an alert
	Outcomes      *statisticsChart
	Ticks         []web.Tick         // the last applied ones of a rule with a schedule
	IsStored      bool               // its schedules are stored
	StoredTicks   []web.ScheduleTick // the last ones of its stored schedules
	Versions      []web.RuleVersion
	Changed       []diffLine // diff of the newest version
	Trial         previewForm
	Badge         *badgeView // that the visitor asked for; nil: none
	Pings         *pingsView // nil: the rule has no heartbeat
	Severity      string     // highest severity of the open alerts that are not acknowledged; empty: there are none
	Did           string     // result of the last action; empty: none

	document document.Document
}

// OfFolder reports whether a node reads the rule from its folder of rule files.
func (v ruleView) OfFolder() bool { return isOfFolder(v.Bundle, v.SavedBy) }

// Adopt reports whether the visitor may convert the rule to one managed in the UI.
func (v ruleView) Adopt() bool { return v.adopts(v.Bundle, v.SavedBy) }

// ruleMessages are the messages after actions on a rule.
var ruleMessages = flashMessages{
	"saved": "Rule saved.", "kept": "No changes: no new version was created.",
	"paused": "Rule paused.", "resumed": "Rule resumed.", badgeRevoked: "All badges of the rule are revoked.",
}

// Rows of each list on a rule's page.
const (
	ruleRows     = 5
	ruleRowsRead = "50" // pending jobs read to find those whose checks may raise an alert
)

// ruleTicks is the number of ticks on the page of a rule or a schedule.
const ruleTicks = "10"

// shownVersions is the number of versions on a rule's page. The page of versions lists all of them.
const shownVersions = 5

// rulePage serves the page of a rule, and the actions of the page.
type rulePage struct{ *UI }

func (u rulePage) rule(c client, r *http.Request) (view, error) {
	v, err := u.ruleView(c, r, chi.URLParam(r, "name"))
	if err != nil {
		return view{}, err
	}
	v.Did = ruleMessages.of(r)
	v.Trial.example(v.document)
	return view{Title: v.Name, Body: v, Still: true}, nil
}

func rulePath(name string) string { return "/rules/" + url.PathEscape(name) }

// listed reads the list entry of a rule. A deleted rule gives a *ruleDeletedError.
func (c client) listed(name string) (web.Rule, error) {
	var page web.Page[web.Rule]
	if err := c.get("/rules", url.Values{"name": {name}}, &page); err != nil {
		return web.Rule{}, err
	}
	if len(page.Items) == 0 {
		return web.Rule{}, deletionClient{c}.ruleDeleted(name)
	}
	return page.Items[0], nil
}

// ruleView reads a rule for its page.
func (u rulePage) ruleView(c client, r *http.Request, name string) (v ruleView, err error) {
	path := rulePath(name)
	if v.permissions, err = c.may(); err != nil {
		return v, err
	}
	if v.Rule, err = c.listed(name); err != nil {
		return v, err
	}
	if v.Text, err = c.yaml(path); err != nil {
		return v, err
	}
	if err := c.get(path, nil, &v.document); err != nil {
		return v, err
	}
	d := v.document
	v.Begins, v.Steps, v.Handler, v.Subscriptions, v.Facts = triggerText(d.Trigger), escalationSteps(d), d.Handler, hearings(d), facts(d)
	v.Drawing, v.ToScale = escalation(d)
	if v.Reaches, err = c.channelsOf(name, ""); err != nil {
		return v, err
	}
	if err := v.readPending(c); err != nil {
		return v, err
	}
	if err := v.readRefused(c); err != nil {
		return v, err
	}
	if v.Outcomes, err = c.statistics(name, r.URL.Query().Get("window")); err != nil {
		return v, err
	}
	if v.Jobs != nil && v.Jobs.OpenAlerts > 0 {
		open, err := (alertClient{c}).groups("rule", url.Values{"rule": {name}})
		if err != nil {
			return v, err
		}
		v.Severity = highestOf(open.Total)
		if err := v.readAlerts(alertClient{c}); err != nil {
			return v, err
		}
	}
	if v.Versions, err = (versionClient{c}).versions(name, shownVersions); err != nil {
		return v, err
	}
	if v.Version > 1 {
		if v.Changed, err = (versionClient{c}).diff(name, 0, 0); err != nil {
			return v, err
		}
	}
	if beat := d.Trigger.Heartbeat; beat != nil {
		if v.Pings, err = (pingClient{c}).pings(name, beat.Keys, r); err != nil {
			return v, err
		}
	}
	if d.Trigger.Schedule != "" {
		v.IsStored = d.Trigger.IsStored()
		if err := v.readTicks(c); err != nil {
			return v, err
		}
	}
	v.Trial.Subjects = v.Subjects
	v.Trial.Recent, err = c.recent(name, d)
	return v, err
}

// readPending reads the next checks of the rule that may raise an alert.
func (v *ruleView) readPending(c client) (err error) {
	v.Pending, err = c.nextJobs(url.Values{"rule": {v.Name}, "limit": {ruleRowsRead}})
	v.Pending = slices.DeleteFunc(v.Pending, job.raisesNothing)
	v.Pending = v.Pending[:min(len(v.Pending), ruleRows)]
	return err
}

// readAlerts reads the newest open alerts of the rule, with their mutes.
func (v *ruleView) readAlerts(c alertClient) (err error) {
	if v.Open, err = c.open(url.Values{"rule": {v.Name}}, ruleRows); err != nil {
		return err
	}
	mutes, err := c.liveMutes()
	markMuted(v.Open, mutes)
	return err
}

// readRefused counts the dead letters of the rule. A visitor limited to some rules does not get them.
func (v *ruleView) readRefused(c client) error {
	var reasons web.DeadLetterReasons
	err := c.get(lettersAt+"/reasons", url.Values{"rule": {v.Name}}, &reasons)
	v.Refused, v.MoreRefused = reasons.Count, reasons.More
	if isForbidden(err) {
		return nil
	}
	return err
}

// readTicks reads the last ticks of the rule.
func (v *ruleView) readTicks(c client) error {
	last := url.Values{"limit": {ruleTicks}}
	if v.IsStored {
		page, err := c.scheduleTicks(v.Name, last)
		v.StoredTicks = page.Items
		return err
	}
	var page web.Page[web.Tick]
	err := c.get(rulePath(v.Name)+"/ticks", last, &page)
	v.Ticks = page.Items
	return err
}

// handleRuleAction previews, pauses, resumes, adopts or deletes a rule, or changes its ping URLs and badges.
func (u rulePage) handleRuleAction(w http.ResponseWriter, r *http.Request) {
	c, name := client{u.api, r}, chi.URLParam(r, "name")
	what, certain := r.PostFormValue("do"), r.PostFormValue("sure") == "yes"
	to := rulePath(name)
	var err error
	switch what {
	case "pause", "resume":
		to = withFlash(to, map[string]string{"pause": "paused", "resume": "resumed"}[what])
		err = c.do(http.MethodPost, rulePath(name)+"/"+what, nil, nil, nil)
	case "adopt":
		if q, wrong := (adoptionClient{c}).adopting(name); wrong != nil {
			u.fail(w, r, wrong)
			return
		} else if !certain {
			u.confirm(w, r, q)
			return
		}
		err = adoptionClient{c}.adopt(name, r.PostFormValue("version"))
	case "delete":
		if q, wrong := (deletionClient{c}).deleting(name); wrong != nil {
			u.fail(w, r, wrong)
			return
		} else if !certain {
			u.confirm(w, r, q)
			return
		}
		to, err = withFlash("/rules", "deleted"), deletionClient{c}.deleteRule(name, r.PostFormValue("version"))
	case "ping":
		to, err = pingClient{c}.makePing(name, r.PostFormValue("key"))
	case "unping":
		key, wrong := decodeFormText(r.PostFormValue("key"))
		if wrong != nil {
			u.fail(w, r, wrong)
			return
		} else if !certain {
			u.confirm(w, r, pingRemovedWarning(name, key))
			return
		}
		to = withFlash(to+"#pings", pingGone)
		err = c.do(http.MethodDelete, rulePath(name)+"/pings", url.Values{"key": {key}}, nil, nil)
	case "badge":
		u.showBadge(w, r, name)
		return
	case "unbadge":
		if !certain {
			u.confirm(w, r, badgesRevokedWarning(name))
			return
		}
		to = withFlash(to, badgeRevoked)
		err = c.do(http.MethodDelete, rulePath(name)+"/badges", nil, nil, nil)
	default:
		u.tryRule(w, r, name)
		return
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// pingRemovedWarning asks for confirmation before a ping URL is removed. An empty key means the rule's ping key.
func pingRemovedWarning(name, key string) confirmation {
	of := "the ping key"
	if key != "" {
		of = "the ping URL of " + escapeControls(key)
	}
	return confirmation{
		Title: "Delete " + of + "?", At: rulePath(name), Form: []field{{"do", "unping"}, {"key", encodeFormText(key)}},
		Text: "Within seconds, pings to this URL are refused, and rule " + name + " no longer receives them.",
		Do:   "Delete", Dangerous: true, Keep: "Keep ping URL", Back: rulePath(name) + "#pings",
	}
}

// tryRule shows a rule with a preview.
func (u rulePage) tryRule(w http.ResponseWriter, r *http.Request, name string) {
	c := client{u.api, r}
	v, err := u.ruleView(c, r, name)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	form := trialOf(r)
	form.Recent, form.Subjects = v.Trial.Recent, v.Trial.Subjects
	form.Answer = c.try(rulePath(name)+"/preview", form, u.Now(), func(request web.PreviewRequest) any { return request })
	v.Trial = form
	u.render(w, r, http.StatusOK, "rule", view{Title: name, Body: v}, "")
}
