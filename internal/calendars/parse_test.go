package calendars_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/calendars"
	"deadman/internal/configfile"
)

// officeHours returns a calendar with these fields.
func officeHours(fields string) string {
	return "calendars:\n  office:\n    " + strings.ReplaceAll(fields, "\n", "\n    ") + "\n"
}

func TestBadCalendars(t *testing.T) {
	const days = "the days are mon, tue, wed, thu, fri, sat and sun, and several are mon-fri"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown field", officeHours("zone: UTC\nday: mon"), []string{`4:5: calendars.office.day: unknown field "day"; did you mean "days"?`}},
		{"another top field", "calender: {}\n", []string{`1:1: calender: unknown field "calender"; did you mean "calendars"?`}},
		{"a list of calendars", "calendars: [office]\n", []string{`1:12: calendars: expected a mapping with a name for each calendar, not a list`}},
		{"a calendar of text", "calendars:\n  office: mon-fri\n", []string{`2:11: calendars.office: expected a mapping with the fields zone, days, hours, holidays, not text`}},
		{"a name", "calendars:\n  Head Office: {zone: UTC}\n", []string{`2:3: calendars.Head Office: "Head Office" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit`}},
		{"no value", officeHours("zone: UTC\ndays:"), []string{`4:5: calendars.office.days: the value is missing; write one, or leave the field out`}},
		{"a merge", officeHours("zone: UTC\n<<: {days: mon}"), []string{`4:5: calendars.office.<<: unknown field "<<"; the fields here are zone, days, hours, holidays`}},
		{"an anchor", officeHours("zone: &z UTC"), []string{`3:11: calendars.office.zone: expected the name of a zone such as Europe/Berlin, not a YAML anchor`}},
		{"an alias", officeHours("zone: *z"), []string{`3:11: calendars.office.zone: expected the name of a zone such as Europe/Berlin, not a YAML alias`}},
		{"a tag", officeHours("zone: UTC\ndays: !x mon"), []string{`4:11: calendars.office.days: YAML reads a YAML tag here; write it in quotes, such as "mon-fri"`}},

		{"no zone", officeHours("days: mon"), []string{`2:3: calendars.office: zone is missing; write zone: UTC, or a place such as zone: Europe/Berlin`}},
		{"a zone without value", officeHours("zone:\ndays: mon"), []string{`3:5: calendars.office.zone: the value is missing; write one, or leave the field out`}},
		{"a zone that is none", officeHours("zone: Europe/Berln"), []string{`3:11: calendars.office.zone: "Europe/Berln" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`}},
		{"the machine's zone", officeHours("zone: Local"), []string{`3:11: calendars.office.zone: "Local" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`}},
		{"the machine's zone in the database", officeHours("zone: localtime"), []string{`3:11: calendars.office.zone: "localtime" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`}},
		{"an empty zone", officeHours(`zone: ""`), []string{`3:11: calendars.office.zone: "" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`}},
		{"a zone outside the database", officeHours(`zone: ../zoneinfo/UTC`), []string{`3:11: calendars.office.zone: "../zoneinfo/UTC" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`}},
		{"a zone of numbers", officeHours("zone: 2"), []string{`3:11: calendars.office.zone: expected the name of a zone such as Europe/Berlin, not a number`}},

		{"a day that is none", officeHours("zone: UTC\ndays: [mon, tues]"), []string{`4:17: calendars.office.days[1]: "tues" is not a day; ` + days}},
		{"no day", officeHours("zone: UTC\ndays: []"), []string{`4:11: calendars.office.days: the list is empty; add an entry, or leave the field out`}},
		{"an empty day", officeHours("zone: UTC\ndays: mon,"), []string{`4:11: calendars.office.days: "" is not a day; ` + days}},
		{"half a range", officeHours("zone: UTC\ndays: mon-"), []string{`4:11: calendars.office.days: "mon-" is not a day; ` + days}},
		{"a day twice", officeHours("zone: UTC\ndays: mon-fri, wed"), []string{`4:11: calendars.office.days: wed is named twice; keep one`}},
		{"a day of numbers", officeHours("zone: UTC\ndays: [1, 2]"), []string{
			`4:12: calendars.office.days[0]: YAML reads a number here; write it in quotes, such as "mon-fri"`,
			`4:15: calendars.office.days[1]: YAML reads a number here; write it in quotes, such as "mon-fri"`,
		}},

		{"hours that are none", officeHours("zone: UTC\nhours: 9-17"), []string{`4:12: calendars.office.hours: "9-17" is not a span of hours; write it like "09:00-17:30"`}},
		{"hours that YAML bends", officeHours("zone: UTC\nhours: {sat: [10:00-12:00]}"), []string{`4:19: calendars.office.hours.sat[0]: YAML reads a mapping here; write it in quotes, such as "09:00-17:30"`}},
		{"hours of a number", officeHours("zone: UTC\nhours: 9"), []string{`4:12: calendars.office.hours: YAML reads a number here; write it in quotes, such as "09:00-17:30"`}},
		{"an hour after the day", officeHours(`zone: UTC` + "\n" + `hours: "24:00-25:00"`), []string{`4:12: calendars.office.hours: "24:00-25:00" does not begin at a time of day; use 00:00 to 23:59`}},
		{"an end after the day", officeHours(`zone: UTC` + "\n" + `hours: "23:00-24:01"`), []string{`4:12: calendars.office.hours: "23:00-24:01" does not end at a time of day; use 00:00 to 24:00`}},
		{"a minute after the hour", officeHours(`zone: UTC` + "\n" + `hours: "08:60-12:00"`), []string{`4:12: calendars.office.hours: "08:60-12:00" does not begin at a time of day; use 00:00 to 23:59`}},
		{"an empty span", officeHours(`zone: UTC` + "\n" + `hours: "09:00-09:00"`), []string{`4:12: calendars.office.hours: the span ends where it begins; the whole day is "00:00-24:00"`}},
		{"spans that overlap", officeHours(`zone: UTC` + "\n" + `hours: ["12:00-13:00", "09:00-12:01"]`), []string{`4:12: calendars.office.hours: two of the spans overlap; write them as one`}},
		{"too many spans", officeHours("zone: UTC\nhours: " + minutes(25)), []string{`4:12: calendars.office.hours: there are 25 spans, and a day may have 24; join some of them`}},
		{"days twice over", officeHours("zone: UTC\ndays: mon\nhours: {mon: 09:00-17:00}"), []string{`4:11: calendars.office.days: hours has the days already; remove days`}},
		{"no day's hours", officeHours("zone: UTC\nhours: {}"), []string{`4:12: calendars.office.hours: the days are missing; write the hours of each, such as mon-fri: "09:00-17:30"`}},
		{"a day's hours twice", officeHours("zone: UTC\nhours:\n  mon-fri: 09:00-17:00\n  fri: 09:00-12:00"), []string{`6:7: calendars.office.hours.fri: fri is named twice; keep one`}},
		{"hours of a day that is none", officeHours("zone: UTC\nhours:\n  monday: 9"), []string{
			`5:7: calendars.office.hours.monday: "monday" is not a day; ` + days,
			`5:15: calendars.office.hours.monday: YAML reads a number here; write it in quotes, such as "09:00-17:30"`,
		}},

		{"a holiday that is none", officeHours("zone: UTC\nholidays: [2026-02-29, 02-30, 25.12.2026]"), []string{
			`4:16: calendars.office.holidays[0]: "2026-02-29" is not a day from 1970 on; write a date such as "2026-12-25", or "12-25" for every year, or a region such as de-by`,
			`4:28: calendars.office.holidays[1]: "02-30" is not a day from 1970 on; write a date such as "2026-12-25", or "12-25" for every year, or a region such as de-by`,
			`4:35: calendars.office.holidays[2]: "25.12.2026" is not a day from 1970 on; write a date such as "2026-12-25", or "12-25" for every year, or a region such as de-by`,
		}},
		{"a holiday long gone", officeHours("zone: UTC\nholidays: 1969-12-25"), []string{`4:15: calendars.office.holidays: "1969-12-25" is not a day from 1970 on; write a date such as "2026-12-25", or "12-25" for every year, or a region such as de-by`}},
		{"a holiday twice", officeHours("zone: UTC\nholidays: [12-25, 2026-12-25, 12-25]"), []string{`4:35: calendars.office.holidays[2]: 12-25 is here twice; keep one`}},
		{"a holiday of numbers", officeHours("zone: UTC\nholidays: [20261225]"), []string{`4:16: calendars.office.holidays[0]: YAML reads a number here; write it in quotes, such as "2026-12-25"`}},
		{"too many holidays", officeHours("zone: UTC\nholidays: [" + dates("2026-01-01", 1001) + "]"), []string{`4:15: calendars.office.holidays: there are 1001 holidays, and a calendar may have 1000; remove those of past years`}},

		{"closed for ever", officeHours("zone: UTC\nholidays: [" + yearly(1, 366) + "]"), []string{`2:3: calendars.office: it is closed all year in 2000; a calendar must open in every year: remove some holidays`}},
		{"open on 29 February", officeHours("zone: UTC\nholidays: [" + strings.Replace(yearly(1, 366), "02-29, ", "", 1) + "]"), []string{`2:3: calendars.office: it is closed all year in 2001; a calendar must open in every year: remove some holidays`}},
		{"open on a day that is not always open", officeHours("zone: UTC\ndays: mon-fri\nholidays: [" + yearly(2, 366) + "]"), []string{`2:3: calendars.office: it is closed all year in 2000; a calendar must open in every year: remove some holidays`}},
		{"a year off", officeHours("zone: UTC\nholidays: [" + dates("2031-01-01", 365) + "]"), []string{`2:3: calendars.office: it is closed all year in 2031; a calendar must open in every year: remove some holidays`}},

		{"all at once", "calendars:\n  b: {days: x}\n  a: {zone: y, hours: z}\nfoo: 1\n", []string{
			`2:3: calendars.b: zone is missing; write zone: UTC, or a place such as zone: Europe/Berlin`,
			`2:13: calendars.b.days: "x" is not a day; ` + days,
			`3:13: calendars.a.zone: "y" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`,
			`3:23: calendars.a.hours: "z" is not a span of hours; write it like "09:00-17:30"`,
			`4:1: foo: unknown field "foo"; the fields here are calendars`,
		}},
		{"too many", "calendars:\n" + numbered(101), []string{`2:3: calendars: there are 101 calendars, and the limit is 100; remove those that no rule uses`}},
	} {
		set, err := calendars.Parse([]byte(c.text), "bad.yaml")
		var problems configfile.Problems
		if !errors.As(err, &problems) || set != nil {
			t.Errorf("%s: %v, %v", c.name, set, err)
			continue
		}
		var want []string
		for _, line := range c.want {
			want = append(want, "bad.yaml:"+line)
		}
		if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// minutes returns n spans that do not touch.
func minutes(n int) string {
	var spans []string
	for i := range n {
		spans = append(spans, fmt.Sprintf(`"%02d:%02d-%02d:%02d"`, i/2, i%2*30, i/2, i%2*30+1))
	}
	return "[" + strings.Join(spans, ", ") + "]"
}

func dates(first string, n int) string { return days(first, "2006-01-02", n) }

// yearly returns the days of a leap year from one to another.
func yearly(from, to int) string {
	return days(time.Date(2000, 1, from, 0, 0, 0, 0, time.UTC).Format("2006-01-02"), "01-02", to-from+1)
}

func days(first, layout string, n int) string {
	day, err := time.Parse("2006-01-02", first)
	if err != nil {
		panic(err)
	}
	var list []string
	for i := range n {
		list = append(list, day.AddDate(0, 0, i).Format(layout))
	}
	return strings.Join(list, ", ")
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  c%d: {zone: UTC}\n", i)
	}
	return b.String()
}

