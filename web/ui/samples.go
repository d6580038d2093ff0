package ui

import (
	"fmt"
	"sync"

	"deadman/examples"
	"deadman/internal/calendars"
	"deadman/rules"
)

// sample is a rule of the gallery.
type sample struct {
	Name, Text string
	Begins     string // trigger in words
	Subject    string // subject of the trigger event; empty: none
	Event      string
	Needs      string // requirements on the node in words; empty: none
	Calendars  string

	text    string
	event   string // indented, for editing
	listens string // subject of the trigger, with its wildcards
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
	known := calendars.Set{}
	if e.Calendars != "" {
		if known, err = calendars.Parse([]byte(e.Calendars), e.Situation); err != nil {
			return s, err
		}
	}
	documents, err := rules.ParseAgainst([]byte(e.Text), "", known)
	if err != nil {
		return s, err
	}
	d := documents[0]
	s = sample{Name: d.Name, Text: d.Description, Begins: triggerText(d.Trigger), Calendars: e.Calendars, text: e.Text}
	if s.listens = d.Trigger.Event; d.Trigger.Heartbeat != nil {
		s.listens = d.Trigger.Heartbeat.Event
	}
	for _, event := range e.Events {
		if d.Trigger.Takes(event.Subject) {
			s.Subject, s.Event, s.event = event.Subject, string(event.Data), indented(event.Data)
			break
		}
	}
	if source, _ := lookupTexts(d.Lookup); source != "" {
		s.Needs = "source " + source
	}
	if e.Calendars != "" {
		for _, name := range calendarsOf(d.Escalate) {
			s.Needs = "calendar " + name
		}
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
