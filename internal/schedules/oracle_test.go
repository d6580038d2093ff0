package schedules_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"deadman/internal/schedules"
)

var (
	cases = flag.Int("cases", 2000, "how many schedules the oracle checks")
	seed  = flag.Uint64("seed", 1, "of the cases")
)

// oracle is a simple reading of a crontab that checks the local time once a minute.
type oracle struct {
	zone     *time.Location
	values   [5][60]bool // of each field, the named values
	dom, dow string
	all      bool // ticks in all hours
}

func newOracle(text string, zone *time.Location) oracle {
	o := oracle{zone: zone}
	fields := strings.Fields(text)
	bounds := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	for i, field := range fields {
		o.values[i] = fieldSet(strings.TrimPrefix(field, "+"), bounds[i][0], bounds[i][1])
	}
	o.values[4][0] = o.values[4][0] || o.values[4][7] // both are Sunday
	o.dom, o.dow = fields[2], fields[4]
	o.all = !slices.Contains(o.values[1][:24], false)
	return o
}

// fieldSet returns the values named by a field.
func fieldSet(field string, least, limit int) [60]bool {
	var values [60]bool
	for _, part := range strings.Split(field, ",") {
		span, every, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		first, last, step := least, limit, 1
		if from != "*" {
			first = number(from)
			last = first
			if stepped {
				last = max(first, limit)
			}
		}
		if ranged {
			last = number(to)
		}
		if stepped {
			step = number(every)
		}
		for v := first; v <= last; v += step {
			values[v] = true
		}
	}
	return values
}

func number(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	if i := strings.Index("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", strings.ToUpper(s)); i >= 0 {
		return i/3 + 1
	}
	return strings.Index("SUNMONTUEWEDTHUFRISAT", strings.ToUpper(s)) / 3
}

// day reports whether a day matches the crontab.
func (o oracle) day(wall time.Time) bool {
	month, week := o.values[2][wall.Day()], o.values[4][int(wall.Weekday())]
	if !o.values[3][int(wall.Month())] {
		return false
	}
	if o.dom == "*" || o.dow == "*" || strings.HasPrefix(o.dow, "+") {
		return month && week
	}
	return month || week
}

func (o oracle) matchesDate(wall time.Time) bool {
	return o.values[0][wall.Minute()] && o.values[1][wall.Hour()] && o.day(wall)
}

// localAt returns the local time, as if it were UTC.
func (o oracle) localAt(t time.Time) time.Time {
	_, ahead := t.In(o.zone).Zone()
	return time.Unix(t.Unix()+int64(ahead), 0).UTC()
}

// isSkipped reports whether the days around a local time have no ticks.
func (o oracle) isSkipped(wall time.Time) bool {
	for days := -2; days <= 2; days++ {
		if o.day(wall.AddDate(0, 0, days)) {
			return false
		}
	}
	return true
}

// walk calls tick at each tick after an instant, in order, until tick returns false or the end is reached. It checks
// the local time each minute, from two days before: a crontab with all hours ticks when one of its minutes is shown.
// Any other crontab ticks when one of its minutes is shown for the first time, or was skipped since the minute before.
func (o oracle) walk(after, end time.Time, tick func(time.Time) bool) {
	latest := o.localAt(after.Add(-48 * time.Hour).Truncate(time.Minute))
	for t := after.Add(-48 * time.Hour).Truncate(time.Minute); !t.After(end); t = t.Add(24 * time.Hour) {
		if o.isSkipped(o.localAt(t)) {
			if shown := o.localAt(t.Add(24*time.Hour - time.Minute)); shown.After(latest) {
				latest = shown
			}
			continue
		}
		for m := t; m.Before(t.Add(24*time.Hour)) && !m.After(end); m = m.Add(time.Minute) {
			wall := o.localAt(m)
			ticks := o.all && o.matchesDate(wall)
			for ; latest.Before(wall); latest = latest.Add(time.Minute) {
				ticks = ticks || !o.all && o.matchesDate(latest.Add(time.Minute))
			}
			if ticks && m.After(after) && !tick(m) {
				return
			}
		}
	}
}

// TestOracle compares schedules with the oracle, around the days of clock changes and elsewhere, from 1990 to 2050.
func TestOracle(t *testing.T) {
	const parts = 16 // so that a case depends on its seed only, not on the number of cases
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(*seed, uint64(part)))
			changes := make(map[string][]time.Time)
			for range max(1, *cases/parts) {
				name := zones[r.IntN(len(zones))]
				zone := zoneOf(t, name)
				if changes[name] == nil {
					changes[name] = changesOf(zone)
				}
				compare(t, r, draw(r), zone, moment(r, changes[name]))
			}
		})
	}
}

