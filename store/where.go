package store

import (
	"strings"
	"unicode/utf8"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// where is a statement as far as it is put together, with ? for each argument.
type where struct {
	text string
	args []any
}

// and adds a condition.
func (w *where) and(condition string, args ...any) {
	w.text, w.args = w.text+` AND `+condition, append(w.args, args...)
}

// named narrows a column with names of rules.
func (w *where) named(column string, f futurejobs.Filter) {
	if f.Rule != "" {
		w.and(column+` = ?`, escape(f.Rule))
	}
	if f.RulePrefix != "" {
		head := escape(f.RulePrefix)
		w.and(beginning(column), utf8.RuneCountInString(head), head)
	}
}

// letters narrows the dead letters.
func (w *where) letters(f futurejobs.Filter) {
	w.named(`rule`, f)
	if f.Subject != "" {
		w.and(`subject = ?`, escape(f.Subject))
	}
	if f.Reason != "" {
		w.and(`reason = ?`, escape(f.Reason))
	}
}

// beginning is the condition that a column begins with a text, given its length and itself.
func beginning(column string) string { return `substr(` + column + `, 1, ?) = ?` }

// ended narrows the history f.
func (w *where) ended(f futurejobs.Filter) {
	if f.Outcome != "" {
		w.and(`f.outcome = ?`, escape(string(f.Outcome)))
	}
	w.within(`f.ended_at`, f)
}

// said narrows the alerts a. The document of an alert begins with its status and severity.
func (w *where) said(f futurejobs.Filter) {
	w.within(`a.decided_at`, f)
	if f.Status == "" && f.Severity == "" {
		return
	}
	alternatives, args := []string{`1 = 0`}, []any(nil) // there may be no such status
	for _, status := range []alerts.Status{alerts.Firing, alerts.Resolved, alerts.Undetermined, alerts.GaveUp, alerts.Expired} {
		if f.Status != "" && f.Status != status {
			continue
		}
		head := `{"status":"` + string(status) + `","severity":"`
		if f.Severity != "" {
			head += escape(string(f.Severity)) + `"`
		}
		alternatives, args = append(alternatives, beginning(`a.detail`)), append(args, utf8.RuneCountInString(head), head)
	}
	w.and(`(`+strings.Join(alternatives, ` OR `)+`)`, args...)
}

// within narrows an instant to those from f.After, before f.Before.
func (w *where) within(column string, f futurejobs.Filter) {
	if !f.After.IsZero() {
		w.and(column+` >= ?`, f.After)
	}
	if !f.Before.IsZero() {
		w.and(column+` < ?`, f.Before)
	}
}
