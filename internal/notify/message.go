package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Message is a notification with the first of its alerts, as sent to a channel.
type Message struct {
	alerts.Notification
	Alerts    []alerts.Alert             // the first ones, with links
	Closed    map[alerts.ID]alerts.Alert // the alerts closed by them, if still stored
	TopicOpen bool                       // an alert of the topic is open; read if all keys of the message are resolved
	Counts    []alerts.KeyCount          // of all keys
	Keys      []KeyState                 // the first ones
	Acks      alerts.AckSummary
	AckURL    string         // acknowledges all alerts of the message; empty: it has one key, or several rules, or no link
	AckButton string         // token of a button that acknowledges all alerts of the message; empty: no button
	PublicURL string         // empty: no links
	At        time.Time      // time of sending
	Trace     string         // its context in the trace of its alerts, as a traceparent; empty: it is not traced
	Zone      *time.Location // of the times in texts; nil: UTC
}

// KeyState is the state of a key in a message: its newest alert, with its link and its outlook.
type KeyState struct {
	alerts.KeyState
	Outlook
}

// Outlook is the part of a message about an alert that its rule and its job have at the time of sending.
type Outlook struct {
	Description  string          // of the rule
	Next         *NextStep       // nil: none, or unknown
	Pending      bool            // the job is pending, so that its alerts can be acknowledged
	Acknowledged *futurejobs.Ack // nil: not acknowledged
	AckURL       string          // acknowledges the alert without a login; empty: none
}

// NextStep is the step that a job raises next, unless it is resolved before.
type NextStep struct {
	Name     string
	Severity alerts.Severity
	At       time.Time
	To       []string // the channels that it reaches
}

// Key returns a key that is unique to the message and equal for all its attempts.
func (m Message) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%d", m.ID, m.Channel, m.PlannedAt.UnixMicro()))
	return "msg_" + hex.EncodeToString(sum[:12])
}

// Thread returns a key that is equal for all messages of a topic.
func (m Message) Thread() string {
	sum := sha256.Sum256([]byte(m.Channel + "\x00" + m.Route + "\x00" + m.Topic))
	return "deadman-" + hex.EncodeToString(sum[:12])
}

// Over reports whether the message resolves its topic: all its keys are resolved, and no alert of the topic is open.
func (m Message) Over() bool { return !m.TopicOpen && m.isResolved() }

// isResolved reports whether all keys of the message are resolved.
func (m Message) isResolved() bool {
	return !slices.ContainsFunc(m.counts(), func(c alerts.KeyCount) bool { return !c.Resolved })
}

// Severity returns the highest severity of the keys that are not resolved.
func (m Message) Severity() alerts.Severity {
	severities := []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}
	highest := 0
	for _, c := range m.counts() {
		if !c.Resolved {
			highest = max(highest, slices.Index(severities, c.Severity))
		}
	}
	return severities[highest]
}

// ruleCount returns the number of rules of a message's alerts.
func (m Message) ruleCount() int {
	rules := make(map[string]bool)
	for _, c := range m.counts() {
		rules[c.Rule] = true
	}
	return len(rules)
}

// Link returns the URL of the alert, or of the inbox with the open ones, or of the list of all if none is open; empty: none.
func (m Message) Link() string {
	if m.PublicURL == "" {
		return ""
	}
	if m.isAck() {
		if len(m.Acks.First) == 1 {
			return m.Acks.First[0].Alert.URL
		}
		if len(m.Acks.First) < m.acked() { // the values of some are not known
			return m.PublicURL + "/alerts"
		}
		return m.PublicURL + "/alerts?" + ackedQuery(m.Acks.First).Encode()
	}
	if k, ok := m.only(); ok {
		return k.URL
	}
	query, path := m.query(), "/alerts"
	if m.isResolved() {
		query.Set("decided_after", earliest(m.Alerts).UTC().Truncate(time.Second).Format(time.RFC3339)) // selects the list of all
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return m.PublicURL + path
}

// earliest returns the time of the first of some alerts.
func earliest(all []alerts.Alert) (first time.Time) {
	for i, a := range all {
		if i == 0 || a.DecidedAt.Before(first) {
			first = a.DecidedAt
		}
	}
	return first
}

// linkedValue is the maximum length of a value in a link, in bytes. Services accept texts of about a thousand
// characters, and a byte of a key can take three of them.
const linkedValue = 100

// query returns the query that narrows a list of alerts to those of the message and few others: by their common values. A
// job may have raised a step of another severity since, so that only the group of the message selects one.
func (m Message) query() url.Values {
	q := url.Values{}
	for _, name := range []string{"rule", "entity", "key", "severity"} {
		if name == "severity" && !strings.Contains(" "+m.Topic, " severity=") {
			continue
		}
		if value := m.common(name); value != "" && len(value) <= linkedValue {
			q.Set(name, value)
		}
	}
	return q
}

// ackedQuery returns the query that narrows the list of open alerts by the common values of acknowledged ones.
func ackedQuery(acks []alerts.ShownAck) url.Values {
	acked := make([]alerts.Alert, len(acks))
	for i, k := range acks {
		acked[i] = k.Alert
	}
	q := url.Values{}
	for _, name := range []string{"rule", "entity", "key", "severity"} {
		if value := sharedValue(acked, name); value != "" && len(value) <= linkedValue {
			q.Set(name, value)
		}
	}
	return q
}

// sharedValue returns the value of a field that all alerts share; empty if they differ.
func sharedValue(all []alerts.Alert, name string) string {
	if len(all) == 0 {
		return ""
	}
	value := all[0].Field(name)
	if slices.ContainsFunc(all, func(a alerts.Alert) bool { return a.Field(name) != value }) {
		return ""
	}
	return value
}

// inboxLinks returns links to the open alerts of the first rules with keys that are not resolved, a line each.
func inboxLinks(keys []KeyState, publicURL string) string {
	var b strings.Builder
	var rules []string
	for _, k := range keys {
		if k.IsResolved() || len(rules) == shownRules || slices.Contains(rules, k.Rule) {
			continue
		}
		rules = append(rules, k.Rule)
		writeLine(&b, "Open alerts of "+k.Rule+": ", publicURL+"/alerts?"+url.Values{"rule": {k.Rule}}.Encode())
	}
	return b.String()
}

// remedyOf returns the place of the remedies of an alert of a node about itself; empty for other alerts.
func remedyOf(k KeyState, publicURL string) string {
	kind, found := alerts.SystemKindOf(k.Key, k.Step)
	switch {
	case !found || k.Rule != alerts.SystemRule:
		return ""
	case publicURL == "":
		return "see " + kind.Section + ", in docs/operations/troubleshooting.md"
	}
	return publicURL + kind.Page()
}

// remedies returns the remedies of the first alerts of nodes that are not resolved, a line each.
func remedies(keys []KeyState, publicURL string) string {
	var b strings.Builder
	var all []string
	for _, k := range keys {
		text := remedyOf(k, publicURL)
		if text == "" || k.IsResolved() || len(all) == shownRules || slices.Contains(all, text) {
			continue
		}
		all = append(all, text)
		writeLine(&b, "What to do: ", text)
	}
	return b.String()
}

// common returns the value of a field that all alerts of the message share; empty if they differ, or if those not
// loaded may differ.
func (m Message) common(name string) string {
	value := sharedValue(m.Alerts, name)
	if value == "" {
		return ""
	}
	named := strings.Contains(" "+m.Topic+" ", " "+name+"="+value+" ")
	if len(m.Alerts) < m.Notification.Alerts && !named {
		return ""
	}
	return value
}
