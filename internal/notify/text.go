package notify

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"deadman/alerts"
)

// The limits of a text, in keys, rules and characters.
const (
	shownKeys       = 10
	shownRules      = 3
	titleLength     = 200
	lineLength      = 300
	paragraphLength = 600
)

// Title returns the title of the message, on one line: the alert, or the numbers of keys by severity.
func (m Message) Title() string {
	if m.isAck() {
		return m.ackTitle()
	}
	if k, ok := m.only(); ok {
		title, _ := splitText(k, m.Zone)
		return "[" + rank(k) + "] " + title
	}
	word := strings.ToUpper(string(m.Severity()))
	if m.isResolved() {
		word = resolved
	}
	return line(fmt.Sprintf("[%s] %s: %s", word, m.subject(), countText(m.counts())), titleLength)
}

const resolved = "RESOLVED"

// subject names the common property of the alerts of a message.
func (m Message) subject() string {
	topic := m.Topic
	if topic == "" || topic == overflowTopic {
		topic = m.Route
	}
	return strings.TrimPrefix(topic, "rule=")
}

// keys returns the state of the first keys.
func (m Message) keys() []KeyState {
	if len(m.Keys) > 0 {
		return m.Keys
	}
	keys := make([]KeyState, len(m.Alerts))
	for i, a := range m.Alerts {
		keys[i].Alert = a
	}
	return keys
}

// counts returns the numbers of keys by their state.
func (m Message) counts() []alerts.KeyCount {
	if len(m.Counts) > 0 {
		return m.Counts
	}
	var counts []alerts.KeyCount
	for _, k := range m.keys() {
		counts = append(counts, alerts.KeyCount{Rule: k.Rule, Resolved: k.IsResolved(), Severity: k.Severity, Count: 1})
	}
	return counts
}

// only returns the state of the key, if the message is about one.
func (m Message) only() (KeyState, bool) {
	keys, total := m.keys(), 0
	for _, c := range m.counts() {
		total += c.Count
	}
	if len(keys) != 1 || total != 1 {
		return KeyState{}, false
	}
	return keys[0], true
}

// rank returns the label at the beginning of a key's line.
func rank(k KeyState) string {
	switch {
	case k.IsResolved():
		return resolved
	case k.Status == alerts.Firing:
		return strings.ToUpper(string(k.Severity))
	}
	return strings.ToUpper(strings.ReplaceAll(string(k.Status), "_", " "))
}

// sentence returns the text of an alert, with its entity and key unless the text contains the key. A text of a node about
// itself names its subject: its key would repeat it.
func sentence(k KeyState) string {
	text := cmp.Or(k.Text, k.Rule)
	if rest, is := strings.CutPrefix(k.Text, k.Entity+" "+k.Key+": resolved"); is && k.Status == alerts.Resolved {
		text = k.Entity + " " + k.Key + rest // the label has the word
	}
	if k.Closed {
		text = "it happened after: " + text
	}
	if k.Rule == alerts.SystemRule && k.Text != "" {
		return alerts.SystemRule + ": " + text
	}
	if k.Key == "" || hasWord(k.Text, k.Key) {
		return text
	}
	return line(k.Entity, 100) + " " + line(k.Key, 100) + ": " + text
}

// hasWord reports whether a text contains a key that is not a part of a longer word.
func hasWord(text, key string) bool {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; ; {
		at := strings.Index(text[from:], key)
		if at < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:from+at])
		after, _ := utf8.DecodeRuneInString(text[from+at+len(key):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		from += at + len(key)
	}
}

// countText returns the numbers of keys by severity, such as "4 critical, 655 warnings, 1 resolved".
func countText(counts []alerts.KeyCount) string {
	var parts []string
	for _, s := range []alerts.Severity{alerts.Critical, alerts.Error, alerts.Warning, alerts.Info} {
		n := 0
		for _, c := range counts {
			if !c.Resolved && c.Severity == s {
				n += c.Count
			}
		}
		if noun := string(s); n > 0 {
			if n > 1 && (s == alerts.Warning || s == alerts.Error) {
				noun += "s"
			}
			parts = append(parts, humanize.Comma(int64(n))+" "+noun)
		}
	}
	over := 0
	for _, c := range counts {
		if c.Resolved {
			over += c.Count
		}
	}
	if over > 0 {
		parts = append(parts, humanize.Comma(int64(over))+" resolved")
	}
	return strings.Join(parts, ", ")
}

// Text returns the text of the message: the state of its first keys, what to do, and links.
func (m Message) Text() string { return m.textOf(shownKeys) }

