package schedules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"deadman/internal/schedules"
)

// drawSchedule returns a schedule of any form in any zone.
func drawSchedule(t *rapid.T) schedules.Schedule {
	text := rapid.SampledFrom([]string{
		"* * * * *", "*/15 * * * *", "30 2 * * *", "0 0,2,3 * * 0", "@every 1s", "@every 7h11s", "@at 1763735945", "? ? * * *",
		"0 0 * * 1-5", "15,45 1-3 1 * *", "0 12 31 * +SUN", "@hourly", "@monthly", "0 0 29 2 *",
	}).Draw(t, "schedule")
	zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedules.Parse(text, zone, rapid.String().Draw(t, "seed"))
	if err != nil {
		t.Fatal(err)
	}
	return s.From(instant(t, "anchor"))
}

func instant(t *rapid.T, name string) time.Time {
	return time.UnixMilli(rapid.Int64Range(-10_000_000_000_000, 10_000_000_000_000).Draw(t, name))
}

// TestNextIsAfter checks that a tick is a full second after the instant, that a second call returns the same tick, and
// that no tick lies in between.
func TestNextIsAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, after := drawSchedule(t), instant(t, "after")
		tick, ok := s.Next(after)
		if !ok {
			return
		}
		if !tick.After(after) || tick.Nanosecond() != 0 || tick.Location() != time.UTC {
			t.Fatalf("%s is the tick after %s", tick, after)
		}
		between := after.Add(time.Duration(rapid.Int64Range(0, max(0, int64(tick.Sub(after))-1)).Draw(t, "between")))
		if again, ok := s.Next(between); !ok || !again.Equal(tick) {
			t.Fatalf("after %s comes %s, and after %s, before that, %s", after, tick, between, again)
		}
		if n, last := s.Between(after, tick); n != 1 || !last.Equal(tick) {
			t.Fatalf("%d ticks until %s from %s to the next, %s", n, last, after, tick)
		}
		if n, _ := s.Between(after, tick.Add(-1)); n != 0 {
			t.Fatalf("%d ticks between %s and the next, %s", n, after, tick)
		}
	})
}

// TestBetweenIsWalk checks that counting equals iterating over Next, also in two parts.
func TestBetweenIsWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, after := drawSchedule(t), instant(t, "after")
		through, n, last := after, 0, time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			tick, ok := s.Next(through)
			if !ok {
				break
			}
			through, n, last = tick, n+1, tick
		}
		if got, gotLast := s.Between(after, through); got != n || !gotLast.Equal(last) {
			t.Fatalf("after %s through %s: %d until %s, not %d", after, through, got, gotLast, n)
		}
		cut := after.Add(time.Duration(rapid.Int64Range(0, int64(through.Sub(after))).Draw(t, "cut")))
		first, _ := s.Between(after, cut)
		second, _ := s.Between(cut, through)
		if first+second != n {
			t.Fatalf("%d and %d ticks, cut at %s, are not %d", first, second, cut, n)
		}
	})
}

// TestClosestDaysAreThoseOfCycle checks that the days that Shortest looks at have the closest ones of 400 years.
func TestClosestDaysAreThoseOfCycle(t *testing.T) {
	t.Parallel()
	for _, days := range []string{"*", "1", "29", "30", "31", "1,15", "28-31", "*/7"} {
		for _, months := range []string{"*", "2", "12", "1,2", "2-3", "*/3", "1,12"} {
			for _, week := range []string{"*", "1", "0,6", "1,3", "1-5"} {
				text := strings.Join([]string{"0 9", days, months, week}, " ")
				if got, want, err := schedules.ClosestDays(text); err != nil || got != want {
					t.Errorf("%s: %d days, want %d: %v", text, got, want, err)
				}
			}
		}
	}
}

// TestShortestIsKept checks that in UTC no two ticks are closer than Shortest.
func TestShortestIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := schedules.Parse(crontabs().Draw(t, "crontab"), nil, "")
		if err != nil {
			t.Skip(err)
		}
		shortest := s.Shortest()
		before, _ := s.Next(instant(t, "after"))
		for range 30 {
			tick, ok := s.Next(before)
			if ok && tick.Sub(before) < shortest {
				t.Fatalf("from %s to %s is less than %s", before, tick, shortest)
			}
			before = tick
		}
	})
}

// TestNextEqualsLibrary compares ticks in UTC and within five years with those of robfig/cron.
func TestNextEqualsLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, after := crontabs().Draw(t, "crontab"), instant(t, "after").UTC()
		s, err := schedules.Parse(text, nil, "")
		if err != nil {
			t.Skip(err)
		}
		library, err := cron.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			want := library.Next(after)
			if got, ok := s.Next(after); !want.IsZero() && (!ok || !got.Equal(want)) {
				t.Fatalf("%q after %s: %s, not %s", text, after, got, want)
			}
			after = want
		}
	})
}

// crontabs returns crontabs of all forms that the library parses.
func crontabs() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join([]string{
			rapid.SampledFrom([]string{"*", "0", "59", "*/7", "5-50/9", "0,30", "58/2"}).Draw(t, "minute"),
			rapid.SampledFrom([]string{"*", "0", "23", "*/5", "9-17", "22,23,0", "*/1"}).Draw(t, "hour"),
			rapid.SampledFrom([]string{"*", "1", "31", "*/2", "28-31", "13", "*/1", "1,*"}).Draw(t, "day of month"),
			rapid.SampledFrom([]string{"*", "2", "JAN-jun/2", "12", "4,6,9,11"}).Draw(t, "month"),
			rapid.SampledFrom([]string{"*", "0", "FRI", "1-5", "*/2", "sun,SAT"}).Draw(t, "day of week"),
		}, " ")
	})
}
