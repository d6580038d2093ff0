package web

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/configfile"
	"deadman/rules"
)

// MuteReach is the effect of a mute on the present alerts and rules.
type MuteReach struct {
	OpenAlerts int64  `json:"open_alerts" doc:"Number of open alerts that the mute matches."`
	Compared   int    `json:"compared,omitempty" doc:"Number of open alerts that were compared with the patterns: the newest ones, if more are open. Absent if open_alerts is complete."`
	Rules      int    `json:"rules" doc:"Number of rules whose alerts the mute can match by name, entity, steps, severities and labels. The system alerts of deadman belong to no rule."`
	Warning    string `json:"warning,omitempty" doc:"Lines that name what is unknown and may be misspelled: a rule, entity or step that no rule has, and a label that neither a rule nor an open alert has."`
}

// reachPages is the number of pages of open alerts that are compared with patterns.
const reachPages = 10

// muteCounter counts the alerts and rules that mutes match.
type muteCounter struct {
	lists AlertReader
	rules Rules
	now   func() time.Time
}

// reach returns the effect of a mute.
func (a *muteCounter) reach(ctx context.Context, m alerts.Match) (*MuteReach, error) {
	all, err := a.rules.List(ctx)
	if err != nil {
		return nil, err
	}
	r := &MuteReach{}
	for _, l := range all {
		if canRaise(l, m) {
			r.Rules++
		}
	}
	if r.Warning, err = a.warning(ctx, m, all); err != nil {
		return nil, err
	}
	if f, ok := filterOf(m); ok {
		f.Now = a.now()
		counts, err := a.lists.CountOpenAlerts(ctx, f, "")
		for _, c := range counts {
			r.OpenAlerts += c.Count
		}
		return r, err
	}
	return r, a.compare(ctx, m, r)
}

// filterOf returns the filter of open alerts that accepts the same alerts as a match; ok is false without such a filter:
// for a pattern with a *, or several labels.
func filterOf(m alerts.Match) (f futurejobs.Filter, ok bool) {
	f.Open = true
	for name, pattern := range m {
		if strings.Contains(pattern, "*") {
			return f, false
		}
		switch name {
		case "rule":
			f.Rule = pattern
		case "entity":
			f.Entity = pattern
		case "key":
			f.Key = pattern
		case "severity":
			f.Severity = alerts.Severity(pattern)
		case "status":
			f.Status = alerts.Status(pattern)
		default:
			if f.Label != "" {
				return f, false
			}
			f.Label, f.LabelValue = name, pattern
		}
	}
	return f, true
}

// compare counts the alerts that a match matches among the newest open ones.
func (a *muteCounter) compare(ctx context.Context, m alerts.Match, r *MuteReach) error {
	f, read := futurejobs.Filter{Open: true, Limit: futurejobs.MaxLimit}, 0
	for range reachPages {
		page, err := a.lists.Alerts(ctx, f)
		if err != nil {
			return err
		}
		for _, listed := range page.Items {
			if m.Matches(listed.Alert) {
				r.OpenAlerts++
			}
		}
		read += len(page.Items)
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
	r.Compared = read
	return nil
}

// canRaise reports whether alerts of a rule can match. A value that only a job has, such as a key, can be any.
func canRaise(l rules.ListedRule, m alerts.Match) bool {
	for name, pattern := range m {
		values, known := ruleValues(l, name)
		if known && !alerts.MatchesAny(values, pattern) {
			return false
		}
	}
	return true
}

// ruleValues returns the values of a field in the alerts of a rule; known is false if the rule does not limit them.
func ruleValues(l rules.ListedRule, name string) (values []string, known bool) {
	switch name {
	case "rule":
		return []string{l.Name}, true
	case "entity":
		return []string{l.Document.Entity}, true
	case "severity", "step":
		for _, s := range l.Document.Escalate {
			values = append(values, map[string]string{"severity": string(s.Severity), "step": s.Name}[name])
		}
		return values, l.Document.Handler == "" && len(values) > 0
	case "key", "status":
		return nil, false
	}
	text, found := l.Document.Labels[name]
	return []string{text}, l.Document.Handler == "" && !(found && strings.Contains(text, "{{"))
}

// warning names the values and labels of a match that neither rules nor alerts have: a misspelling is likely. A rule may be
// saved later, so the result is no error.
func (a *muteCounter) warning(ctx context.Context, m alerts.Match, all []rules.ListedRule) (string, error) {
	names, entities, labels := []string{alerts.SystemRule}, []string{alerts.SystemEntity}, slices.Clone(alerts.SystemLabels)
	for _, l := range all {
		names, entities = append(names, l.Name), append(entities, l.Document.Entity)
		labels = slices.AppendSeq(labels, maps.Keys(l.Document.Labels))
	}
	var lines []string
	add := func(line, name string, known []string) {
		if near := configfile.Suggest(name, known); near != "" {
			line += "; did you mean " + near + "?"
		}
		lines = append(lines, line)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		pattern := m[name]
		switch {
		case name == "rule" && !alerts.MatchesAny(names, pattern):
			add(withoutRule(pattern, "is named ", "a name")+"; the mute takes effect once there is one", pattern, names[1:])
		case name == "entity" && !alerts.MatchesAny(entities, pattern):
			add(withoutRule(pattern, "has the entity ", "an entity")+"; the mute takes effect once there is one", pattern, entities[1:])
		case !slices.Contains(alerts.Fields, name) && !slices.Contains(labels, name):
			known, err := a.hasLabel(ctx, name)
			if err != nil {
				return "", err
			}
			if !known {
				add("neither a rule nor an open alert has the label "+name, strings.TrimPrefix(name, "label."), slices.Concat(alerts.Fields, labels))
			}
		}
	}
	return strings.Join(lines, "\n"), nil
}

// withoutRule tells that no rule has a value, or one that a pattern matches.
func withoutRule(pattern, has, value string) string {
	if strings.Contains(pattern, "*") {
		return "no rule has " + value + " that matches " + pattern
	}
	return "no rule " + has + pattern
}

// hasLabel reports whether an open alert has a label: handlers add labels that no rule has.
func (a *muteCounter) hasLabel(ctx context.Context, label string) (bool, error) {
	counts, err := a.lists.CountOpenAlerts(ctx, futurejobs.Filter{Open: true, Now: a.now()}, label)
	return slices.ContainsFunc(counts, func(c futurejobs.OpenAlerts) bool { return c.LabelValue != "" }), err
}
