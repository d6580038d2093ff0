package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	"deadman/rules"
)

// timeline prints a preview: a rail from the first event to the end, with clock times and times since the start of
// the job.
type timeline struct {
	io    *cli
	of    rules.Preview
	since int    // width of the column of spans, in characters
	width int    // width of the terminal; 0: no limit
	day   string // the last day printed
	errs  []error
}

// Parts of the rail.
const (
	railBegin = "┌"
	railPoint = "├"
	railEnd   = "└"
	rail      = "│"
	railOpen  = "┊"
)

func printPreview(io *cli, v rules.Preview) error {
	return (&timeline{io: io, of: v, width: terminalWidth(io.out)}).show()
}

func (t *timeline) show() error {
	for _, l := range t.of.Lines {
		t.since = max(t.since, utf8.RuneCountInString(t.span(l.At)))
	}
	t.head()
	for i, l := range t.of.Lines {
		t.entry(l, i)
	}
	t.foot()
	t.ticks()
	return errors.Join(t.errs...)
}

func (t *timeline) print(format string, args ...any) {
	_, err := fmt.Fprintf(t.io.out, format, args...)
	t.errs = append(t.errs, err)
}

func (t *timeline) paint(c colour, s string) string { return t.io.palette.paint(c, s) }

func (t *timeline) head() {
	if t.of.Key == "" {
		t.print("%s  %s\n", t.paint(bold, sanitize(t.of.Rule)), sanitize(t.of.Reason))
		return
	}
	t.print("%s  job for %s, started %s\n", t.paint(bold, sanitize(t.of.Rule)), t.paint(bold, sanitize(t.of.Key)),
		t.of.Since.In(t.io.zone).Format("2006-01-02 15:04:05 MST"))
	if t.of.SpreadDelay != "" {
		t.print("%s\n", t.paint(dim, "steps spread: delay of this key is "+sanitize(t.of.SpreadDelay)))
	}
	t.lookup()
}

// ticks prints the next ticks in the rule's zone.
func (t *timeline) ticks() {
	if len(t.of.Ticks) == 0 {
		return
	}
	zone, err := time.LoadLocation(t.of.Zone)
	if err != nil {
		zone = time.UTC
	}
	t.print("\n  %s\n", t.paint(dim, "next ticks, "+sanitize(t.of.Zone)))
	for _, tick := range t.of.Ticks {
		at := tick.At.In(zone)
		t.print("  %s", at.Format("Mon 2 Jan 2006 15:04:05 MST"))
		if tick.Emits != "" {
			t.print("  emits %s", sanitize(tick.Emits))
		}
		for _, s := range tick.Steps {
			t.print("  %s %s", t.paint(bold, sanitize(s.Step)), t.when(s.At.In(zone), at, zone))
		}
		t.print("\n")
	}
}

// lookup prints the result of the lookup at every check.
func (t *timeline) lookup() {
	l := t.of.Lookup
	if l == nil {
		return
	}
	found := "returns " + string(l.Found)
	if string(l.Found) == "null" {
		found = "returns no such entity"
	}
	given := " (given)"
	if l.Queried {
		given = " (queried now)"
	}
	t.print("%s\n", t.paint(dim, sanitize("each lookup in "+l.Source+" "+found+given)))
}

// entry prints a line of the preview with its details below it.
func (t *timeline) entry(l rules.PreviewLine, i int) {
	at := l.At.In(t.io.zone)
	if day := at.Format("Monday, 2 January 2006"); day != t.day {
		t.newDay(day, i)
	}
	mark := railPoint
	switch {
	case i == 0:
		mark = railBegin
	case i == len(t.of.Lines)-1 && t.of.Outcome != "":
		mark = railEnd
	}
	c, kind := kindOf(l)
	margin := fmt.Sprintf("  %s  %s  ", at.Format("15:04:05"), t.paint(dim, fmt.Sprintf("%*s", t.since, t.span(l.At))))
	t.print("%s%s %s  %s\n", margin, t.paint(c, mark), t.paint(c, fmt.Sprintf("%-12s", sanitize(kind))), t.headline(l))
	below := rail
	if mark == railEnd {
		below = " "
	}
	for _, more := range t.details(l) {
		t.print("%s%s %12s  %s\n", strings.Repeat(" ", t.margin()), t.paint(dim, below), "", more)
	}
}

func (t *timeline) newDay(day string, i int) {
	if i > 0 {
		t.print("%s%s\n", strings.Repeat(" ", t.margin()), t.paint(dim, rail))
	} else {
		t.print("\n")
	}
	t.print("  %s\n", t.paint(dim, day))
	t.day = day
}

// margin returns the characters left of the rail, and room the characters right of the kind of line.
func (t *timeline) margin() int { return 2 + len("15:04:05") + 2 + t.since + 2 }
func (t *timeline) room() int   { return max(t.width-t.margin()-len("| ")-12-2, least) }

