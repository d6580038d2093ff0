package notify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// isAck reports whether the message has acknowledgements and no alerts.
func (m Message) isAck() bool { return m.Notification.Alerts == 0 && len(m.Acks.Counts) > 0 }

// acked returns the number of acknowledged jobs.
func (m Message) acked() (n int) {
	for _, c := range m.Acks.Counts {
		n += c.Count
	}
	return n
}

// acknowledgesOthers reports whether the message has acknowledgements of other keys.
func (m Message) acknowledgesOthers(than KeyState) bool {
	return m.acked() > 1 || slices.ContainsFunc(m.Acks.First, func(k alerts.ShownAck) bool { return k.Alert.OrderKey() != than.OrderKey() })
}

// ackTitle returns the title of a message with acknowledgements only.
func (m Message) ackTitle() string {
	if n := m.acked(); n != 1 || len(m.Acks.First) != 1 {
		return line(fmt.Sprintf("[ACKNOWLEDGED] %s: %s by %s", m.subject(), countOf(n, "alert"), m.ackedBy()), titleLength)
	}
	return line("[ACKNOWLEDGED] "+sentence(KeyState{KeyState: alerts.KeyState{Alert: m.Acks.First[0].Alert}}), titleLength)
}

// ackedBy names the authors of the acknowledgements.
func (m Message) ackedBy() string {
	var names []string
	for _, c := range m.Acks.Counts {
		name := cmp.Or(line(c.By, 100), "unknown")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return strings.Join(names, ", ")
}

// ackLines returns a line for each of the first acknowledgements, with the number of its alerts and, if they fit, the
// alerts.
func (m Message) ackLines(limit int) string {
	var b strings.Builder
	for i, c := range m.Acks.Counts {
		if i == max(1, limit) {
			fmt.Fprintf(&b, "and %s more\n", countOf(len(m.Acks.Counts)-i, "acknowledgement"))
			break
		}
		text := upperFirst(m.ackText(futurejobs.Ack{By: c.By, Until: c.Until, Note: c.Note}))
		if !m.isAck() || m.acked() > 1 {
			text += ": " + countOf(c.Count, "alert")
		}
		b.WriteString(text + "\n")
	}
	if m.acked() > 1 && len(m.Acks.Counts) <= limit {
		for i, k := range m.Acks.First {
			if i == limit {
				break
			}
			b.WriteString("* " + line(sentence(KeyState{KeyState: alerts.KeyState{Alert: k.Alert}}), lineLength) + "\n")
		}
		if more := m.acked() - min(limit, len(m.Acks.First)); more > 0 && limit > 0 {
			fmt.Fprintf(&b, "and %s more\n", humanize.Comma(int64(more)))
		}
	}
	return b.String()
}

// ackOnlyText returns the text of a message with acknowledgements only.
func (m Message) ackOnlyText(limit int) string {
	text := m.ackLines(limit)
	if len(m.Acks.First) == 1 && m.acked() == 1 {
		a := m.Acks.First[0].Alert
		text += "rule " + a.Rule
		if a.Step != "" {
			text += ", step " + a.Step
		}
		text += "\n"
	}
	if link := m.Link(); link != "" {
		text += link + "\n"
	}
	return text
}

// countOf returns a number with its noun: 1 alert, 5,000 alerts.
func countOf(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}

// ackText returns the person, the end and the note of an acknowledgement.
func (m Message) ackText(a futurejobs.Ack) string {
	text := "acknowledged by " + line(cmp.Or(a.By, "unknown"), 100)
	if a.Until.Equal(checks.Forever) {
		text += " until it is resolved"
	} else {
		text += " until " + m.timeText(a.Until)
	}
	if a.Note != "" {
		text += fmt.Sprintf(" (%s)", line(a.Note, lineLength))
	}
	return text
}
