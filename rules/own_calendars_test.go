package rules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/calendars"
	"deadman/rules"
	"deadman/rules/document"
)

// ownRule is a rule with a calendar of its own.
const (
	ownRule   = ownBegin + ownOffice + ownSteps
	ownBegin  = "\nname: reply\nentity: ticket\ntrigger: {event: tickets.opened, key: event.id}\n"
	ownOffice = `calendars:
  office: # head office
    zone: Europe/Berlin
    hours:
      mon-thu: "09:00-17:30"
      fri: 09:00-15:00
    holidays: [2026-01-01, "12-25"]
`
	ownSteps = "escalate: [{after: 4h, of: office, step: lead}, {after: 8h, within: office, step: page}]\n"
)

// A rule with calendars of its own needs no others. They hide shared ones, and survive YAML and JSON.
func TestOwnCalendars(t *testing.T) {
	shared, err := calendars.Parse([]byte("calendars: {office: {zone: UTC}}"), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, known := range map[string]calendars.Set{"none": {}, "unknown": nil, "shared": shared} {
		documents, err := rules.ParseAgainst([]byte(ownRule), "", known)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := documents[0]
		if names := d.CalendarNames(); len(names) != 0 {
			t.Errorf("shared calendars %v", names)
		}
		yaml, err := d.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := rules.ParseAgainst(yaml, "", known)
		if diff := cmp.Diff(documents, again); err != nil || diff != "" {
			t.Errorf("%s\nis read as %s: %v", yaml, diff, err)
		}
	}
	w := newCalendarTest(t)
	w.save("office", "zone: UTC\n")
	saveRule(t, w.store, 0, ownRule)
	saveRule(t, w.store, 0, strings.NewReplacer("name: reply", "name: open", ", {after: 8h, within: office, step: page}", "").Replace(ownRule))
	refresh(t, w.one)
	// Thursday, 2026-01-01 is a holiday; Friday opens at 08:00 UTC, where within ends; of ends four hours later.
	checkMatch(t, w.one, w.opened(1), "start reply@1 7 08:00", "start open@1 7 12:00")
	if err := w.registry.Delete(t.Context(), "office", rules.AnyVersion); err != nil {
		t.Errorf("the shared calendar, which the rule does not use: %v", err)
	}
}

// The errors of a rule's own calendars are reported at their places.
func TestErrorsOfOwnCalendars(t *testing.T) {
	text := strings.NewReplacer("Europe/Berlin", "Berlin", "fri: 09:00-15:00", "fri: 09:00-25:00", `"12-25"`, `"12-32"`).Replace(ownRule)
	text = strings.Replace(text, "escalate:", "  Shop: {zone: UTC}\nescalate:", 1)
	_, err := rules.Parse([]byte(text), "")
	var wrong document.Problems
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range wrong {
		line, _, _ := strings.Cut(p.Error(), ";")
		got = append(got, line)
	}
	want := []string{
		`7:5: reply: calendars.office.zone: "Berlin" is not a time zone`,
		`10:7: reply: calendars.office.hours.fri: "09:00-25:00" does not end at a time of day`,
		`11:28: reply: calendars.office.holidays[1]: "12-32" is not a day from 1970 on`,
		`12:3: reply: calendars.Shop: "Shop" is not a name`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for own, message := range map[string]string{
		"calendars: {}": "5:1: reply: calendars: expected a mapping of names to calendars",
		"calendars: {office: {zone: UTC}, shop: {zone: UTC}}": "5:34: reply: calendars.shop: no step uses the calendar",
		"calendars: {offices: {zone: UTC}}":                   `unknown calendar "office"; did you mean "offices"?`,
		"calendars: {office: {days: mon}}":                    "5:13: reply: calendars.office: zone is missing",
	} {
		_, err := rules.ParseAgainst([]byte(ownBegin+own+"\n"+ownSteps), "", calendars.Set{})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", own, err)
		}
	}
}

// A misspelled calendar of the rule itself is the only problem, whether or not the shared calendars are known.
func TestMisspelledOwnCalendar(t *testing.T) {
	text := ownBegin + "calendars: {offices: {zone: UTC}}\n" + ownSteps
	for _, known := range []calendars.Set{nil, {}} {
		_, err := rules.ParseAgainst([]byte(text), "", known)
		var wrong document.Problems
		if !errors.As(err, &wrong) || strings.Contains(err.Error(), "no step uses") || !strings.Contains(wrong[0].Message, `unknown calendar "office"; did you mean "offices"?`) {
			t.Errorf("known calendars %v: %v", known, err)
		}
	}
	text = ownBegin + "calendars: {shop: {zone: UTC}}\n" + ownSteps
	if _, err := rules.ParseAgainst([]byte(text), "", nil); err == nil || !strings.Contains(err.Error(), "no step uses the calendar") || strings.Contains(err.Error(), "unknown") {
		t.Error(err)
	}
}

// TestPublicHolidaysInRules checks business time across public holidays: New Year's Day, and Epiphany on Tuesday 2026-01-06, which
// Bavaria has and Berlin has not.
func TestPublicHolidaysInRules(t *testing.T) {
	w := newCalendarTest(t)
	for region, name := range map[string]string{"de-by": "bavaria", "de-be": "berlin"} {
		saveRule(t, w.store, 0, `
name: `+name+`
entity: ticket
trigger: {event: tickets.opened, key: event.id, since: '"2026-01-01T10:05:00Z"'}
calendars:
  office: {zone: Europe/Berlin, hours: {mon-tue: "09:00-17:00", wed: "10:00-17:00", fri: "09:00-15:00"}, holidays: [`+region+`]}
escalate: [{after: 15h, of: office}]
`)
		saveRule(t, w.store, 0, `
name: `+name+`-within
entity: ticket
trigger: {event: tickets.opened, key: event.id, since: '"2026-01-01T10:05:00Z"'}
calendars:
  office: {zone: Europe/Berlin, hours: {mon-tue: "09:00-17:00", wed: "10:00-17:00", fri: "09:00-15:00"}, holidays: [`+region+`]}
escalate: [{after: 5d, within: office}]
`)
	}
	refresh(t, w.one)
	// Friday has six hours and Monday eight; the fifteenth is on Wednesday from ten in Bavaria, and on Tuesday from nine in Berlin.
	got := matchedRules(w.one, w.opened(1))
	slices.Sort(got)
	want := []string{"start bavaria-within@1 7 09:00", "start bavaria@1 7 10:00", "start berlin-within@1 7 10:05", "start berlin@1 7 09:00"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
