package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/rules"
)

// timeline is a sequence of inputs and results, as written in the docs. Its times are UTC and in 2026.
type timeline []line

type line struct {
	at   time.Time
	kind string
	text string
}

// The kinds of input lines. All others are results.
const (
	kindSaved = "saved" // the rule is saved, and ticks from then on; only as the first line
	kindEvent = "event" // a subject and a body
	kindFound = "finds" // the value of a source for all entities from then on
	kindAck   = "acks"  // a key and the duration of the acknowledgement: a span, until resolved or no more
	kindDown  = "down"  // the node is down from then on, and reads no events
	kindUp    = "up"    // the node is up again
	kindUntil = "until" // the timeline ends
)

var inputKinds = []string{kindSaved, kindEvent, kindFound, kindAck, kindDown, kindUp, kindUntil}

const (
	year   = "2006 "
	minute = "Mon 02 Jan 15:04"
	second = minute + ":05"
)

// clock formats a time for a timeline.
func clock(at time.Time) string {
	if at = at.UTC(); at.Second() == 0 {
		return at.Format(minute)
	}
	return at.Format(second)
}

// String formats the timeline. A line with the same time as the one above omits it.
func (tl timeline) String() string {
	var b strings.Builder
	width, before := 0, ""
	for _, l := range tl {
		width = max(width, len(clock(l.at)))
	}
	for _, l := range tl {
		at := clock(l.at)
		if at == before {
			at = ""
		} else {
			before = at
		}
		fmt.Fprintf(&b, "%-*s  %-8s %s\n", width, at, l.kind, l.text)
	}
	return b.String()
}

var row = regexp.MustCompile(`^(\w{3} \d\d \w{3} \d\d:\d\d(?::\d\d)?)?\s+(\w+) +(.*)$`)

// readTimeline parses the format of String.
func readTimeline(t *testing.T, text string) (tl timeline) {
	t.Helper()
	var at time.Time
	for text := range strings.Lines(text) {
		m := row.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil {
			t.Fatalf("not a line of a timeline: %q", text)
		}
		if m[1] != "" {
			at = instant(t, m[1])
		}
		tl = append(tl, line{at, m[2], m[3]})
	}
	return tl
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	layout := minute
	if len(text) == len(second) {
		layout = second
	}
	at, err := time.Parse(year+layout, "2026 "+text)
	if err != nil || clock(at) != text {
		t.Fatalf("%q is no instant of 2026; it reads as %s: %v", text, at, err)
	}
	return at
}

// inputs returns the input lines.
func (tl timeline) inputs() (given timeline) {
	for _, l := range tl {
		if slices.Contains(inputKinds, l.kind) {
			given = append(given, l)
		}
	}
	return given
}

// events returns the events of the timeline, and its end; zero: none.
func (tl timeline) events() (events []rules.PreviewEvent, end time.Time) {
	for _, l := range tl {
		switch l.kind {
		case kindSaved:
			events = append(events, rules.PreviewEvent{At: l.at})
		case kindEvent:
			subject, data, _ := strings.Cut(l.text, " ")
			events = append(events, rules.PreviewEvent{Subject: subject, At: l.at, Data: []byte(data)})
		case kindUntil:
			end = l.at
		}
	}
	return events, end
}

// found returns the constant value of a source; steady is false if it changes or no entity exists.
func (tl timeline) found() (found json.RawMessage, steady bool) {
	for i, l := range tl {
		switch {
		case l.kind != kindFound:
		case i > 0 || l.text == noAnswer:
			return nil, false
		case l.text == noEntity:
			found = json.RawMessage("null")
		default:
			found = json.RawMessage(l.text)
		}
	}
	return found, true
}

// alertLines returns the lines of alerts and ends of jobs.
func (tl timeline) alertLines() (received timeline) {
	for _, l := range tl {
		if l.kind == "alert" || l.kind == "ends" {
			received = append(received, l)
		}
	}
	return received
}

// previewTimeline returns the timeline of a rule with the given inputs, by a preview.
func previewTimeline(t *testing.T, rule string, known calendars.Set, given timeline) timeline {
	t.Helper()
	events, end := given.events()
	found, _ := given.found()
	p, err := (&rules.Registry{Calendars: known}).Preview(t.Context(), rules.PreviewRequest{Text: []byte(rule), Events: events, Until: end, Found: found})
	if err != nil {
		t.Fatalf("%v\n%s", err, rule)
	}
	if len(p.Refusals) > 0 || p.Outcome == "" && end.IsZero() && p.Reason != "" {
		t.Fatalf("%s%s\n%s", p.Reason, strings.Join(p.Refusals, "\n"), rule)
	}
	var follows timeline
	var next time.Time
	for _, l := range p.Lines {
		if l.Kind != rules.LineEvent || !l.Next.Equal(next) { // an event that moves no check has a line of its own
			follows = append(follows, lineOf(p, l))
		}
		next = l.Next
	}
	return given.merge(follows)
}

// merge merges results into inputs; inputs precede results of the same time.
func (tl timeline) merge(follows timeline) timeline {
	all := slices.Concat(tl, follows)
	slices.SortStableFunc(all, func(a, b line) int { return a.at.Compare(b.at) })
	return all
}

func lineOf(p rules.Preview, l rules.PreviewLine) line {
	next := "next check " + clock(l.Next)
	switch l.Kind {
	case rules.LineStarts:
		return line{l.At, "starts", p.Key + ", " + next}
	case rules.LineCheck:
		return line{l.At, "check", strings.TrimPrefix(l.Note+"; "+next, "; ")}
	case rules.LineAlert:
		return alertLine(l.At, alerts.Draft{
			Status: l.Status, Severity: l.Severity, Step: l.Step, Text: l.Text, SkippedSteps: l.SkippedSteps, Labels: l.Labels,
		})
	case rules.LineEnds:
		return endLine(l.At, p.Key, l.Note)
	}
	if l.Next.IsZero() {
		return line{l.At, "pauses", "the clock stops"}
	}
	return line{l.At, "goes on", next}
}

// endLine returns the line of a job's end.
func endLine(at time.Time, key, outcome string) line { return line{at, "ends", key + ", " + outcome} }

// alertLine returns the line of an alert.
func alertLine(at time.Time, a alerts.Draft) line {
	what := a.Step
	if a.Status != alerts.Firing {
		what = string(a.Status)
	}
	text := fmt.Sprintf("%s %s: %s", a.Severity, what, a.Text)
	if len(a.SkippedSteps) > 0 {
		text += " (also for " + strings.Join(a.SkippedSteps, ", ") + ")"
	}
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		labels = append(labels, name+": "+a.Labels[name])
	}
	if labels != nil {
		text += " {" + strings.Join(labels, ", ") + "}"
	}
	return line{at, "alert", text}
}