// compare checks the next tick after an instant and the ticks of the following days.
func compare(t *testing.T, r *rand.Rand, text string, zone *time.Location, after time.Time) {
	t.Helper()
	s, err := schedules.Parse(text, zone, "")
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	o := newOracle(text, zone)
	var want time.Time
	o.walk(after, after.AddDate(60, 0, 0), func(tick time.Time) bool {
		want = tick
		return false
	})
	if got, ok := s.Next(after); !ok || !got.Equal(want) {
		t.Errorf("%q in %s after %s: %s, not %s", text, zone, after.In(zone), got.In(zone), want.In(zone))
	}
	through, n, last := after.Add(time.Duration(r.Int64N(int64(60*time.Hour)))), 0, time.Time{}
	o.walk(after, through, func(tick time.Time) bool {
		n, last = n+1, tick
		return true
	})
	if got, gotLast := s.Between(after, through); got != n || !gotLast.Equal(last) {
		t.Errorf("%q in %s after %s through %s: %d until %s, not %d until %s", text, zone,
			after.In(zone), through.In(zone), got, gotLast.In(zone), n, last.In(zone))
	}
}

// changesOf returns the instants of the hours in which the clocks of a zone changed.
func changesOf(zone *time.Location) []time.Time {
	changes := []time.Time{time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC)} // for zones without changes
	_, before := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	for at := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2050; at = at.Add(6 * time.Hour) {
		if _, ahead := at.In(zone).Zone(); ahead != before {
			changes, before = append(changes, at), ahead
		}
	}
	return changes
}

// moment returns an instant, mostly within a day of a change, and otherwise anywhere from 1990 to 2050.
func moment(r *rand.Rand, changes []time.Time) time.Time {
	at := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(60 * 365 * 86400 * int64(time.Second))))
	if r.IntN(10) < 7 {
		at = changes[r.IntN(len(changes))].Add(time.Duration(r.Int64N(int64(40*time.Hour))) - 34*time.Hour)
	}
	if r.IntN(2) == 0 {
		at = at.Truncate(30 * time.Minute) // often exactly on a tick
	}
	return at
}

// draw returns a random crontab, most often in the hours of clock changes.
func draw(r *rand.Rand) string {
	for {
		fields := []string{
			oneOf(r, "0", "30", "*", "*/15", "59", "15,45", "7-12/2", field(r, 0, 59)),
			oneOf(r, "*", "*", "*/2", "0", "0", "1", "2", "2", "3", "0-5", "1,2,3", "23", "22-23", field(r, 0, 23)),
			oneOf(r, "*", "*", "*", "*", "1", "29", "30", "31", "*/2", field(r, 1, 31)),
			oneOf(r, "*", "*", "*", "*", "*", "2", "3,10", "MAR-nov/8", "oct-DEC", field(r, 1, 12)),
			oneOf(r, "*", "*", "*", "SUN", "+SUN", "1-5", "+FRI,sat", "*/3", "+*/2", "5-7", "1-7/2", "+7", field(r, 0, 7)),
		}
		text := strings.Join(fields, " ")
		if _, err := schedules.Parse(text, nil, ""); err == nil {
			return text
		}
	}
}

func oneOf(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

func field(r *rand.Rand, least, limit int) string {
	a, b := least+r.IntN(limit-least+1), least+r.IntN(limit-least+1)
	switch a, b := min(a, b), max(a, b); r.IntN(4) {
	case 0:
		return fmt.Sprintf("%d-%d", a, b)
	case 1:
		return fmt.Sprintf("%d/%d", a, 1+r.IntN(limit))
	case 2:
		return fmt.Sprintf("%d-%d/%d,%d", a, b, 1+r.IntN(9), least+r.IntN(limit-least+1))
	default:
		return strconv.Itoa(a)
	}
}

// TestLeapDays compares schedules that tick once in several years, to 2104 and over the year 2100, which is no leap
// year.
func TestLeapDays(t *testing.T) {
	texts := []string{"0 12 29 2 *", "*/30 * 29 2 *", "0 9 29 2 +SAT", "59 23 28,29 2 +TUE"}
	begin, end := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2104, 12, 31, 0, 0, 0, 0, time.UTC)
	for i, name := range zones {
		text, zone := texts[i%len(texts)], zoneOf(t, name)
		s, err := schedules.Parse(text, zone, "")
		if err != nil {
			t.Fatal(err)
		}
		var want, got []time.Time
		newOracle(text, zone).walk(begin, end, func(tick time.Time) bool {
			want = append(want, tick)
			return true
		})
		for tick, ok := s.Next(begin); ok && !tick.After(end); tick, ok = s.Next(tick) {
			got = append(got, tick)
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%q in %s: %s, not %s", text, zone, got, want)
			continue
		}
		if n, last := s.Between(begin, end); n != len(want) || !last.Equal(want[n-1]) {
			t.Errorf("%q in %s: %d until %s, not %d until %s", text, zone, n, last, len(want), want[len(want)-1])
		}
	}
}
