package ui

import "deadman/web"

// alertLine is a row of the overview: an open alert, or the unacknowledged alerts of a rule with many.
type alertLine struct {
	openAlert                 // of many: the most severe one that was read; zero: none was read
	Of        *web.AlertGroup // the alerts of the rule; nil: one alert
}

// maxAlike is the number of open alerts of one rule that the overview shows one by one.
const maxAlike = 3

// alertLines returns the rows of unacknowledged alerts. groups are the alerts by rule, and read are the most severe alerts
// of all rules, in the order of the rows. A rule of which no alert was read has a row at the end.
func alertLines(groups []web.AlertGroup, read []openAlert) (lines []alertLine) {
	many := make(map[string]*web.AlertGroup)
	for i, g := range groups {
		if g.Unacknowledged > maxAlike {
			many[g.Value] = &groups[i]
		}
	}
	shown := make(map[string]bool)
	for _, a := range read {
		if of := many[a.Rule]; of == nil || !shown[a.Rule] {
			lines = append(lines, alertLine{a, of})
		}
		shown[a.Rule] = true
	}
	for i, g := range groups {
		if g.Unacknowledged > 0 && !shown[g.Value] {
			lines = append(lines, alertLine{Of: &groups[i]})
		}
	}
	return lines
}

// count returns the number of alerts in the row.
func (l alertLine) count() int64 {
	if l.Of != nil {
		return l.Of.Unacknowledged
	}
	return 1
}

// Severe counts the alerts of the row by severity.
func (l alertLine) Severe() string { return severitiesOf(l.Of.OpenAlertCounts) }

// Others counts the alerts of the row beside the one whose text it has.
func (l alertLine) Others() int64 { return l.Of.Unacknowledged - 1 }

// Style returns the highest severity of the alerts of the row.
func (l alertLine) Style() string { return highestOf(l.Of.OpenAlertCounts) }

// loudestOf returns the highest severity of unacknowledged alerts by rule.
func loudestOf(groups web.AlertGroups) map[string]string {
	of := make(map[string]string, len(groups.Items))
	for _, g := range groups.Items {
		of[g.Value] = highestOf(g.OpenAlertCounts)
	}
	return of
}
