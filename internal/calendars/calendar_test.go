package calendars_test

import (
	"testing"
	"time"

	"deadman/internal/calendars"
)

const knownCalendar = `
calendars:
  office:
    zone: Europe/Berlin
    days: mon-fri
    hours: "09:00-17:30"
    holidays: [2026-12-25, 2027-01-01, "12-24"]
  nights:
    zone: Europe/Berlin
    hours: "22:00-06:00"
    holidays: [2026-12-25]
  hotline:
    zone: America/New_York
    hours: {mon-thu: ["08:00-12:00", "13:00-17:00"], sat: 08:00-12:00}
  always: {zone: UTC}
  samoa: {zone: Pacific/Apia, hours: "09:00-17:00"}
  monrovia: {zone: Africa/Monrovia, hours: "09:00-17:00"}
  minute: {zone: UTC, days: sun, hours: "00:00-00:01"}
`

func calendar(t testing.TB, name string) *calendars.Calendar {
	t.Helper()
	set, err := calendars.Parse([]byte(knownCalendar), "known.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := set[name]
	if c == nil || c.Name() != name {
		t.Fatalf("the calendar %s is %+v", name, c)
	}
	return c
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ calendar, at, opens string }{
		{"office", "2026-11-20T15:04:05.5+01:00", "2026-11-20T15:04:05.5+01:00"},
		{"office", "2026-11-20T17:30:00+01:00", "2026-11-23T09:00:00+01:00"}, // the end of a Friday
		{"office", "2026-11-20T17:29:59.999999999+01:00", "2026-11-20T17:29:59.999999999+01:00"},
		{"office", "2026-11-20T09:00:00+01:00", "2026-11-20T09:00:00+01:00"},
		{"office", "2026-11-20T08:59:59.999999999+01:00", "2026-11-20T09:00:00+01:00"},
		{"office", "2026-12-23T18:00:00+01:00", "2026-12-28T09:00:00+01:00"}, // two holidays, a weekend
		{"office", "2027-12-23T18:00:00+01:00", "2027-12-27T09:00:00+01:00"}, // a yearly holiday
		{"office", "2026-03-27T18:00:00+01:00", "2026-03-30T09:00:00+02:00"}, // summer time begins
		{"nights", "2026-11-20T21:00:00+01:00", "2026-11-20T22:00:00+01:00"},
		{"nights", "2026-11-20T03:00:00+01:00", "2026-11-20T03:00:00+01:00"},
		{"nights", "2026-12-25T00:00:00+01:00", "2026-12-26T22:00:00+01:00"}, // ends at the holiday's midnight; none begins on a holiday
		{"hotline", "2026-11-20T12:00:00-05:00", "2026-11-21T08:00:00-05:00"},
		{"hotline", "2026-11-23T12:30:00-05:00", "2026-11-23T13:00:00-05:00"},
		{"samoa", "2011-12-29T17:00:00-10:00", "2011-12-31T09:00:00+14:00"},      // 30 December did not exist
		{"monrovia", "1970-06-01T00:00:00Z", "1970-06-01T09:44:30Z"},             // a zone with an odd offset
		{"office", "1960-01-02T12:00:00Z", "1960-01-04T08:00:00Z"},               // before 1970
		{"always", "2026-11-20T15:04:05.5+01:00", "2026-11-20T15:04:05.5+01:00"}, // always open
	} {
		at, opens := instant(t, c.at), instant(t, c.opens)
		if got := calendar(t, c.calendar).Next(at); !got.Equal(opens) {
			t.Errorf("%s: Next(%s) = %s, want %s", c.calendar, c.at, got.Format(time.RFC3339Nano), c.opens)
		}
		if open := calendar(t, c.calendar).Open(at); open != at.Equal(opens) {
			t.Errorf("%s: Open(%s) = %t", c.calendar, c.at, open)
		}
	}
}

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		calendar, at string
		open         time.Duration
		by           string
	}{
		{"office", "2026-11-20T15:00:00+01:00", 8 * time.Hour, "2026-11-23T14:30:00+01:00"},
		{"office", "2026-11-20T15:00:00+01:00", 150 * time.Minute, "2026-11-20T17:30:00+01:00"}, // used up at closing time
		{"office", "2026-11-20T15:00:00+01:00", 150*time.Minute + 1, "2026-11-23T09:00:00.000000001+01:00"},
		{"office", "2026-11-21T15:00:00+01:00", 0, "2026-11-21T15:00:00+01:00"},
		{"office", "2026-11-21T15:00:00+01:00", -time.Hour, "2026-11-21T15:00:00+01:00"},
		{"nights", "2026-03-28T22:00:00+01:00", 8 * time.Hour, "2026-03-29T23:00:00+02:00"}, // a night of seven hours
		{"nights", "2026-10-24T22:00:00+02:00", 9 * time.Hour, "2026-10-25T06:00:00+01:00"}, // a night of nine
		{"nights", "2026-12-24T22:00:00+01:00", 3 * time.Hour, "2026-12-26T23:00:00+01:00"}, // cut at a holiday's midnight
		{"always", "2026-11-20T15:00:00Z", 1000 * time.Hour, "2027-01-01T07:00:00Z"},
	} {
		got := calendar(t, c.calendar).Add(instant(t, c.at), c.open)
		if !got.Equal(instant(t, c.by)) {
			t.Errorf("%s: Add(%s, %s) = %s, want %s", c.calendar, c.at, c.open, got.Format(time.RFC3339Nano), c.by)
		}
	}
}

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		calendar, from, to string
		open               time.Duration
	}{
		{"office", "2026-11-20T15:00:00+01:00", "2026-11-23T10:00:00+01:00", 210 * time.Minute},
		{"office", "2026-11-23T10:00:00+01:00", "2026-11-20T15:00:00+01:00", 0},
		{"nights", "2026-10-24T12:00:00+02:00", "2026-10-25T12:00:00+01:00", 9 * time.Hour},
		{"nights", "2026-03-28T12:00:00+01:00", "2026-03-29T12:00:00+02:00", 7 * time.Hour},
		{"always", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", 365 * 24 * time.Hour},
		{"minute", "2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", 522 * time.Minute},            // Sundays of ten years
		{"office", "2040-12-30T00:00:00+01:00", "2041-01-03T00:00:00+01:00", 1530 * time.Minute}, // a leap year's 366th day
	} {
		if got := calendar(t, c.calendar).Between(instant(t, c.from), instant(t, c.to)); got != c.open {
			t.Errorf("%s: Between(%s, %s) = %s, want %s", c.calendar, c.from, c.to, got, c.open)
		}
	}
}

