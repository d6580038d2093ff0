package calendars

import (
	"fmt"
	"strings"
	"time"

	"deadman/internal/configfile"
	"deadman/internal/timezones"
)

// Limits of a file with calendars.
const (
	MaxCalendars = 100
	MaxHolidays  = 1000 // of one calendar
	MaxSpans     = 24   // of one day
)

// Set is a set of calendars by name.
type Set map[string]*Calendar

// Parse reads a YAML file of calendars. file is the name of the file in problems. A file without calendars is an empty Set.
// The error is configfile.Problems.
func Parse(data []byte, file string) (Set, error) {
	set := make(Set)
	err := configfile.Read(data, file, func(v configfile.Value) {
		if all := v.In(fileFields)["calendars"]; all.Present() {
			set.read(all)
		}
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}

// MaxDocument is the largest text of one calendar, in bytes.
const MaxDocument = 32 << 10

// ParseOne parses the text of one calendar: its fields, without its name. The error is configfile.Problems.
func ParseOne(text []byte, name string) (c *Calendar, err error) {
	if len(text) > MaxDocument {
		return nil, configfile.Problems{{Line: 1, Column: 1, Message: fmt.Sprintf("the calendar has %d bytes, and the limit is %d; remove holidays of past years", len(text), MaxDocument)}}
	}
	err = configfile.Read(text, "", func(v configfile.Value) {
		v.Name = name
		c = readCalendar(v)
	})
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, configfile.Problems{{Line: 1, Column: 1, Message: "the calendar is empty; write zone: UTC, or a place such as zone: Europe/Berlin"}}
	}
	return c, nil
}

func (set Set) read(v configfile.Value) {
	all := v.Entries("a name for each calendar")
	if len(all) > MaxCalendars {
		v.Problem("there are %d calendars, and the limit is %d; remove those that no rule uses", len(all), MaxCalendars)
		return
	}
	for _, one := range all {
		set[one.Name] = readCalendar(one)
		if wrong := configfile.CheckName(one.Name); wrong != "" {
			one.ProblemAtName("%s", wrong)
		}
	}
}

// readCalendar reads one calendar. Defaults are every day, the whole day and no holidays. The zone is required.
func readCalendar(v configfile.Value) *Calendar {
	fields := v.In(calendarFields)
	c := &Calendar{
		name:     v.Name,
		zone:     readZone(fields["zone"].Require("write zone: UTC, or a place such as zone: Europe/Berlin")),
		begins:   readWeek(fields["days"], fields["hours"]),
		holidays: readHolidays(fields["holidays"]),
	}
	c.week = weekOf(c.begins)
	if !v.HasProblem() {
		c.requireOpenTime(v)
	}
	return c
}

func readZone(v configfile.Value) *time.Location {
	if !v.Present() {
		return nil
	}
	name, ok := v.RawText()
	if !ok {
		v.Problem("expected the name of a zone such as Europe/Berlin, not %s", v.Kind())
		return nil
	}
	zone, err := timezones.Parse(name)
	if err != nil {
		v.Problem("%s", err)
		return nil
	}
	return zone
}

// clip limits the length of a quoted text.
func clip(s string) string { return configfile.Truncate(s, 40) }

// requireOpenTime reports a calendar that is closed for a whole year: jobs that wait for it would be forgotten.
func (c *Calendar) requireOpenTime(v configfile.Value) {
	closed := 0
	for year := range c.holidays.years() {
		if !c.opensIn(year) && (closed == 0 || year < closed) {
			closed = year
		}
	}
	if closed != 0 {
		v.ProblemAtName("it is closed all year in %d; a calendar must open in every year: remove some holidays", closed)
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

// readWords passes each word of a text such as "mon-fri, sun", or of a list of such texts, to read and reports its
// errors. like is an example of a valid text.
func readWords(v configfile.Value, like string, read func(word string) error) {
	for _, item := range v.OneOrList() {
		text, ok := item.RawText()
		if !ok {
			item.Problem("YAML reads %s here; write it in quotes, such as %q", item.Kind(), like)
			continue
		}
		for word := range strings.SplitSeq(text, ",") {
			if err := read(strings.TrimSpace(word)); err != nil {
				item.Problem("%s", err)
			}
		}
	}
}
