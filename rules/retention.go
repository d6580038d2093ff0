package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/checks"
	"deadman/rules/document"
)

// retentionCompiler checks how long a rule keeps its ended jobs and its alerts.
type retentionCompiler struct{ *compiler }

func (c retentionCompiler) retention() {
	keep := c.document.Keep
	if keep == nil {
		return
	}
	if keep.History == 0 && keep.Alerts == 0 && len(keep.Outcomes) == 0 {
		c.problem("/keep", "keep has no period; write one, such as keep: {history: 400d}, or remove the field")
	}
	c.period("/keep/history", keep.History)
	c.period("/keep/alerts", keep.Alerts)
	possible := c.outcomes()
	for _, name := range keep.OutcomeNames() {
		pointer := document.FieldPointer("/keep/outcomes", name)
		switch {
		case !slices.Contains(possible, name) && c.document.Handler == "":
			c.problem(pointer, "no job of this rule ends with the outcome %q; write one of %s, or a value of as", clip(name, 80), strings.Join(possible, ", "))
		case !document.NamePattern.MatchString(name):
			c.problem(pointer, "%q is not an outcome; write %s", clip(name, 80), document.NameForm)
		case keep.Outcomes[name] == 0:
			c.problem(pointer, "0 is not between %s and %s; write a longer period, or remove the outcome", document.MinRetention, document.MaxRetention)
		}
		c.period(pointer, keep.Outcomes[name])
	}
}

// period checks a period that is written.
func (c retentionCompiler) period(pointer string, d document.Duration) {
	if d != 0 && (d < document.MinRetention || d > document.MaxRetention) {
		c.problem(pointer, "%s is not between %s and %s", d, document.MinRetention, document.MaxRetention)
	}
}

// outcomes returns the standard outcomes and those that the rule defines.
func (c retentionCompiler) outcomes() []string {
	var all []string
	for _, o := range checks.Outcomes() {
		all = append(all, string(o))
	}
	for _, r := range c.document.Resolve {
		if name := cmp.Or(r.As, string(checks.Resolved)); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// KeptMost are the periods that a rule saved by a token with a prefix may keep at most: those of the node's settings. 0 is no bound.
type KeptMost struct {
	History, Alerts time.Duration
}

// exceeded returns the periods of a document beyond the bounds; nil: there are none.
func (m KeptMost) exceeded(d parsedDocument) (found document.Problems) {
	if d.Keep == nil {
		return nil
	}
	bound := func(pointer string, period document.Duration, most time.Duration, setting string) {
		if most != 0 && time.Duration(period) > most {
			found = append(found, d.Problem("", pointer, fmt.Sprintf("%s is longer than the %s of the setting %s, which a rule of a token with a prefix may keep at most; "+
				"write at most %s, or have a token without a prefix save the rule", period, document.Duration(most), setting, document.Duration(most))))
		}
	}
	bound("/keep/history", d.Keep.History, m.History, "keep_history")
	bound("/keep/alerts", d.Keep.Alerts, m.Alerts, "keep_alerts")
	for _, name := range d.Keep.OutcomeNames() {
		bound(document.FieldPointer("/keep/outcomes", name), d.Keep.Outcomes[name], m.History, "keep_history")
	}
	return found
}