// textOf returns the text of the message with lines for at most the given number of keys.
func (m Message) textOf(limit int) string {
	if m.isAck() {
		return m.ackOnlyText(limit)
	}
	if k, ok := m.only(); ok {
		return m.alertText(k, limit > 0)
	}
	return m.groupText(limit)
}

// alertText returns the text about one key. It is short unless full.
func (m Message) alertText(k KeyState, full bool) string {
	var b strings.Builder
	if _, rest := splitText(k, m.Zone); full && rest != "" {
		b.WriteString(rest + "\n")
	}
	b.WriteString("rule " + k.Rule)
	if k.Step != "" {
		b.WriteString(", step " + k.Step)
	}
	if !k.Since.IsZero() {
		b.WriteString(", since " + m.timeText(k.Since))
	}
	if labels := labelText(k.Labels); labels != "" && full {
		b.WriteString(" · " + labels)
	}
	b.WriteString("\n")
	if !k.IsResolved() {
		if full {
			b.WriteString(instructions(k))
			writeLine(&b, "What to do: ", remedyOf(k, m.PublicURL))
		}
		b.WriteString(m.stateText(k))
	}
	if m.acknowledgesOthers(k) {
		b.WriteString(m.ackLines(0))
	}
	writeLine(&b, "", m.Link())
	return b.String()
}

// splitText returns the text of the title of a message about one alert, and what the body adds to it. The title of a long
// text ends at a semicolon, and that of a resolved alert between two words; the body has the rest. The body of any other
// long text has all of it.
func splitText(k KeyState, zone *time.Location) (title, body string) {
	whole := line(sentenceIn(zone, k), 3*lineLength)
	title = line(whole, titleLength-len(rank(k))-3)
	if title == whole {
		return title, ""
	}
	if at := strings.LastIndex(title, "; "); at > 0 {
		return title[:at], line(upperFirst(whole[at+len("; "):]), 2*lineLength)
	}
	if at := strings.LastIndex(title, " "); at > 0 && k.IsResolved() {
		return title[:at] + " …", "… " + line(whole[at+1:], 2*lineLength)
	}
	return title, line(whole, 2*lineLength)
}

// utcTimes matches the times in the texts of alerts about a node. Those of RFC 3339 follow a word of the node: others may be
// values of an event in the reason of an error.
var utcTimes = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? UTC|\b(after|at|before|from|of|since|to|until) \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// sentenceIn returns the sentence about an alert, with times in a zone if the node wrote the text; nil: UTC.
func sentenceIn(zone *time.Location, k KeyState) string {
	if k.Rule != alerts.SystemRule || zone == nil {
		return sentence(k)
	}
	return utcTimes.ReplaceAllStringFunc(sentence(k), func(text string) string {
		i := strings.IndexAny(text, "0123456789")
		date, clock := text[i:i+len(time.DateOnly)], text[i+len(time.DateOnly)+1:][:len(time.TimeOnly)]
		at, err := time.Parse(time.DateTime, date+" "+clock)
		if err != nil {
			return text
		}
		return text[:i] + at.In(zone).Format("2006-01-02 15:04:05 MST")
	})
}

// groupText returns the text about several keys.
func (m Message) groupText(limit int) string {
	var b strings.Builder
	keys, counts := m.keys(), m.counts()
	keys = keys[:min(len(keys), limit)]
	several := m.ruleCount() > 1
	next := commonNext(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "%s  ", rank(k))
		if several && k.Rule != alerts.SystemRule {
			b.WriteString(k.Rule + ": ")
		}
		b.WriteString(line(sentenceIn(m.Zone, k), lineLength))
		if state := m.stateOf(k, next == nil); state != "" {
			b.WriteString(" · " + state)
		}
		b.WriteString("\n")
	}
	if rest := without(counts, keys); len(keys) > 0 && len(rest) > 0 {
		b.WriteString(moreText(rest) + "\n")
	}
	if limit > 0 {
		b.WriteString(ruleInstructions(m.keys(), several))
		b.WriteString(remedies(m.keys(), m.PublicURL))
	}
	writeLine(&b, "Next: ", m.nextText(next, true))
	writeLine(&b, "Acknowledge all: ", m.AckURL)
	if limit > 0 {
		b.WriteString(m.ackLines(0))
		if several && m.PublicURL != "" {
			b.WriteString(inboxLinks(m.keys(), m.PublicURL))
		}
	}
	writeLine(&b, "", m.Link())
	return b.String()
}

