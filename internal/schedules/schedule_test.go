package schedules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/internal/schedules"
)

func parse(t testing.TB, text, zone string) schedules.Schedule {
	t.Helper()
	s, err := schedules.Parse(text, zoneOf(t, zone), "rule")
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

// TestNext checks clock changes, the calendar and the forms of a schedule.
func TestNext(t *testing.T) {
	for _, c := range []struct{ name, text, zone, after, want string }{
		{"a working day", "0 9 * * 1-5", "Europe/Berlin", "2026-03-06 09:00 +0100", "2026-03-09 09:00 +0100; 2026-03-10 09:00 +0100"},
		{"left out", "30 2 * * *", "Europe/Berlin", "2026-03-28 03:00 +0100", "2026-03-29 03:00 +0200; 2026-03-30 02:30 +0200"},
		{"several left out are one", "0,20,40 2 * * *", "Europe/Berlin", "2026-03-28 03:00 +0100", "2026-03-29 03:00 +0200; 2026-03-30 02:00 +0200"},
		{"twice", "30 2 * * *", "Europe/Berlin", "2026-10-24 03:00 +0200", "2026-10-25 02:30 +0200; 2026-10-26 02:30 +0100"},
		{"between the two", "30 2 * * *", "Europe/Berlin", "2026-10-25 02:10 +0100", "2026-10-26 02:30 +0100"},
		{"after the first of two", "0 3 * * *", "Europe/Berlin", "2026-10-25 02:30 +0200", "2026-10-25 03:00 +0100"},
		{"each hour of a shorter day", "30 * * * *", "Europe/Berlin", "2026-03-29 01:00 +0100", "2026-03-29 01:30 +0100; 2026-03-29 03:30 +0200"},
		{"each hour of a longer day", "@hourly", "Europe/Berlin", "2026-10-25 01:30 +0200", "2026-10-25 02:00 +0200; 2026-10-25 02:00 +0100; 2026-10-25 03:00 +0100"},
		{"no midnight", "@daily", "America/Sao_Paulo", "2018-11-03 00:00 -0300", "2018-11-04 01:00 -0200; 2018-11-05 00:00 -0200"},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00 +1030", "2026-10-04 02:30 +1100; 2026-10-05 02:15 +1100"},
		{"each hour but one half", "0 * * * *", "Australia/Lord_Howe", "2026-10-04 01:00 +1030", "2026-10-04 03:00 +1100"},
		{"two hours", "0 2 * * *", "Antarctica/Troll", "2026-03-28 12:00 +0000", "2026-03-29 03:00 +0200; 2026-03-30 02:00 +0200"},
		{"no such day", "0 9 * * *", "Pacific/Apia", "2011-12-29 09:00 -1000", "2011-12-31 00:00 +1400; 2011-12-31 09:00 +1400"},
		{"each hour over no such day", "0 */1 * * *", "Pacific/Apia", "2011-12-29 23:00 -1000", "2011-12-31 00:00 +1400; 2011-12-31 01:00 +1400"},
		{"no leap day in 2100", "0 0 29 2 *", "UTC", "2096-02-29 00:00 +0000", "2104-02-29 00:00 +0000"},
		{"forty years", "0 0 29 2 +WED", "UTC", "2072-03-01 00:00 +0000", "2096-02-29 00:00 +0000; 2108-02-29 00:00 +0000"},
		{"either day", "0 9 30 * SAT", "UTC", "2026-05-01 00:00 +0000", "2026-05-02 09:00 +0000; 2026-05-09 09:00 +0000; 2026-05-16 09:00 +0000; 2026-05-23 09:00 +0000; 2026-05-30 09:00 +0000; 2026-06-06 09:00 +0000"},
		{"both days", "0 9 30 * +SAT", "UTC", "2026-01-01 00:00 +0000", "2026-05-30 09:00 +0000; 2027-01-30 09:00 +0000; 2027-10-30 09:00 +0000"},
		{"the first Monday", "0 9 1-7 * +MON", "UTC", "2026-01-01 00:00 +0000", "2026-01-05 09:00 +0000; 2026-02-02 09:00 +0000"},
		{"on the 366th day", "0 12 31 12 *", "Europe/Berlin", "2039-12-31 12:00 +0100", "2040-12-31 12:00 +0100; 2041-12-31 12:00 +0100"},
		{"from the 366th day to summer", "0 * 1 7 *", "Europe/Berlin", "2040-12-31 12:00 +0100", "2041-07-01 00:00 +0200"},
		{"within the tick's second", "* * * * *", "UTC", "2026-01-01 00:00:59 +0000", "2026-01-01 00:01 +0000; 2026-01-01 00:02 +0000"},
		{"every", "@every 1h30m", "Europe/Berlin", "1970-01-01 00:00 +0000", "1970-01-01 01:30 +0000; 1970-01-01 03:00 +0000"},
		{"at", "@at 2026-11-20T15:04:05.2Z", "UTC", "2026-11-20 15:04:05 +0000", "2026-11-20 15:04:06 +0000; "},
		{"at a second", "@at 1763735945", "UTC", "2025-11-21 14:39:04 +0000", "2025-11-21 14:39:05 +0000; "},
		{"the last", "@yearly", "UTC", "9998-06-01 00:00 +0000", "9999-01-01 00:00 +0000; "},
		{"the last of every", "@every 3650d", "UTC", "9998-06-01 00:00 +0000", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, after := parse(t, c.text, c.zone), at(t, c.after)
			for _, want := range strings.Split(c.want, "; ") {
				got, ok := s.Next(after)
				if want == "" {
					if ok {
						t.Errorf("after %s: %s, not nothing", after, got)
					}
					return
				}
				if !ok || !got.Equal(at(t, want)) {
					t.Fatalf("after %s: %s, %t, not %s", after, got, ok, want)
				}
				after = got
			}
		})
	}
}

