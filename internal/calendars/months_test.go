package calendars_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"deadman/internal/calendars"
)

// Sums of months give the same results as a search day by day, also from and to instants that have no sums.
func TestFarInstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, _ := drawCalendar(t)
		known, err := calendars.Parse([]byte(d.text()), "")
		if err != nil {
			t.Skip(err) // closed in a whole year
		}
		c := known["drawn"]
		from := time.Date(rapid.SampledFrom([]int{1980, 1999, 2000, 2026, 2148, 2150, 2200}).Draw(t, "year"), 1, 1, 0, 0, 0, 0, d.zone).
			Add(time.Duration(rapid.IntRange(-40*24*60, 400*24*60).Draw(t, "minutes")) * time.Minute)
		span := time.Duration(rapid.IntRange(0, 4*366*24*60).Draw(t, "span")) * time.Minute
		to := from.Add(span)
		var want time.Duration
		for at := from; at.Before(to); at = at.Add(10 * 24 * time.Hour) { // too short for sums of months
			want += c.Between(at, earlier(at.Add(10*24*time.Hour), to))
		}
		if got := c.Between(from, to); got != want {
			t.Fatalf("from %s to %s it is open for %s, want %s", from, to, got, want)
		}
		if want == 0 {
			return
		}
		if got, want := c.Next(from), c.Add(from, 1).Add(-1); !got.Equal(want) {
			t.Fatalf("after %s it opens at %s, want %s", from, got, want)
		}
		at := c.Add(from, want)
		if got := c.Between(from, at); got != want || at.After(to) {
			t.Fatalf("open time of %s since %s ends at %s, which is after %s", want, from, at, got)
		}
		if got := c.Between(from, at.Add(-1)); got != want-1 {
			t.Fatalf("open time of %s since %s ends before %s", want, from, at)
		}
	})
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// A calendar that is open for a minute each year costs little for spans of centuries: the steps of a rule have such a search
// for each event.
func TestRareOpeningIsCheap(t *testing.T) {
	var holidays []string
	for day := time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC); day.Year() == 2024; day = day.AddDate(0, 0, 1) {
		holidays = append(holidays, fmt.Sprintf("%q", day.Format("01-02")))
	}
	c, err := calendars.ParseOne([]byte("zone: UTC\nhours: \"00:00-00:01\"\nholidays: ["+strings.Join(holidays, ", ")+"]\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 11, 27, 7, 30, 0, 0, time.UTC)
	if got, want := c.Add(from, 30*time.Minute), time.Date(2056, 1, 1, 0, 1, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("30 minutes end at %s, want %s", got, want)
	}
	if got, want := c.Next(from), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("it opens at %s, want %s", got, want)
	}
	startedAt := time.Now()
	for i := range 2000 {
		if end := from.Add(calendars.MaxSearch); !c.Add(from, time.Duration(i+500)*time.Hour).Equal(end) {
			t.Fatal("it ends before the search")
		}
	}
	if took := time.Since(startedAt); took > 2*time.Second {
		t.Errorf("2,000 searches over a century take %s", took)
	}
}