// span formats the time since the start of the job.
func (t *timeline) span(at time.Time) string {
	d := at.Sub(t.of.Since).Truncate(time.Second)
	switch {
	case t.of.Key == "" || d == 0:
		return ""
	case d < 0:
		return "-" + document.Duration(-d).String()
	}
	return "+" + document.Duration(d).String()
}

// kindOf returns the color and name of a line.
func kindOf(l rules.PreviewLine) (colour, string) {
	switch l.Kind {
	case rules.LineAlert:
		alert := alerts.Alert{Detail: alerts.Detail{Draft: alerts.Draft{Status: l.Status, Severity: l.Severity}}}
		return newAlertColour(alert), severityOrStatus(alert)
	case rules.LineEnds:
		return outcomeColour(checks.Outcome(l.Note)), "ends"
	case rules.LineCheck:
		return dim, "check"
	}
	return blue, string(l.Kind)
}

// headline returns the first text of a line.
func (t *timeline) headline(l rules.PreviewLine) string {
	switch l.Kind {
	case rules.LineAlert:
		if l.Step == "" {
			return t.firstLine(l.Text)
		}
		return t.paint(bold, sanitize(l.Step))
	case rules.LineEnds:
		c, _ := kindOf(l)
		return t.paint(c, sanitize(l.Note))
	case rules.LineCheck:
		return t.paint(dim, t.firstLine(cmp.Or(l.Note, "nothing due")))
	}
	return sanitize(l.Note)
}

func (t *timeline) firstLine(text string) string {
	lines := t.wrap(text)
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// details returns the details below a line.
func (t *timeline) details(l rules.PreviewLine) (lines []string) {
	note := func(text string) {
		for _, line := range t.wrap(text) {
			lines = append(lines, t.paint(dim, line))
		}
	}
	switch l.Kind {
	case rules.LineStarts:
		note("first check " + t.when(l.Next, l.At, t.io.zone))
	case rules.LineEvent:
		if l.Next.IsZero() {
			note("paused")
		} else {
			note("next check " + t.when(l.Next, l.At, t.io.zone))
		}
	case rules.LineEnds:
		note(t.of.Reason)
	case rules.LineAlert:
		text := t.wrap(l.Text)
		if l.Step == "" {
			text = text[min(1, len(text)):]
		}
		lines = append(lines, text...)
		switch {
		case len(l.Channels) > 0:
			note("→ " + strings.Join(l.Channels, ", "))
		case l.Channels != nil:
			note("→ no channel")
		}
		if len(l.SkippedSteps) > 0 {
			note("skipped: " + strings.Join(l.SkippedSteps, ", "))
		}
		if l.More > 0 {
			note(fmt.Sprintf("repeated %s, last %s, unless acknowledged", number(l.More, "time"), t.when(l.Last, l.At, t.io.zone)))
		}
		for _, name := range slices.Sorted(maps.Keys(l.Labels)) {
			note(name + ": " + l.Labels[name])
		}
	case rules.LineCheck:
		if text := t.wrap(l.Note); len(text) > 1 {
			note(strings.Join(text[1:], " "))
		}
		if l.More > 0 {
			note(fmt.Sprintf("repeated %s, last %s", number(l.More, "time"), t.when(l.Last, l.At, t.io.zone)))
		}
	}
	return lines
}

// when formats a time in a zone, with the day if it differs.
func (t *timeline) when(at, from time.Time, zone *time.Location) string {
	at, from = at.In(zone), from.In(zone)
	if at.Format(time.DateOnly) == from.Format(time.DateOnly) {
		return "at " + at.Format("15:04:05")
	}
	return "on " + at.Format("2 January at 15:04:05")
}

// wrap breaks a text at spaces into lines that fit.
func (t *timeline) wrap(text string) []string {
	text = sanitize(strings.Join(strings.Fields(text), " "))
	switch {
	case text == "":
		return nil
	case t.width == 0:
		return []string{text}
	}
	return wrapText(text, t.room())
}

// foot prints the state of a job that has not ended, then the events not received, then the refusals.
func (t *timeline) foot() {
	if t.of.Key != "" && t.of.Outcome == "" {
		t.print("%s%s %s\n", strings.Repeat(" ", t.margin()), t.paint(dim, railOpen),
			t.paint(dim, cmp.Or(sanitize(t.of.Reason), "still pending at the end of the preview")))
	}
	for _, unheard := range t.of.IgnoredEvents {
		t.print("%s  %s\n", t.paint(yellow, "not received"), sanitize(unheard))
	}
	for _, warning := range t.of.Warnings {
		t.print("%s  %s\n", t.paint(yellow, "warning"), sanitize(warning))
	}
	for _, refused := range t.of.Refusals {
		t.print("%s  %s\n", t.paint(red, "dead letter"), sanitize(refused))
	}
}
