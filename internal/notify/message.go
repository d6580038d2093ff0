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

// Message is what a channel is handed: a notice with the first of its alerts.
type Message struct {
	alerts.Notification
	Alerts    []alerts.Alert             // the first of them, with links
	Closed    map[alerts.ID]alerts.Alert // what they close, as far as it is kept
	Unclosed  int                        // how many alerts of the topic still fire
	PublicURL string                     // empty: there are no links
	At        time.Time                  // when it is sent
}

// Key is the same for every try of a message, and for no other message.
func (m Message) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%d", m.ID, m.Channel, m.PlannedAt.UnixMicro()))
	return "msg_" + hex.EncodeToString(sum[:12])
}

// Thread is the same for all messages about a topic.
func (m Message) Thread() string {
	sum := sha256.Sum256([]byte(m.Channel + "\x00" + m.Route + "\x00" + m.Topic))
	return "deadman-" + hex.EncodeToString(sum[:12])
}

// Over reports whether the message says that what was told before is over: everything in it
// closes something, and nothing of its topic fires any more.
func (m Message) Over() bool {
	return m.Unclosed == 0 && !slices.ContainsFunc(m.Alerts, func(a alerts.Alert) bool { return a.Status != alerts.Resolved })
}

// Severity is that of the loudest alert that is no good news.
func (m Message) Severity() alerts.Severity {
	loudness := []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}
	most := 0
	for _, a := range m.Alerts {
		if a.Status != alerts.Resolved {
			most = max(most, slices.Index(loudness, a.Severity))
		}
	}
	return loudness[most]
}

// Title is the message in one line.
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

// severityRank is how an alert begins.
func severityRank(a alerts.Alert) string {
	if a.Status == alerts.Firing {
		return strings.ToUpper(string(a.Severity))
	}
	return strings.ToUpper(strings.ReplaceAll(string(a.Status), "_", " "))
}

// shownAlerts is how many alerts a text has a line for.
const shownAlerts = 10

// Text is the message for people: a line for each alert, as far as there is room, and a
// link.
func (m Message) Text() string { return m.textOf(shownAlerts) }

// textOf is the message for people with lines for so many alerts at most.
func (m Message) textOf(most int) string {
	var b strings.Builder
	shown := m.Alerts[:min(len(m.Alerts), most)]
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

// Link is where a person reads on: the alert, or the list that has all of them; empty: nowhere.
func (m Message) Link() string {
	switch {
	case m.PublicURL == "":
		return ""
	case m.Notification.Alerts == 1 && len(m.Alerts) == 1:
		return m.Alerts[0].URL
	}
	return m.PublicURL + "/alerts?" + m.query().Encode()
}

// linkedValue is the most bytes of a value in a link. Services take texts of about a thousand characters, of which three are a byte of a key.
const linkedValue = 100

// query narrows the list of alerts to those of the message, and few others, as the API takes it:
// by what they have in common, from the first of them on.
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

// common is what all alerts of the message have as a field; empty: they differ, or those that are
// not here may.
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

// line is a text on one line of at most so many characters.
func line(s string, most int) string {
	s = strings.TrimSpace(breaks.ReplaceAllString(visible(s), " "))
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// grouped is a number as people read it: 4,812.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
