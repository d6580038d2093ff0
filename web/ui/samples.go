package ui

import (
	"fmt"

	"deadman/examples"
	"deadman/internal/calendars"
	"deadman/rules"
)

// sample is a rule to start from, as the gallery shows it.
type sample struct {
	Name, Says string
	Begins     string // what begins a wait, in words
	Subject    string // of the event that does; empty: none does
	Event      string
	Needs      string // what the node has to have for it, in words; empty: nothing
	Calendars  string

	text    string
	event   string // as people edit it
	listens string // the subject that begins a wait, with its wildcards
}

// galleryOf are the examples as rules to start from. An error is a mistake of ours.
func galleryOf() ([]sample, error) {
	all, err := examples.All()
	if err != nil {
		return nil, err
	}
	gallery := make([]sample, 0, len(all))
	for _, e := range all {
		s, err := sampleOf(e)
		if err != nil {
			return nil, fmt.Errorf("example %s: %w", e.Name, err)
		}
		gallery = append(gallery, s)
	}
	return gallery, nil
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
	s = sample{Name: d.Name, Says: d.Description, Begins: begins(d.Trigger), Calendars: e.Calendars, text: e.Text}
	if s.listens = d.Trigger.Event; d.Trigger.Heartbeat != nil {
		s.listens = d.Trigger.Heartbeat.Event
	}
	for _, event := range e.Events {
		if d.Trigger.Takes(event.Subject) {
			s.Subject, s.Event, s.event = event.Subject, string(event.Data), indented(event.Data)
			break
		}
	}
	if source, _ := lookedUp(d.Lookup); source != "" {
		s.Needs = "the source " + source
	}
	if e.Calendars != "" {
		for _, name := range calendarsOf(d.Escalate) {
			s.Needs = "the calendar " + name
		}
	}
	return s, nil
}

// sampleNamed is the sample of a name, or nil.
func (u *UI) sampleNamed(name string) *sample {
	for i := range u.gallery {
		if u.gallery[i].Name == name {
			return &u.gallery[i]
		}
	}
	return nil
}
