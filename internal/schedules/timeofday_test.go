package schedules_test

import (
	"testing"
	"time"

	"deadman/internal/schedules"
)

func TestTimeOfDay(t *testing.T) {
	for _, c := range []struct{ name, tick, clock, zone, want string }{
		{"later that day", "2026-03-02 01:30 +0100", "09:00", "Europe/Berlin", "2026-03-02 09:00 +0100"},
		{"at the tick", "2026-03-02 09:00 +0100", "09:00", "Europe/Berlin", "2026-03-02 09:00 +0100"},
		{"the next day", "2026-03-02 09:00:01 +0100", "09:00", "Europe/Berlin", "2026-03-03 09:00 +0100"},
		{"on a shorter day", "2026-03-29 00:00 +0100", "06:00", "Europe/Berlin", "2026-03-29 06:00 +0200"},
		{"on a longer day", "2026-10-25 00:00 +0200", "06:00", "Europe/Berlin", "2026-10-25 06:00 +0100"},
		{"left out", "2026-03-29 00:00 +0100", "02:30", "Europe/Berlin", "2026-03-29 03:00 +0200"},
		{"left out, at the tick made of it", "2026-03-29 03:00 +0200", "02:30", "Europe/Berlin", "2026-03-29 03:00 +0200"},
		{"twice", "2026-10-25 00:00 +0200", "02:30", "Europe/Berlin", "2026-10-25 02:30 +0200"},
		{"twice, between the two", "2026-10-25 02:45 +0200", "02:30", "Europe/Berlin", "2026-10-26 02:30 +0100"},
		{"no such day", "2011-12-29 20:00 -1000", "09:00", "Pacific/Apia", "2011-12-31 00:00 +1400"},
		{"half an hour", "2026-04-05 00:00 +1100", "01:45", "Australia/Lord_Howe", "2026-04-05 01:45 +1100"},
	} {
		got, err := schedules.TimeOfDay(at(t, c.tick), c.clock, zoneOf(t, c.zone))
		if err != nil || !got.Equal(at(t, c.want)) {
			t.Errorf("%s: %s, %v, not %s", c.name, got, err, c.want)
		}
	}
	if got, err := schedules.TimeOfDay(at(t, "2026-03-02 08:59:59 +0000").Add(1), "09:00", nil); err != nil || !got.Equal(at(t, "2026-03-02 09:00 +0000")) {
		t.Errorf("without a zone: %s, %v", got, err)
	}
	for _, wrong := range []string{"", "9:00", "24:00", "09:60", "09:00:00", "noon"} {
		if got, err := schedules.TimeOfDay(time.Unix(0, 0), wrong, time.UTC); err == nil {
			t.Errorf("%q is %s", wrong, got)
		}
	}
}

// TestTimeOfDayIsTick: a time of day is when a crontab of it comes.
func TestTimeOfDayIsTick(t *testing.T) {
	for _, name := range zones {
		s := parse(t, "30 2 * * *", name)
		tick := at(t, "2010-01-01 00:00 +0000")
		for range 1000 {
			want, _ := s.Next(tick.Add(-1))
			got, err := schedules.TimeOfDay(tick, "02:30", zoneOf(t, name))
			if err != nil || !got.Equal(want) {
				t.Fatalf("%s, at %s: %s, not %s", name, tick, got, want)
			}
			tick = got.Add(30 * time.Hour)
		}
	}
}
