package rules

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"deadman/internal/calendars"
	"deadman/internal/configfile"
	"deadman/rules/document"
)

// ownCalendars compiles the calendars that the document defines itself.
func (c stepCompiler) ownCalendars(d document.Document) calendars.Set {
	if n := len(d.Calendars); n > document.MaxCalendars {
		c.problem("/calendars", "%d calendars, the most is %d; save some as shared calendars", n, document.MaxCalendars)
		return nil
	}
	own := make(calendars.Set, len(d.Calendars))
	for _, name := range slices.Sorted(maps.Keys(d.Calendars)) {
		p := document.FieldPointer("/calendars", name)
		own[name] = c.ownCalendar(p, name, d.Calendars[name])
		used := func(s document.Step) bool { return s.Of == name || s.Within == name }
		switch wrong := configfile.CheckName(name); {
		case wrong != "":
			c.problem(p, "%s", wrong)
		case !slices.ContainsFunc(d.Escalate, used) && !c.misspelled(d, name):
			c.problem(p, "no step uses the calendar; write of: %s or within: %[1]s in a step, or remove it", name)
		}
	}
	return own
}

// misspelled reports whether a step names an unknown calendar with almost the name of an own one. If the shared calendars
// are unknown, it adds the problem of such a step; otherwise the compiler of the step does.
func (c stepCompiler) misspelled(d document.Document, own string) bool {
	found := false
	check := func(pointer, name string) {
		_, isOwn := d.Calendars[name]
		if isOwn || c.calendars[name] != nil || configfile.Suggest(name, []string{own}) == "" {
			return
		}
		found = true
		if c.calendars == nil {
			c.problem(pointer, "unknown calendar %q; did you mean %q?", clip(name, 80), own)
		}
	}
	for i, s := range d.Escalate {
		p := document.ItemPointer("/escalate", i)
		check(p+"/of", s.Of)
		check(p+"/within", s.Within)
	}
	return found
}

// ownCalendar compiles one calendar. It adds the problems of its text at their fields, and returns an empty calendar then.
func (c stepCompiler) ownCalendar(pointer, name string, text json.RawMessage) *calendars.Calendar {
	calendar, err := calendars.ParseOne(text, name)
	var wrong configfile.Problems
	if errors.As(err, &wrong) {
		for _, p := range wrong {
			c.problem(pointer+pointerOf(p.Field), "%s", p.Message)
		}
		return nil
	}
	c.require(pointer, err)
	return calendar
}
