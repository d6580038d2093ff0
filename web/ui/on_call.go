package ui

import (
	"net/url"
	"slices"
	"strings"

	"deadman/web"
)

// actionRow has the actions on an alert and its job: acknowledge, snooze, check and close.
type actionRow struct {
	permissions
	Alert        string // id of the newest alert; empty: the job has none
	Job          string // id of the pending job in forms; empty: the alert belongs to no pending job
	Back         string // page after the action
	Acknowledged bool
	MuteAt       string // address that mutes alerts of the rule; empty: none
}

// Closable reports whether the visitor may close the alert or the job.
func (a actionRow) Closable() bool { return a.Change }

// CloseAt returns the address of the form that closes the alert, or the job without an alert.
func (a actionRow) CloseAt() string {
	if a.Alert != "" {
		return alertAt(a.Alert)
	}
	return "/jobs"
}

// ruleNotes has what a rule says to people on call: its description and links.
type ruleNotes struct {
	Description string
	Links       []labelLink
	Plain       []labelLink // labels that are no links
}

// labelLink is a label, with its address if its value is one.
type labelLink struct{ Name, Value string }

// splitLabels divides labels into links and others, by name. Only http and https addresses become links.
func splitLabels(labels map[string]string) (links, plain []labelLink) {
	for name, value := range labels {
		at, err := url.Parse(value)
		if err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "" && at.User == nil {
			links = append(links, labelLink{name, value})
		} else {
			plain = append(plain, labelLink{name, value})
		}
	}
	byName := func(a, b labelLink) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(links, byName)
	slices.SortFunc(plain, byName)
	return links, plain
}

// notesOf returns the notes of a rule with the labels of an alert or a job.
func notesOf(description string, labels map[string]string) ruleNotes {
	n := ruleNotes{Description: description}
	n.Links, n.Plain = splitLabels(labels)
	return n
}

// stepChannels are the channels by step; nil: unknown, as the node has no channels.
type stepChannels map[string][]string

// channelsOf reads the channels of a rule's steps, for the labels of an alert; empty: of the rule.
func (c client) channelsOf(rule, alert string) (stepChannels, error) {
	query := url.Values{}
	if alert != "" {
		query.Set("alert", alert)
	}
	var all web.RuleChannels
	if is, err := exists(c.get(rulePath(rule)+"/channels", query, &all)); !is {
		return nil, err
	}
	channels := make(stepChannels)
	for _, s := range all.Steps {
		channels[s.Step] = s.Channels
	}
	return channels, nil
}

// Of returns the channels of a step as text; empty: unknown.
func (s stepChannels) Of(step string) string { return listChannels(s[step]) }

// listChannels returns channels as text; empty if they are nil, which is unknown.
func listChannels(names []string) string {
	switch {
	case names == nil:
		return ""
	case len(names) == 0:
		return "no channel"
	}
	return strings.Join(names, ", ")
}
