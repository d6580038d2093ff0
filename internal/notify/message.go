package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
)

// Message is a notification with the first of its alerts, as sent to a channel.
type Message struct {
	alerts.Notification
	Alerts    []alerts.Alert             // the first ones, with links
	Closed    map[alerts.ID]alerts.Alert // the alerts closed by them, if still stored
	Unclosed  int                        // number of alerts of the topic that still fire
	PublicURL string                     // empty: no links
	At        time.Time                  // time of sending
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

// Over reports whether the message resolves its topic: all its alerts are resolutions, and no alert of the topic
// still fires.
func (m Message) Over() bool {
	return m.Unclosed == 0 && !slices.ContainsFunc(m.Alerts, func(a alerts.Alert) bool { return a.Status != alerts.Resolved })
}

// Severity returns the highest severity of the alerts that are not resolved.
func (m Message) Severity() alerts.Severity {
	severities := []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}
	highest := 0
	for _, a := range m.Alerts {
		if a.Status != alerts.Resolved {
			highest = max(highest, slices.Index(severities, a.Severity))
		}
	}
	return severities[highest]
}

// Title returns the title of the message, on one line.
func (m Message) Title() string {
	if len(m.Alerts) == 1 && m.Notification.Alerts == 1 {
		a := m.Alerts[0]
		return line(fmt.Sprintf("[%s] %s: %s %s", severityRank(a), a.Rule, a.Entity, a.Key), 200)
	}
	about := m.Topic
	if about == "" || about == overflowTopic {
		about = m.Route
	}
	word := strings.ToUpper(string(m.Severity()))
	if m.Over() {
		word = "RESOLVED"
	}
	return line(fmt.Sprintf("[%s] %s alerts: %s", word, grouped(m.Notification.Alerts), about), 200)
}

// severityRank returns the label at the beginning of an alert's line.
func severityRank(a alerts.Alert) string {
	if a.Status == alerts.Firing {
		return strings.ToUpper(string(a.Severity))
	}
	return strings.ToUpper(strings.ReplaceAll(string(a.Status), "_", " "))
}

// shownAlerts is the maximum number of alerts with a line in a text.
const shownAlerts = 10

// Text returns the text of the message: one line for each of the first alerts, and a link.
func (m Message) Text() string { return m.textOf(shownAlerts) }

// textOf returns the text of the message with lines for at most the given number of alerts.
func (m Message) textOf(limit int) string {
	var b strings.Builder
	shown := m.Alerts[:min(len(m.Alerts), limit)]
	for _, a := range shown {
		fmt.Fprintf(&b, "%s  %s %s  %s\n", severityRank(a), line(a.Entity, 100), line(a.Key, 100), line(cmp.Or(a.Text, a.Rule), 300))
	}
	if len(shown) == 1 {
		if a := shown[0]; !a.Since.IsZero() {
			fmt.Fprintf(&b, "rule %s, waiting since %s\n", a.Rule, a.Since.UTC().Format("2006-01-02 15:04:05 MST"))
		}
	}
	if more := m.Notification.Alerts - len(shown); more > 0 && len(shown) > 0 {
		fmt.Fprintf(&b, "and %s more\n", grouped(more))
	}
	if link := m.Link(); link != "" {
		b.WriteString(link + "\n")
	}
	return b.String()
}

// Link returns the URL of the alert, or of a list with all of them; empty: none.
func (m Message) Link() string {
	switch {
	case m.PublicURL == "":
		return ""
	case m.Notification.Alerts == 1 && len(m.Alerts) == 1:
		return m.Alerts[0].URL
	}
	return m.PublicURL + "/alerts?" + m.query().Encode()
}

// linkedValue is the maximum length of a value in a link, in bytes. Services accept texts of about a thousand
// characters, and a byte of a key can take three of them.
const linkedValue = 100

// query returns the API query that narrows the list of alerts to those of the message and few others: by their common
// values, from the earliest on.
func (m Message) query() url.Values {
	q := url.Values{}
	for i, a := range m.Alerts {
		if at := a.DecidedAt.UTC().Truncate(time.Second).Format(time.RFC3339); i == 0 || at < q.Get("decided_after") {
			q.Set("decided_after", at)
		}
	}
	for _, name := range []string{"rule", "entity", "key", "severity", "status"} {
		if value := m.common(name); value != "" && len(value) <= linkedValue {
			q.Set(name, value)
		}
	}
	return q
}

// common returns the value of a field that all alerts of the message share; empty if they differ, or if those not
// loaded may differ.
func (m Message) common(name string) string {
	if len(m.Alerts) == 0 {
		return ""
	}
	value := m.Alerts[0].Field(name)
	if slices.ContainsFunc(m.Alerts, func(a alerts.Alert) bool { return a.Field(name) != value }) {
		return ""
	}
	named := strings.Contains(" "+m.Topic+" ", " "+name+"="+value+" ")
	if len(m.Alerts) < m.Notification.Alerts && !named {
		return ""
	}
	return value
}

// line returns a text on one line of at most the given number of characters.
func line(s string, limit int) string {
	s = strings.TrimSpace(breaks.ReplaceAllString(visible(s), " "))
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}

// grouped formats a number with thousands separators: 4,812.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
