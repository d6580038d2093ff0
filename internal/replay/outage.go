package replay

import (
	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// outageKey identifies an outage.
type outageKey struct {
	rule   int32
	source string
}

// openOutage raises the alert of an outage that a check met, or adds its job to the open one.
func (r *Replay) openOutage(rule *futurejobs.Rule, d futurejobs.Decision) error {
	of := outageKey{rule.ID, d.Outage}
	open := r.outages[of]
	isNew := open == nil
	if isNew {
		open = &futurejobs.Outage{Source: d.Outage, RuleID: rule.ID, Version: rule.Version, OpenedAt: r.now, Reason: d.Reason}
		r.outages[of] = open
	}
	open.SeenAt = r.now
	if !d.Repeated {
		open.Jobs++
	}
	if !isNew {
		return nil
	}
	opening := *open
	opening.Jobs = 0
	for _, e := range r.agenda {
		if e.rule == nil && e.job.RuleID == rule.ID && !e.at.After(r.now) {
			opening.Jobs++
		}
	}
	return r.raiseOutage(opening.RuleAlert(rule, alerts.Undetermined, r.now))
}

// closeOutage raises the alert that the source of a rule answers again, if it has an outage.
func (r *Replay) closeOutage(rule *futurejobs.Rule) error {
	of := outageKey{rule.ID, rule.Finder.Source()}
	open := r.outages[of]
	if open == nil {
		return nil
	}
	delete(r.outages, of)
	return r.raiseOutage(open.RuleAlert(rule, alerts.Resolved, r.now))
}

func (r *Replay) raiseOutage(a alerts.Alert) error {
	a.Slot = r.now
	return r.raise(futurejobs.Decision{Alerts: []alerts.Alert{a}})
}