// commonNext returns the next step of all keys that are neither resolved nor acknowledged; nil if they differ.
func commonNext(keys []KeyState) (next *NextStep) {
	for _, k := range keys {
		switch {
		case k.IsResolved() || k.Acknowledged != nil:
		case k.Next == nil:
			return nil
		case next == nil:
			next = k.Next
		case next.Name != k.Next.Name || next.Severity != k.Next.Severity || !next.At.Truncate(time.Minute).Equal(k.Next.At.Truncate(time.Minute)):
			return nil
		}
	}
	return next
}

// moreText returns the line about the keys that are not shown.
func moreText(rest []alerts.KeyCount) string {
	text := countText(rest)
	if number, noun, _ := strings.Cut(text, " "); !strings.Contains(text, ", ") {
		return "and " + number + " more " + noun
	}
	n := 0
	for _, c := range rest {
		n += c.Count
	}
	return "and " + humanize.Comma(int64(n)) + " more: " + text
}

// without returns the counts of the keys that are not shown.
func without(counts []alerts.KeyCount, shown []KeyState) []alerts.KeyCount {
	var rest []alerts.KeyCount
	for _, c := range counts {
		for _, k := range shown {
			if c.Rule == k.Rule && c.Resolved == k.IsResolved() && c.Severity == k.Severity {
				c.Count--
			}
		}
		if c.Count > 0 {
			rest = append(rest, c)
		}
	}
	return rest
}

// ruleInstructions returns the descriptions and runbooks of the first rules with keys that are not resolved.
func ruleInstructions(keys []KeyState, several bool) string {
	var b strings.Builder
	seen := make(map[string]bool)
	for _, k := range keys {
		text := instructions(k)
		if seen[k.Rule] || k.IsResolved() || text == "" || len(seen) == shownRules {
			continue
		}
		seen[k.Rule] = true
		if several {
			b.WriteString(k.Rule + ": ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// instructions returns the description and the runbook of an alert, a line each.
func instructions(k KeyState) string {
	var b strings.Builder
	writeLine(&b, "", line(k.Description, paragraphLength))
	writeLine(&b, "Runbook: ", line(k.Alert.Runbook(), paragraphLength))
	return b.String()
}

// labelText returns the labels except the runbook, sorted by name.
func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != alerts.RunbookLabel && name != alerts.RunbookURLLabel {
			parts = append(parts, name+"="+labels[name])
		}
	}
	return line(strings.Join(parts, ", "), lineLength)
}

// stateText returns the lines about the acknowledgement and the next step of a key.
func (m Message) stateText(k KeyState) string {
	var b strings.Builder
	if k.Acknowledged != nil {
		b.WriteString(upperFirst(m.ackText(*k.Acknowledged)) + "\n")
	}
	writeLine(&b, "Next: ", m.nextText(k.Next, true))
	if k.Acknowledged == nil {
		writeLine(&b, "Acknowledge: ", k.AckURL)
	}
	return b.String()
}

// stateOf returns the acknowledgement of a key or, if wanted, its next step, within a line.
func (m Message) stateOf(k KeyState, wantsNext bool) string {
	switch {
	case k.IsResolved():
		return ""
	case k.Acknowledged != nil:
		return m.ackText(*k.Acknowledged)
	case wantsNext && k.Next != nil:
		return "next: " + m.nextText(k.Next, false)
	}
	return ""
}

// nextText returns the next step, its severity, its time and, if complete, the channels that it reaches.
func (m Message) nextText(n *NextStep, complete bool) string {
	if n == nil {
		return ""
	}
	text := fmt.Sprintf("%s (%s) at %s", n.Name, n.Severity, m.timeText(n.At))
	if complete && len(n.To) > 0 {
		text += ", to " + strings.Join(n.To, ", ")
	}
	return text
}

// timeText returns a time in the zone of the message: without its date on the day of the message, and with the year in
// another year.
func (m Message) timeText(t time.Time) string {
	zone := m.Zone
	if zone == nil {
		zone = time.UTC
	}
	t, now := t.In(zone), m.At.In(zone)
	switch {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format("15:04 MST")
	case t.Year() == now.Year():
		return t.Format("Mon 2 Jan 15:04 MST")
	}
	return t.Format("2 Jan 2006 15:04 MST")
}

// writeLine writes a line with a name, unless the text is empty.
func writeLine(b *strings.Builder, name, text string) {
	if text != "" {
		b.WriteString(name + text + "\n")
	}
}

func upperFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if first == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// line returns a text on one line of at most the given number of characters.
func line(s string, limit int) string {
	s = strings.TrimSpace(breaks.ReplaceAllString(visible(s), " "))
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}
