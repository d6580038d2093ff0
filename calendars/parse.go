package calendars

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Bounds of a text of calendars.
const (
	MaxSize      = 256 << 10 // bytes
	MaxCalendars = 100
	MaxHolidays  = 1000 // of one calendar
	MaxSpans     = 24   // of one day
)

// Set is the calendars of a text by their names.
type Set map[string]*Calendar

// Parse reads the field calendars of a text, in YAML. file is the name that problems carry.
// The names of other fields that the text may have, which are somebody else's to read, are
// given as others; any that is neither is refused. A text without calendars is an empty Set.
// The error is Problems and holds all of them in the order of the text, unless the text is not
// YAML at all: then the first place where it is not.
func Parse(data []byte, file string, others ...string) (Set, error) {
	document, p := readYAML(data)
	if p != nil {
		return nil, Problems{*p}.orNil(file)
	}
	set := make(Set)
	if document == nil {
		return set, nil
	}
	var r reader
	top := []known{{"calendars", func(n ast.Node, field string) { r.calendars(n, field, set) }}}
	for _, name := range others {
		top = append(top, known{name, func(ast.Node, string) {}})
	}
	r.fields(document, "", top)
	if err := r.problems.orNil(file); err != nil {
		return nil, err
	}
	return set, nil
}

// reader notes what is wrong while it reads.
type reader struct{ problems Problems }

func (r *reader) problem(n ast.Node, field, format string, args ...any) {
	r.problems = append(r.problems, problemAt(start(n), field, format, args...))
}

// known is a field that a mapping may have.
type known struct {
	name string
	read func(n ast.Node, field string)
}

// fields hands each field of a mapping to its reader.
func (r *reader) fields(n ast.Node, field string, fields []known) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	r.mapping(n, field, "the fields "+strings.Join(names, ", "), func(name string, key, value ast.Node, field string) {
		i := slices.Index(names, name)
		if i < 0 {
			r.problem(key, field, "unknown field %q; the fields here are %s", clip(name), strings.Join(names, ", "))
			return
		}
		fields[i].read(value, field)
	})
}

// mapping hands each name of a mapping and its value to read, and refuses names that are there
// twice and those without a value.
func (r *reader) mapping(n ast.Node, field, what string, read func(name string, key, value ast.Node, field string)) {
	values, ok := mapping(n)
	if !ok {
		r.problem(n, field, "expected a mapping with %s, not %s", what, kind(n))
		return
	}
	seen := make(map[string]bool)
	for _, v := range values {
		name := v.Key.GetToken().Value
		below := strings.TrimPrefix(field+"."+clip(name), ".")
		_, explicit := v.Key.(*ast.MappingKeyNode)
		switch {
		case explicit:
			r.problem(v.Key, field, `a "?" key is not needed here; write "name: value"`)
		case seen[name]:
			r.problem(v.Key, below, "%q is here twice; keep one", clip(name))
		case v.Value.Type() == ast.NullType:
			r.problem(v.Key, below, "there is no value; give it one or leave it out")
		default:
			read(name, v.Key, v.Value, below)
		}
		seen[name] = true
	}
}

var calendarName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func (r *reader) calendars(n ast.Node, field string, set Set) {
	if values, _ := mapping(n); len(values) > MaxCalendars {
		r.problem(n, field, "there are %d calendars, and the limit is %d; leave out those that no rule uses", len(values), MaxCalendars)
		return
	}
	r.mapping(n, field, "a name for each calendar", func(name string, key, value ast.Node, field string) {
		if !calendarName.MatchString(name) {
			r.problem(key, field, "%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", clip(name))
		}
		set[name] = r.calendar(name, key, value, field)
	})
}

// calendar reads one calendar. What is left out leaves everything open: every day, the whole
// day, no holidays. The zone is never guessed.
func (r *reader) calendar(name string, key, n ast.Node, field string) *Calendar {
	before := len(r.problems)
	c := &Calendar{name: name}
	var zone, days, hours, holidays ast.Node
	r.fields(n, field, []known{
		{"zone", keep(&zone)}, {"days", keep(&days)}, {"hours", keep(&hours)}, {"holidays", keep(&holidays)},
	})
	if zone != nil {
		c.zone = r.zone(zone, field+".zone")
	} else if !r.spoken(field, field+".zone") {
		r.problem(key, field, "zone is missing; write zone: UTC, or a place such as zone: Europe/Berlin")
	}
	c.week = weekOf(r.week(days, hours, field))
	if holidays != nil {
		c.holidays = r.holidays(holidays, field+".holidays")
	}
	if len(r.problems) == before {
		r.opens(c, key, field)
	}
	return c
}

func keep(to *ast.Node) func(ast.Node, string) {
	return func(n ast.Node, _ string) { *to = n }
}

// spoken reports whether a problem is known at one of the fields.
func (r *reader) spoken(fields ...string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return slices.Contains(fields, p.Field) })
}

func (r *reader) zone(n ast.Node, field string) *time.Location {
	name, ok := text(n)
	if !ok {
		r.problem(n, field, "expected the name of a zone such as Europe/Berlin, not %s", kind(n))
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		r.problem(n, field, "%q is not a zone of the IANA time zone database; write UTC, or a place such as Europe/Berlin", clip(name))
		return nil
	}
	return zone
}

// opens refuses a calendar that stays closed for a whole year: what waits for it would be
// forgotten.
func (r *reader) opens(c *Calendar, key ast.Node, field string) {
	closed := 0
	for year := range c.holidays.years() {
		if !c.opensIn(year) && (closed == 0 || year < closed) {
			closed = year
		}
	}
	if closed != 0 {
		r.problem(key, field, "it is closed all year in %d; a calendar opens in every year: leave out some holidays", closed)
	}
}

func (c *Calendar) opensIn(year int) bool {
	for d := dateOf(year, time.January, 1); d < dateOf(year+1, time.January, 1); d++ {
		if len(c.hours(d)) > 0 {
			return true
		}
	}
	return false
}
