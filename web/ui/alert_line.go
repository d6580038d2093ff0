package ui

import (
	"slices"

	"deadman/alerts"
	"deadman/web"
)

// alertLine is a row of the overview: an open alert, or the alerts of a rule with many. A row of many has either the
// unacknowledged or the acknowledged ones.
type alertLine struct {
	openAlert                 // of many: the most severe one that was read; zero: none was read
	Of        *web.AlertGroup // the alerts of the rule; nil: one alert
	Known     bool            // they are acknowledged
	Read      int64           // of many: the number of alerts that were read
	Snoozed   int64           // the snoozed ones among them
	Muted     int64           // the muted ones among them
	AllMuted  bool            // a mute matches all alerts of the rule
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
	shown := make(map[string]int) // the index of the row of a rule
	for _, a := range read {
		of := many[a.Rule]
		if _, is := shown[a.Rule]; of == nil || !is {
			shown[a.Rule] = len(lines)
			lines = append(lines, alertLine{openAlert: a, Of: of, Known: known})
		}
		if row := &lines[shown[a.Rule]]; of != nil {
			row.Read++
			if !a.SnoozedUntil.IsZero() {
				row.Snoozed++
			}
			if a.Mute != nil {
				row.Muted++
			}
		}
	}
	for i := range groups {
		if line := (alertLine{Of: &groups[i], Known: known}); line.count() > 0 {
			if _, is := shown[line.Of.Value]; !is {
				lines = append(lines, line)
			}
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

// SnoozedText counts the snoozed alerts of a row of many; empty: none is known.
func (l alertLine) SnoozedText() string { return l.part(l.Snoozed, "snoozed") }

// MutedText counts the muted alerts of a row of many; empty: none is known.
func (l alertLine) MutedText() string {
	if l.AllMuted {
		return number(l.count()) + " muted"
	}
	return l.part(l.Muted, "muted")
}

// mutesRule reports whether a mute matches all alerts of a rule.
func mutesRule(mutes []web.Mute, rule string) bool {
	return slices.ContainsFunc(mutes, func(m web.Mute) bool {
		return len(m.Match) == 1 && m.Match["rule"] != "" && alerts.Match(m.Match).Matches(alerts.Alert{Rule: rule})
	})
}

// part counts the alerts of a row of many that are in a state, as far as the alerts were read.
func (l alertLine) part(n int64, state string) string {
	switch {
	case n == 0:
		return ""
	case l.Read < l.count():
		return "at least " + number(n) + " " + state
	}
	return number(n) + " " + state
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