// TestEveryCountsFromItsAnchor checks that ticks do not drift and that the first tick is one span after the anchor.
func TestEveryCountsFromItsAnchor(t *testing.T) {
	anchor := at(t, "2026-03-02 10:07:30 +0000")
	s := parse(t, "@every 1h30m", "UTC").From(anchor.Add(700 * time.Millisecond))
	for _, c := range []struct{ after, want time.Time }{
		{anchor.AddDate(-3, 0, 0), anchor.Add(90 * time.Minute)},
		{anchor, anchor.Add(90 * time.Minute)},
		{anchor.Add(90*time.Minute - 1), anchor.Add(90 * time.Minute)},
		{anchor.Add(90 * time.Minute), anchor.Add(180 * time.Minute)},
		{anchor.Add(1000*90*time.Minute + 17), anchor.Add(1001 * 90 * time.Minute)},
	} {
		if got, ok := s.Next(c.after); !ok || !got.Equal(c.want) {
			t.Errorf("after %s: %s, not %s", c.after, got, c.want)
		}
	}
	if n, last := s.Between(anchor, anchor.Add(270*time.Minute)); n != 3 || !last.Equal(anchor.Add(270*time.Minute)) {
		t.Errorf("%d until %s", n, last)
	}
	for _, text := range []string{"0 9 * * *", "@hourly", "@at 1800000000"} {
		s := parse(t, text, "Europe/Berlin")
		want, _ := s.Next(anchor)
		if got, _ := s.From(anchor.Add(time.Minute)).Next(anchor); !got.Equal(want) {
			t.Errorf("%s from an anchor: %s, not %s", text, got, want)
		}
	}
}

