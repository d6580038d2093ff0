package ui

import (
	"fmt"
	"regexp"
	"sync"
	"time"

	"deadman/examples"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/rules"
)

// sample is a rule of the gallery.
type sample struct {
	Name, Text string
	Begins     string // trigger in words
	Drawing    []timeAxis
	Needs      string // requirements on the node in words; empty: none

	text    string
	subject string    // subject of the trigger event; empty: none
	event   string    // indented, for editing
	at      time.Time // of the event
	listens string    // subject of the trigger, with its wildcards
}

// timeInText is an instant or a day in the body of an example's event.
var timeInText = regexp.MustCompile(`\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?`)

// eventAt returns the trigger event as if it occurred now: the times and days of its body are moved with it. Otherwise
// the preview would show a job of months ago, whose steps are all due at once. A day is moved up to the next midnight, so
// that a time of that day is as far ahead as in the example, or up to a day farther, at any hour.
func (s *sample) eventAt(now time.Time) string {
	by := now.Sub(s.at).Truncate(time.Second)
	days := int((by + futurejobs.Day - time.Second) / futurejobs.Day)
	return timeInText.ReplaceAllStringFunc(s.event, func(text string) string {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at.Add(by).UTC().Format(time.RFC3339)
		}
		if day, err := time.Parse(time.DateOnly, text); err == nil {
			return day.AddDate(0, 0, days).Format(time.DateOnly)
		}
		return text // no time, such as 2026-99-99
	})
}

// gallery has the samples for all nodes of the process, converted by its first call. They do not change.
var gallery = sync.OnceValues(readGallery)

// readGallery converts the examples to samples. An error is a bug in an example.
func readGallery() ([]sample, error) {
	all, err := examples.All()
	if err != nil {
		return nil, err
	}
	samples := make([]sample, 0, len(all))
	for _, e := range all {
		s, err := sampleOf(e)
		if err != nil {
			return nil, fmt.Errorf("example %s: %w", e.Name, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func sampleOf(e examples.Example) (s sample, err error) {
	documents, err := rules.ParseAgainst([]byte(e.Text), "", calendars.Set{})
	if err != nil {
		return s, err
	}
	d := documents[0]
	s = sample{Name: d.Name, Text: d.Description, Begins: triggerText(d.Trigger), text: e.Text, listens: d.Trigger.Subject()}
	s.Drawing, _ = escalation(d)
	for _, event := range e.Events {
		if d.Trigger.Takes(event.Subject) {
			s.subject, s.event, s.at = event.Subject, indented(event.Data), event.At
			break
		}
	}
	if source, _ := lookupTexts(d.Lookup); source != "" {
		s.Needs = "source " + source
	}
	return s, nil
}

// sampleNamed returns the sample of a name, or nil.
func (u *UI) sampleNamed(name string) *sample {
	for i := range u.gallery {
		if u.gallery[i].Name == name {
			return &u.gallery[i]
		}
	}
	return nil
}
