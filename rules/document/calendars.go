package document

import (
	"encoding/json"
	"slices"

	"github.com/invopop/jsonschema"

	"deadman/internal/calendars"
)

// Calendars are the calendars of a rule alone, by name, each as JSON in the format of package calendars.
type Calendars map[string]json.RawMessage

// MaxCalendars bounds the calendars of a rule.
const MaxCalendars = 10

// CalendarNames returns the names of the shared calendars that the steps use, sorted, each once: those that the document
// does not define itself.
func (d Document) CalendarNames() []string {
	var names []string
	for _, s := range d.Escalate {
		for _, name := range []string{s.Of, s.Within} {
			if _, own := d.Calendars[name]; name != "" && !own {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// calendarMap is a mapping of names to calendars, which are kept as JSON. The compiler of package rules checks them.
type calendarMap struct{ to *Calendars }

func (v calendarMap) read(r *reader, n node, pointer string) {
	if n.kind != aMapping || len(n.fields) == 0 {
		r.problem(pointer, "expected a mapping of names to calendars, not %s; write: calendars: {office: {zone: Europe/Berlin, days: mon-fri}}", n.kind)
		return
	}
	*v.to = make(Calendars)
	r.each(n, pointer, func(f field, p string) {
		var calendar json.RawMessage
		rawValue{&calendar}.read(r, f.value, p)
		(*v.to)[f.name] = calendar
	})
}

func (v calendarMap) schema(d jsonschema.Definitions) *jsonschema.Schema {
	d["calendar"] = calendars.Form()
	return &jsonschema.Schema{
		Type: "object", MinProperties: new(uint64(1)), MaxProperties: new(uint64(MaxCalendars)),
		PropertyNames: &jsonschema.Schema{Pattern: NamePattern.String()}, AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/calendar"},
	}
}
