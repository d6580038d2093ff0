package calendars

import (
	"github.com/invopop/jsonschema"

	"deadman/internal/configfile"
)

var fileFields = configfile.Table{
	{Name: "calendars", Form: configfile.NamedForm(Form(), MaxCalendars), Text: "The calendars, by name."},
}

// Patterns of the texts of a calendar: words with commas, each of which begins like this.
const (
	daysPattern     = `^ *([A-Za-z]{3})`
	hoursPattern    = `^ *[0-9]{2}:[0-9]{2}`
	holidaysPattern = `^ *([0-9]{2}|[a-z]{2,3})`
)

var calendarFields = configfile.Table{
	{Name: "zone", Form: configfile.RawTextForm(), Required: true, Text: "Time zone: UTC, or a name such as Europe/Berlin."},
	{Name: "days", Form: wordsForm(daysPattern), Text: "Weekdays such as mon-fri. Default: every day."},
	{Name: "hours", Form: hoursForm(), Text: "Open hours such as 09:00-17:30, or a mapping of weekdays to hours. Default: the whole day."},
	{
		Name: "holidays", Form: wordsForm(holidaysPattern),
		Text: "Days on which the calendar is closed: dates such as 2026-12-25, 12-25 for every year, or the public holidays of a region such as de-by.",
	},
}

func wordsForm(pattern string) *jsonschema.Schema {
	return configfile.OneOrListForm(configfile.PatternForm(pattern), 0)
}

// hoursForm is the form of hours, which may differ by day.
func hoursForm() *jsonschema.Schema {
	s := wordsForm(hoursPattern)
	s.AnyOf = append(s.AnyOf, configfile.EntriesForm(wordsForm(hoursPattern), 0))
	return s
}

// Form returns the form of one calendar, for schemas.
func Form() *jsonschema.Schema {
	s := calendarFields.Object()
	s.Description = "Open hours and holidays."
	return s
}

// Schema returns the JSON Schema (2020-12) of a file of calendars, for editors.
func Schema() ([]byte, error) {
	return configfile.Schema(fileFields.Object(), "calendars", "Calendars of deadman")
}