// TestBetween counts missed ticks, also over thousands of years.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		text, zone, after, through string
		n                          int
		last                       string
	}{
		{"@every 1s", "UTC", "2020-01-01 00:00 +0000", "2030-01-01 00:00 +0000", 3653 * 86400, "2030-01-01 00:00 +0000"},
		{"* * * * *", "Europe/Berlin", "2020-01-01 00:00 +0000", "2030-01-01 00:00 +0000", 3653 * 1440, "2030-01-01 00:00 +0000"},
		{"30 2 * * *", "Europe/Berlin", "2020-01-01 00:00 +0100", "2040-01-01 00:00 +0100", 7305, "2039-12-31 02:30 +0100"},
		{"0 3 29 2 *", "Europe/Berlin", "0001-01-01 00:00 +0000", "9999-12-31 00:00 +0000", 2424, "9996-02-29 03:00 +0100"},
		{"@daily", "UTC", "2026-03-02 00:00 +0000", "2026-03-03 00:00 +0000", 1, "2026-03-03 00:00 +0000"},
		{"@at 1772409600", "UTC", "2026-03-01 00:00 +0000", "2026-03-02 00:00 +0000", 1, "2026-03-02 00:00 +0000"},
	} {
		s, after, through := parse(t, c.text, c.zone), at(t, c.after), at(t, c.through)
		if n, last := s.Between(after, through); n != c.n || !last.Equal(at(t, c.last)) {
			t.Errorf("%q in %s after %s: %d until %s, not %d until %s", c.text, c.zone, c.after, n, last, c.n, c.last)
		}
		for _, none := range [][2]time.Time{{through, through}, {through, after}, {through, through.Add(500 * time.Millisecond)}} {
			if n, last := s.Between(none[0], none[1]); n != 0 || !last.IsZero() {
				t.Errorf("%q after %s through %s: %d until %s, not none", c.text, none[0], none[1], n, last)
			}
		}
	}
	twice := [2]time.Time{at(t, "2026-10-25 02:40 +0200"), at(t, "2026-10-25 02:10 +0100")}
	if n, last := parse(t, "30 2 * * *", "Europe/Berlin").Between(twice[0], twice[1]); n != 0 || !last.IsZero() {
		t.Errorf("between the two showings: %d until %s", n, last)
	}
}

// TestShortest checks the shortest time between ticks.
func TestShortest(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"* * * * *":        time.Minute,
		"*/7 * * * *":      4 * time.Minute, // from :56
		"0 0 * * *":        24 * time.Hour,
		"0 0,22 * * *":     2 * time.Hour,
		"0 0,22 1 * *":     22 * time.Hour,
		"50 23 * * *":      24 * time.Hour,
		"10,50 8,17 * * 1": 40 * time.Minute,
		"@monthly":         28 * 24 * time.Hour,
		"@yearly":          365 * 24 * time.Hour,
		"0 0 29 2 *":       4*365*24*time.Hour + 24*time.Hour,
		"0 0 13 * +FRI":    28 * 24 * time.Hour,
		"0 0 13 * FRI":     24 * time.Hour,
		"@every 1h30m":     90 * time.Minute,
		"@at 1763735945":   0,
	} {
		if got := parse(t, text, "Europe/Berlin").Shortest(); got != want {
			t.Errorf("%q: %s, not %s", text, got, want)
		}
	}
}

// TestSpread checks that "?" never changes for a seed, and that many rules share the hour evenly.
func TestSpread(t *testing.T) {
	const rules = 60000
	var minutes [60]int
	days := make(map[int]bool)
	for i := range rules {
		s, err := schedules.Parse("? ? ? * *", nil, "rule-"+time.Duration(i).String())
		if err != nil {
			t.Fatal(err)
		}
		tick, _ := s.Next(at(t, "2026-02-01 00:00 +0000"))
		minutes[tick.Minute()]++
		days[tick.Day()] = true
	}
	if least, limit := slices.Min(minutes[:]), slices.Max(minutes[:]); least < rules/60*8/10 || limit > rules/60*12/10 {
		t.Errorf("of %d rules, between %d and %d tick in one minute", rules, least, limit)
	}
	if len(days) != 28 || days[29] {
		t.Errorf("on %d days, not 28", len(days))
	}
	for _, c := range []struct{ seed, want string }{
		{"import-missing", "2026-12-22 21:31 +0000"},
		{"backup-missing", "2026-05-19 21:22 +0000"},
	} {
		s, err := schedules.Parse("? ? ? ? *", nil, c.seed)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Next(at(t, "2026-01-01 00:00 +0000")); !got.Equal(at(t, c.want)) {
			t.Errorf("%s: %s, not %s: a change moves the ticks of everybody's rules", c.seed, got, c.want)
		}
	}
}