// TestLimitsAreAllowed checks that values at the limits are accepted.
func TestLimitsAreAllowed(t *testing.T) {
	fifth := calendars.MaxHolidays / 5
	for name, text := range map[string]string{
		"spans": officeHours("zone: UTC\nhours: " + minutes(calendars.MaxSpans)),
		"holidays": officeHours("zone: UTC\nholidays: [" + strings.Join([]string{
			dates("2026-01-01", fifth), dates("2027-01-01", fifth), dates("2028-01-01", fifth), dates("2029-01-01", fifth), dates("2030-01-01", fifth),
		}, ", ") + "]"),
		"calendars":     "calendars:\n" + numbered(calendars.MaxCalendars),
		"a day a year":  officeHours("zone: UTC\nholidays: [" + yearly(2, 366) + "]"),
		"all but a day": officeHours("zone: UTC\nholidays: [" + dates("2031-01-01", 364) + "]"),
	} {
		if _, err := calendars.Parse([]byte(text), "large.yaml"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEquivalentForms(t *testing.T) {
	same := func(a, b string) {
		t.Helper()
		at := instant(t, "2026-11-20T15:04:05Z")
		var got [2][]time.Duration
		for i, fields := range []string{a, b} {
			set, err := calendars.Parse([]byte(officeHours(fields)), "")
			if err != nil {
				t.Fatalf("%v\n%s", err, fields)
			}
			for hour := range 24 * 60 {
				from := at.Add(time.Duration(hour) * time.Hour)
				got[i] = append(got[i], set["office"].Between(from, from.Add(time.Hour)))
			}
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Errorf("not the same:\n%s\n\n%s\n%s", a, b, diff)
		}
	}
	same("zone: UTC", "zone: UTC\ndays: mon-sun\nhours: \"00:00-24:00\"")
	same("zone: UTC\ndays: mon-fri, sun", "zone: UTC\ndays: [sun, Mon - Wed, thu, fri]")
	same("zone: UTC\ndays: fri-mon", "zone: UTC\ndays: [fri, sat, sun, mon]")
	same("zone: UTC\ndays: mon\nhours: 09:00-12:00, 13:00 - 17:00", "zone: UTC\nhours: {mon: [\"13:00-17:00\", \"09:00-12:00\"]}")
	same("zone: UTC\nhours:\n  mon-fri: 09:00-00:00\n  sat, sun: 10:00-12:00", "zone: UTC\nhours:\n  sat-sun:\n    - 10:00-12:00\n  mon-fri: 09:00-24:00")
	same("zone: UTC\nhours: 22:00-06:00", "zone: UTC\nhours: [\"22:00-24:00\", \"00:00-06:00\"]")
	same("zone: UTC\nholidays: 11-23, 2026-12-25", "zone: UTC\nholidays:\n  - 2026-11-23\n  - \"12-25\"")
	same("zone: UTC\nhours: {fri: 20:00-06:00, sat: 04:00-10:00}", "zone: UTC\nhours: {fri: 20:00-04:00, sat: 04:00-10:00}")
	same("zone: UTC\nhours: {fri: 20:00-06:00, sat: 04:00-05:00}", "zone: UTC\nhours: {fri: 20:00-06:00}")
	same("zone: UTC\nhours: 09:00-12:00, 12:00-17:00", "zone: UTC\nhours: 09:00-17:00")
}

func TestNoCalendars(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "calendars: {}\n", "\ufeffcalendars: {}\r\n"} {
		set, err := calendars.Parse([]byte(text), "empty.yaml")
		if err != nil || set == nil || len(set) != 0 {
			t.Errorf("%q: %v, %v", text, set, err)
		}
	}
}

var block = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```")

// TestPageParses checks that every calendar in the documentation is valid.
func TestPageParses(t *testing.T) {
	const page = "../../docs/reference/calendars.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Errorf("%s shows %d blocks of calendars", page, len(blocks))
	}
	for _, b := range blocks {
		if set, err := calendars.Parse([]byte(b[1]), page); err != nil || len(set) == 0 {
			t.Errorf("%d calendars, %v\n%s", len(set), err, b[1])
		}
	}
}

// FuzzParse checks that no text crashes the process, and that accepted calendars open within two years.
func FuzzParse(f *testing.F) {
	f.Add([]byte(knownCalendar))
	f.Add([]byte(officeHours("zone: UTC\ndays: mon-fri, sun\nhours: {mon: [\"22:00-06:00\"]}\nholidays: [02-29]")))
	f.Add([]byte("calendars: {a: {zone: !x Pacific/Apia, hours: [10:00-12:00]}}"))
	f.Add([]byte("? a\n: &b [*b, <<]\n---\n- |\n  x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := calendars.Parse(data, "fuzz.yaml")
		if (set == nil) == (err == nil) {
			t.Fatalf("%v, %v", set, err)
		}
		at := instant(t, "2026-11-20T15:04:05Z")
		for name, c := range set {
			if c.Name() != name || c.Next(at).Sub(at) > 2*366*24*time.Hour {
				t.Fatalf("%s (%s) opens %s\n%s", name, c.Name(), c.Next(at), data)
			}
		}
	})
}
