package calendars_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/internal/calendars"
)

// publicHolidays are days from the laws and official lists of the places, written by hand: the weekdays of 2026 to 2028 on
// which offices are closed.
var publicHolidays = map[string]map[string]string{
	"de-by": {
		"2026-06-04": "Fronleichnam", "2027-03-26": "Karfreitag", "2027-03-29": "Ostermontag", "2027-05-06": "Christi Himmelfahrt",
		"2027-05-17": "Pfingstmontag", "2027-05-27": "Fronleichnam", "2027-11-01": "Allerheiligen", "2028-04-17": "Ostermontag", "2028-06-15": "Fronleichnam",
	},
	"de-sn": {"2027-11-17": "Buß- und Bettag", "2027-10-31": "Reformationstag"},
	"at":    {"2027-10-26": "Nationalfeiertag", "2027-12-08": "Mariä Empfängnis"},
	"us": {
		"2026-07-03": "Independence Day (observed)", "2026-11-26": "Thanksgiving Day", "2027-01-18": "Martin Luther King Jr. Day", "2027-05-31": "Memorial Day",
		"2027-06-18": "Juneteenth (observed)", "2027-07-05": "Independence Day (observed)", "2027-11-25": "Thanksgiving Day",
		"2027-12-24": "Christmas Day (observed)", "2027-12-31": "New Year's Day (observed)", "2028-11-23": "Thanksgiving Day",
	},
	"gb": {
		"2026-12-28": "Boxing Day (observed)", "2027-05-03": "Early May", "2027-08-30": "Summer Bank Holiday", "2027-12-27": "Christmas Day (observed)",
		"2027-12-28": "Boxing Day (observed)", "2028-01-03": "New Year's Day (observed)",
	},
	"fr": {"2027-07-14": "Fête Nationale", "2027-05-06": "Ascension"},
}

// workingDays are weekdays of the same years that are no public holidays of the places.
var workingDays = map[string][]string{
	"de-by": {"2027-11-17", "2027-03-30", "2027-05-28", "2027-12-24"},
	"de-be": {"2027-05-27", "2027-01-06", "2027-11-01"},
	"us":    {"2027-11-26", "2027-03-29", "2027-12-27"},
	"gb":    {"2027-07-05", "2027-11-25", "2027-05-06"},
}

// TestPublicHolidays compares the public holidays of calendars with independent lists.
func TestPublicHolidays(t *testing.T) {
	for region, days := range publicHolidays {
		c := calendarOf(t, "zone: UTC\nholidays: ["+region+"]")
		for day, name := range days {
			at, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.HolidayName(at); !strings.HasPrefix(got, name) || c.Open(at.Add(12*time.Hour)) {
				t.Errorf("%s in %s is %q, want %q; open: %t", day, region, got, name, c.Open(at.Add(12*time.Hour)))
			}
		}
	}
	for region, days := range workingDays {
		c := calendarOf(t, "zone: UTC\nholidays: "+region)
		for _, day := range days {
			at, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.HolidayName(at); got != "" || !c.Open(at.Add(12*time.Hour)) {
				t.Errorf("%s in %s is %q, and it is a working day", day, region, got)
			}
		}
	}
}

func calendarOf(t *testing.T, text string) *calendars.Calendar {
	t.Helper()
	c, err := calendars.ParseOne([]byte(text), "office")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRegions checks the form of a calendar with regions: the text survives, other days count beside them, every region is
// readable, and mistakes are named.
func TestRegions(t *testing.T) {
	c := calendarOf(t, "zone: Europe/Berlin\nholidays: [\"12-24\", de-by, 2027-05-07, no]\nhours: 09:00-17:00")
	again := calendarOf(t, c.Document())
	if c.Document() != again.Document() || !strings.Contains(c.Document(), "  - \"de-by\"\n  - \"no\"\n  - \"2027-05-07\"\n  - \"12-24\"\n") {
		t.Errorf("the document is %s", c.Document())
	}
	from := time.Date(2027, time.May, 1, 0, 0, 0, 0, time.UTC)
	var days []string
	for _, d := range c.Holidays(from, 6, 2) {
		days = append(days, d.Format(time.DateOnly))
	}
	if want := []string{"2027-05-01", "2027-05-06", "2027-05-07", "2027-05-17", "2027-05-27", "2027-10-03"}; !slices.Equal(days, want) {
		t.Errorf("the next holidays are %v, want %v", days, want)
	}
	for _, region := range calendars.Regions() {
		if c := calendarOf(t, "zone: UTC\nholidays: ["+region+"]"); len(c.Holidays(from, 1, 2)) == 0 || len(calendars.RegionHolidays(region, 2027)) < 5 {
			t.Errorf("%s has %d public holidays in 2027", region, len(calendars.RegionHolidays(region, 2027)))
		}
	}
	if days := calendars.RegionHolidays("de-by", 1900); days != nil {
		t.Errorf("holidays of 1900: %v", days)
	}
	for holidays, want := range map[string]string{
		"[de-bv]":                  `"de-bv" is not a region with known public holidays; did you mean de, de-bb, de-be, de-bw, de-by,`,
		"[bavaria]":                `"bavaria" is not a region with known public holidays; deadman calendar holidays lists all`,
		"[DE-BY]":                  "de-by",
		"[us, us]":                 "us is here twice; keep one",
		"[us, gb, de, at, ch, fr]": "there are 6 regions, and a calendar may have 5",
	} {
		if _, err := calendars.ParseOne([]byte("zone: UTC\nholidays: "+holidays), "office"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", holidays, err, want)
		}
	}
}