// TestMaxSearch checks that calculations end after a century, in bounded time.
func TestMaxSearch(t *testing.T) {
	c, at := calendar(t, "minute"), instant(t, "2026-01-01T00:00:00Z")
	if got := c.Add(at, 1<<62); !got.Equal(at.Add(calendars.MaxSearch)) {
		t.Errorf("Add ends at %s", got)
	}
	if got, want := c.Between(time.Time{}, at), c.Between(time.Time{}, time.Time{}.Add(calendars.MaxSearch)); got != want || want == 0 {
		t.Errorf("Between counts %s over two thousand years, %s over its reach", got, want)
	}
}

// TestResultsKeepLocation checks that a result has the location of the argument.
func TestResultsKeepLocation(t *testing.T) {
	c, at := calendar(t, "office"), instant(t, "2026-11-21T15:00:00Z").UTC()
	for _, got := range []time.Time{c.Next(at), c.Add(at, time.Hour), c.Add(at, 0)} {
		if got.Location() != time.UTC {
			t.Errorf("%s is in %s", got, got.Location())
		}
	}
}

func TestNoCalendarIsAlwaysOpen(t *testing.T) {
	var c *calendars.Calendar
	at := instant(t, "2026-11-21T03:00:00Z")
	later := at.Add(8 * time.Hour)
	if !c.Open(at) || !c.Next(at).Equal(at) || !c.Add(at, 8*time.Hour).Equal(later) ||
		c.Between(at, later) != 8*time.Hour || c.Between(later, at) != 0 || c.Name() != "" {
		t.Error("no calendar closes")
	}
}

func BenchmarkAdd(b *testing.B) {
	c, at := calendar(b, "office"), instant(b, "2026-11-20T15:00:00Z")
	for _, open := range []time.Duration{8 * time.Hour, 20_000 * time.Hour} { // the longer one takes nine years
		b.Run(open.String(), func(b *testing.B) {
			for b.Loop() {
				c.Add(at, open)
			}
		})
	}
}
