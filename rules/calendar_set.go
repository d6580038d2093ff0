package rules

import (
	"maps"

	"deadman/internal/calendars"
)

// calendarSet holds the calendars of a node: those of its file, and those of the database as of a revision. It is
// immutable.
type calendarSet struct {
	saved  map[string]savedCalendar // of the database, deleted ones included
	usable calendars.Set            // that new versions of rules may name
	// all also has deleted calendars, for the versions of rules that use them. A calendar of the file hides one of the
	// database.
	all calendars.Set
}

// savedCalendar is the newest version of a calendar of the database.
type savedCalendar struct {
	CalendarVersion
	calendar *calendars.Calendar // nil: this program cannot read it
}

// newCalendarSet returns the calendars of a file and of the database.
func newCalendarSet(file calendars.Set, saved map[string]savedCalendar) *calendarSet {
	s := &calendarSet{saved: saved, usable: make(calendars.Set), all: make(calendars.Set)}
	for name, c := range saved {
		if c.calendar == nil {
			continue
		}
		s.all[name] = c.calendar
		if c.DeletedAt.IsZero() {
			s.usable[name] = c.calendar
		}
	}
	maps.Copy(s.usable, file)
	maps.Copy(s.all, file)
	return s
}

// usableBy returns the usable calendars for the rules of a token with a prefix.
func (s *calendarSet) usableBy(prefix string) calendars.Set {
	if prefix == "" {
		return s.usable
	}
	some := make(calendars.Set)
	for name, c := range s.usable {
		saved := s.saved[name]
		if isOfFile := saved.calendar != c; isOfFile || saved.IsUsableBy(prefix) {
			some[name] = c
		}
	}
	return some
}

// with returns the set after changes. A calendar whose version did not change stays the same pointer, so that the rules
// that use it are not compiled again.
func (s *calendarSet) with(file calendars.Set, changes []CalendarVersion) *calendarSet {
	if len(changes) == 0 {
		return s
	}
	saved := maps.Clone(s.saved)
	if saved == nil {
		saved = make(map[string]savedCalendar)
	}
	for _, c := range changes {
		before := saved[c.Name]
		if before.calendar == nil || before.Version != c.Version || !before.SavedAt.Equal(c.SavedAt) {
			before.calendar, _ = calendars.ParseOne([]byte(c.Document), c.Name) // nil on an error: the rules that use it report it
		}
		saved[c.Name] = savedCalendar{c, before.calendar}
	}
	return newCalendarSet(file, saved)
}
