package ui

import "deadman/web"

// alertLine is a row of the overview: an open alert, or the alerts of a rule with many. A row of many has either the
// unacknowledged or the acknowledged ones.
type alertLine struct {
	openAlert                 // of many: the most severe one that was read; zero: none was read
	Of        *web.AlertGroup // the alerts of the rule; nil: one alert
	Known     bool            // they are acknowledged
}

// maxAlike is the number of open alerts of one rule that the overview shows one by one.
const maxAlike = 3

// alertLines returns the rows of the unacknowledged alerts, or of the acknowledged ones. groups are the alerts by rule, and
// read are the most severe alerts of all rules, in the order of the rows. A rule of which no alert was read has a row at the
// end.
func alertLines(groups []web.AlertGroup, read []openAlert, known bool) (lines []alertLine) {
	many := make(map[string]*web.AlertGroup)
	for i := range groups {
		if line := (alertLine{Of: &groups[i], Known: known}); line.count() > maxAlike {
			many[line.Of.Value] = line.Of
		}
	}
	shown := make(map[string]bool)
	for _, a := range read {
		if of := many[a.Rule]; of == nil || !shown[a.Rule] {
			lines = append(lines, alertLine{a, of, known})
		}
		shown[a.Rule] = true
	}
	for i := range groups {
		if line := (alertLine{Of: &groups[i], Known: known}); line.count() > 0 && !shown[line.Of.Value] {
			lines = append(lines, line)
		}
	}
	return lines
}

// count returns the number of alerts in the row.
func (l alertLine) count() int64 {
	switch {
	case l.Of == nil:
		return 1
	case l.Known:
		return l.Of.Acknowledged
	}
	return l.Of.Unacknowledged
}

// Counts counts the alerts of the row by severity, or the acknowledged ones.
func (l alertLine) Counts() string {
	if l.Known {
		return number(l.Of.Acknowledged) + " acknowledged"
	}
	return severitiesOf(l.Of.OpenAlertCounts)
}

// Others counts the alerts of the row beside the one whose text it has.
func (l alertLine) Others() int64 { return l.count() - 1 }

// Highest returns the highest severity of the alerts of the row.
func (l alertLine) Highest() string {
	if l.Known {
		return string(l.Severity) // the most severe one was read first
	}
	return highestOf(l.Of.OpenAlertCounts)
}

// Style returns the style of the row.
func (l alertLine) Style() string {
	if l.Known {
		return "known"
	}
	return l.Highest()
}

// loudestOf returns the highest severity of unacknowledged alerts by rule.
func loudestOf(groups web.AlertGroups) map[string]string {
	of := make(map[string]string, len(groups.Items))
	for _, g := range groups.Items {
		of[g.Value] = highestOf(g.OpenAlertCounts)
	}
	return of
}
