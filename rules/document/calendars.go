package document

import (
	"encoding/json"
	"slices"

	"github.com/invopop/jsonschema"
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
	const ref = "#/$defs/calendar"
	texts := func(what, pattern string) *jsonschema.Schema {
		one := &jsonschema.Schema{Type: "string", Pattern: pattern}
		return &jsonschema.Schema{Description: what, AnyOf: []*jsonschema.Schema{one, {Type: "array", Items: one, MinItems: new(uint64(1))}}}
	}
	const hours, days = `^ *[0-9]{2}:[0-9]{2}`, `^ *([A-Za-z]{3})`
	c := &jsonschema.Schema{
		Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema, Required: []string{"zone"},
		Description: "Open hours and holidays.",
	}
	c.Properties.Set("zone", &jsonschema.Schema{Type: "string", Description: "Time zone: UTC, or a name such as Europe/Berlin."})
	c.Properties.Set("days", texts("Weekdays such as mon-fri. Default: every day.", days))
	open := texts("Open hours such as 09:00-17:30, or a mapping of weekdays to hours. Default: the whole day.", hours)
	open.AnyOf = append(open.AnyOf, &jsonschema.Schema{Type: "object", AdditionalProperties: texts("", hours)})
	c.Properties.Set("hours", open)
	c.Properties.Set("holidays", texts("Days on which the calendar is closed: dates such as 2026-12-25, 12-25 for every year, or the public holidays of a region such as de-by.", `^ *([0-9]{2}|[a-z]{2,3})`))
	d["calendar"] = c
	return &jsonschema.Schema{
		Type: "object", MinProperties: new(uint64(1)), MaxProperties: new(uint64(MaxCalendars)),
		PropertyNames: &jsonschema.Schema{Pattern: NamePattern.String()}, AdditionalProperties: &jsonschema.Schema{Ref: ref},
	}
}
