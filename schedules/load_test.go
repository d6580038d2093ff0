package schedules_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"deadman/schedules"
)

// TestLoad counts the ticks of every kind of schedule, and finds what walking them finds.
func TestLoad(t *testing.T) {
	from := at(t, "2026-10-24 22:00 +0000")
	for _, c := range []struct {
		text  string
		width time.Duration
	}{
		{"0 0 * * *", time.Minute},
		{"30 2 * * *", time.Hour},
		{"* * * * *", time.Minute},
		{"*/5 * * * *", 15 * time.Minute},
		{"@every 7s", time.Minute},
		{"@every 90s", time.Minute},
		{"@at 2026-10-25T03:00:00Z", time.Minute},
	} {
		for _, until := range []time.Time{from.Add(26 * time.Hour), from.Add(5*time.Hour + 7*time.Second), from} {
			s := parse(t, c.text, "Europe/Berlin")
			l := schedules.NewLoad(from, until, c.width)
			l.Add(s, 3, time.Time{})
			want := make([]int, len(l.Parts))
			for tick, ok := s.Next(from.Add(-time.Second)); ok && tick.Before(until); tick, ok = s.Next(tick) {
				want[int(tick.Sub(from)/c.width)] += 3
			}
			after := schedules.NewLoad(from, until, c.width)
			after.Add(s, 1, from.Add(7*time.Hour+3*time.Second))
			for tick, ok := s.Next(from.Add(7*time.Hour + 3*time.Second)); ok && tick.Before(until); tick, ok = s.Next(tick) {
				after.Parts[int(tick.Sub(from)/c.width)]--
			}
			if len(after.Parts) > 0 && (slices.Max(after.Parts) != 0 || slices.Min(after.Parts) != 0) {
				t.Errorf("%q in parts of %s until %s, after an instant: %v are too many", c.text, c.width, until, after.Parts)
			}
			if !slices.Equal(l.Parts, want) {
				t.Errorf("%q in parts of %s until %s: %v, not %v", c.text, c.width, until, l.Parts, want)
			}
		}
	}
}

// TestHerd plays very many rules that are due at midnight: those that say so are one herd, and
// those that say "?" are spread over the day, no minute having many more than its share. With
// -cases of 100,000 or more it is a million rules, and else a tenth.
func TestHerd(t *testing.T) {
	rules := 100_000
	if *cases >= rules {
		rules = 1_000_000
	}
	const minutes = 24 * 60
	from := at(t, "2026-03-02 00:00 +0000")

	herd := schedules.NewLoad(from, from.Add(24*time.Hour), time.Minute)
	herd.Add(parse(t, "0 0 * * *", "UTC"), rules, time.Time{}) // the name of the rule changes nothing
	if herd.Parts[0] != rules || slices.Max(herd.Parts[1:]) != 0 {
		t.Errorf("at midnight %d, and %d at another minute", herd.Parts[0], slices.Max(herd.Parts[1:]))
	}

	spread := schedules.NewLoad(from, from.Add(24*time.Hour), time.Minute)
	for i := range rules {
		s, err := schedules.Parse("? ? * * *", time.UTC, "rule-"+strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		spread.Add(s, 1, time.Time{})
	}
	share := float64(rules) / minutes
	within := 5 * math.Sqrt(share) // five standard deviations of a fair draw
	sum := 0
	for minute, n := range spread.Parts {
		sum += n
		if math.Abs(float64(n)-share) > within {
			t.Errorf("minute %d has %d, which is not within %.0f of %.0f", minute, n, within, share)
		}
	}
	if sum != rules {
		t.Errorf("%d ticks of %d rules", sum, rules)
	}
	t.Logf("%d rules: %d in one minute with 0 0 * * *; with ? ? * * * %d to %d, %.0f on average",
		rules, herd.Parts[0], slices.Min(spread.Parts), slices.Max(spread.Parts), share)
}
