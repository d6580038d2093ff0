package schedules_test

import (
	"strings"
	"testing"
	"time"

	"deadman/internal/schedules"
)

// TestParseRefuses checks that each error names the problem, the limit and the remedy.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   `a crontab has 5 fields, minute, hour, day of month, month and day of week, not 0; write it like "0 9 * * 1-5"`,
		"60 * * * *":                         `the minute, "60", is not possible; it is 0 to 59, ranges rise, and steps are 1 or more`,
		"0 0 * * 8":                          `the day of week, "8", is not possible; it is 0 to 7 or SUN to SAT, ranges rise, and steps are 1 or more`,
		"0 0 * * +8":                         `the day of week, "8", is not possible; it is 0 to 7 or SUN to SAT, ranges rise, and steps are 1 or more`,
		"0 0 * * ++1":                        `the day of week, "+1", is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`,
		"0 0 +1 * 1":                         `the day of month, "+1", is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`,
		"0 0 31 2,4 +MON":                    `"0 0 31 2,4 +MON" never comes: no month has such a day`,
		"TZ=UTC":                             "a schedule has no TZ=UTC; write zone: UTC beside it",
		"@every 3651d":                       "@every takes whole seconds between 1s and 3650d, not 3651d",
		"@at 9999-12-31T23:59:59.5Z":         "the instant is not between 1970 and 9999; are these milliseconds? divide them by 1000",
		"@at 1969-12-31T23:59:59Z":           "the instant is not between 1970 and 9999; are these milliseconds? divide them by 1000",
		"@at -1":                             `@at takes an instant such as "2026-11-20T15:04:05Z", or seconds since 1970, not "-1"`,
		"@hourli":                            `"@hourli" is not a schedule; did you mean "@hourly"?`,
		"@hourly 5":                          `@hourly stands alone; leave "5" out`,
		strings.Repeat("0", 300):             "the schedule has 300 bytes, the most is 256",
		"@every " + strings.Repeat("1s", 50): `"1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1…" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`,
	} {
		if _, err := schedules.Parse(text, time.UTC, "rule"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}

// FuzzParse checks that an accepted schedule ticks again, unless it ticks once; that any other text returns an error;
// and that none panics or hangs.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"0 0 * * 1-5", "? ? ? ? ?", "0 0 30 2 *", "0 0 29 2 *", "TZ=UTC", "CRON_TZ=", "@every 1d", "@every 0", "@at 1763735945", "@at 2026-11-20T15:04:05Z",
		"@daily", "@", "*/0 * * * *", "1-99999999999999999999 * * * *", ", , , , ,", "*-5 * * * *", "5/2,? * * JAN sun", "0 0 31 4,6,9,11 *", "  0\t0 1 1 *  ",
		"0 9 30 * +SAT", "* * * * +", "? ? ? ? +?", "*/9223372036854775807 * * * *",
	} {
		f.Add(text, int64(1772409600))
	}
	zone := zoneOf(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, text string, second int64) {
		s, err := schedules.Parse(text, zone, text)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "strconv") || strings.Contains(err.Error(), "parsing") {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		after := time.Unix(second, 0)
		tick, ok := s.Next(after)
		year := after.Year()
		if once := s.Shortest() == 0; !ok && !once && year >= 1 && year < 9900 {
			t.Errorf("%q is taken, and never comes after %s", text, after)
		}
		n, last := s.Between(after, tick)
		if ok && (!tick.After(after) || n != 1 || !last.Equal(tick)) {
			t.Errorf("%q: after %s comes %s, and through it there are %d until %s", text, after, tick, n, last)
		}
	})
}
