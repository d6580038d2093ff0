package calendars_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"pgregory.net/rapid"

	"deadman/internal/calendars"
)

// drawnCalendar is a random calendar in the form of its text and of the oracle.
type drawnCalendar struct {
	zone     *time.Location
	hours    map[string][][2]string // by day: from and to
	holidays []string
}

// anchors are local days around which clocks change, or a day is skipped.
var anchors = map[string][]string{
	"Europe/Berlin":       {"2026-03-28", "2026-10-24", "2026-12-31"},
	"America/New_York":    {"2026-03-07", "2026-10-31", "2028-02-28"},
	"Australia/Lord_Howe": {"2026-04-04", "2026-10-03"},
	"Pacific/Apia":        {"2011-12-28", "2011-09-23", "2012-03-31"},
	"America/St_Johns":    {"1988-04-02", "2006-10-28"}, // a change by two hours; one at one minute past midnight
	"UTC":                 {"2026-02-27", "1969-12-30"},
}

// window is the number of minutes that the oracle walks.
const window = 6 * 24 * 60

func drawCalendar(t *rapid.T) (drawnCalendar, time.Time) {
	names := make([]string, 0, len(anchors))
	for name := range anchors {
		names = append(names, name)
	}
	slices.Sort(names)
	name := rapid.SampledFrom(names).Draw(t, "zone")
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	d := drawnCalendar{zone: zone, hours: make(map[string][][2]string)}
	first, err := time.ParseInLocation("2006-01-02", rapid.SampledFrom(anchors[name]).Draw(t, "first day"), zone)
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} {
		if spans := drawSpans(t, day); len(spans) > 0 {
			d.hours[day] = spans
		}
	}
	if len(d.hours) == 0 {
		d.hours["wed"] = [][2]string{{"22:00", "06:00"}}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "holidays") {
		day := first.AddDate(0, 0, i*3+rapid.IntRange(0, 2).Draw(t, "holiday"))
		layout := rapid.SampledFrom([]string{"2006-01-02", "01-02"}).Draw(t, "layout")
		if day.Year() < 1970 {
			layout = "01-02"
		}
		d.holidays = append(d.holidays, day.Format(layout))
	}
	return d, first.Truncate(time.Minute)
}

// drawSpans draws up to two disjoint spans; the last may end after midnight.
func drawSpans(t *rapid.T, day string) [][2]string {
	cuts := rapid.SliceOfNDistinct(rapid.IntRange(0, 24*60-1), 0, 4, rapid.ID).Draw(t, day)
	slices.Sort(cuts)
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
	var spans [][2]string
	for len(cuts) >= 2 {
		spans = append(spans, [2]string{clock(cuts[0]), clock(cuts[1])})
		cuts = cuts[2:]
	}
	if len(cuts) == 1 {
		to := rapid.SampledFrom([]string{"24:00", "00:00", "00:01", "02:30", "06:00"}).Draw(t, "late")
		if from := clock(cuts[0]); from != to {
			spans = append(spans, [2]string{from, to})
		}
	}
	return spans
}

// text returns the calendar as YAML for Parse.
func (d drawnCalendar) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "calendars:\n  drawn:\n    zone: %s\n    hours:\n", d.zone)
	for day, spans := range d.hours {
		fmt.Fprintf(&b, "      %s:\n", day)
		for _, s := range spans {
			fmt.Fprintf(&b, "        - \"%s-%s\"\n", s[0], s[1])
		}
	}
	if len(d.holidays) > 0 {
		fmt.Fprintf(&b, "    holidays: [%s]\n", strings.Join(d.holidays, ", "))
	}
	return b.String()
}

// open compares the local time with the hours letter by letter.
func (d drawnCalendar) open(t time.Time) bool {
	local := t.In(d.zone)
	clock, today := local.Format("15:04"), time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	if d.holiday(today) {
		return false
	}
	for _, s := range d.hours[weekday(today)] {
		if late := s[1] <= s[0]; s[0] <= clock && (late || clock < s[1]) {
			return true
		}
	}
	yesterday := today.AddDate(0, 0, -1)
	for _, s := range d.hours[weekday(yesterday)] {
		if late := s[1] <= s[0]; late && clock < s[1] && !d.holiday(yesterday) {
			return true
		}
	}
	return false
}

func (d drawnCalendar) holiday(day time.Time) bool {
	return slices.Contains(d.holidays, day.Format("2006-01-02")) || slices.Contains(d.holidays, day.Format("01-02"))
}

func weekday(day time.Time) string { return strings.ToLower(day.Format("Mon")) }

// minuteWalk is the oracle: for each minute from first on, whether it is open.
type minuteWalk struct {
	first time.Time
	open  []bool
}

func (d drawnCalendar) walk(first time.Time) minuteWalk {
	w := minuteWalk{first: first, open: make([]bool, window)}
	for i := range w.open {
		w.open[i] = d.open(first.Add(time.Duration(i) * time.Minute))
	}
	return w
}

func (w minuteWalk) end() time.Time { return w.first.Add(window * time.Minute) }

// between counts open time minute by minute.
func (w minuteWalk) between(from, to time.Time) time.Duration {
	var sum time.Duration
	for i, open := range w.open {
		begin := w.first.Add(time.Duration(i) * time.Minute)
		end := begin.Add(time.Minute)
		if from.After(begin) {
			begin = from
		}
		if to.Before(end) {
			end = to
		}
		if open && begin.Before(end) {
			sum += end.Sub(begin)
		}
	}
	return sum
}

// next returns the first open instant from t on; the end of the walk if it has none.
func (w minuteWalk) next(t time.Time) time.Time {
	for i, open := range w.open {
		begin := w.first.Add(time.Duration(i) * time.Minute)
		if !open || !begin.Add(time.Minute).After(t) {
			continue
		}
		if begin.Before(t) {
			return t
		}
		return begin
	}
	return w.end()
}

func (w minuteWalk) draw(t *rapid.T, name string) time.Time {
	return w.first.Add(time.Duration(rapid.Int64Range(0, int64(window*time.Minute)-1).Draw(t, name)))
}

func parseDrawn(t *rapid.T) (*calendars.Calendar, drawnCalendar, time.Time) {
	d, first := drawCalendar(t)
	set, err := calendars.Parse([]byte(d.text()), "drawn.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, d.text())
	}
	return set["drawn"], d, first
}

// TestAgainstWallClock compares every result with that of reading the local time minute by minute.
func TestAgainstWallClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, d, first := parseDrawn(t)
		w := d.walk(first)
		for range 10 {
			at, to := w.draw(t, "at"), w.draw(t, "to")
			if got := c.Open(at); got != d.open(at) {
				t.Fatalf("Open(%s) = %t\n%s", at, got, d.text())
			}
			if got, want := c.Between(at, to), w.between(at, to); got != want {
				t.Fatalf("Between(%s, %s) = %s, want %s\n%s", at, to, got, want, d.text())
			}
			got, want := c.Next(at), w.next(at)
			if want.Equal(w.end()) && got.Before(want) || want.Before(w.end()) && !got.Equal(want) {
				t.Fatalf("Next(%s) = %s, want %s\n%s", at, got, want, d.text())
			}
			span := time.Duration(rapid.Int64Range(1, int64(48*time.Hour)).Draw(t, "span"))
			switch by := c.Add(at, span); {
			case by.After(w.end()) && w.between(at, w.end()) >= span:
				t.Fatalf("Add(%s, %s) = %s is too late\n%s", at, span, by, d.text())
			case !by.After(w.end()) && w.between(at, by) != span:
				t.Fatalf("Add(%s, %s) = %s: %s passed\n%s", at, span, by, w.between(at, by), d.text())
			case !by.After(w.end()) && w.between(at, by.Add(-1)) == span:
				t.Fatalf("Add(%s, %s) = %s is not the first instant\n%s", at, span, by, d.text())
			}
		}
	})
}

// TestLaws checks properties of every calendar over years.
func TestLaws(t *testing.T) {
	const year = 366 * 24 * time.Hour
	rapid.Check(t, func(t *rapid.T) {
		c, d, first := parseDrawn(t)
		draw := func(name string, limit time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(limit)).Draw(t, name))
		}
		at := first.Add(draw("at", year))
		later := at.Add(draw("later", year))
		last := later.Add(draw("last", year))
		open := c.Between(at, at.Add(year)) // so that the result is within a century
		a, b := draw("a", open), draw("b", open)
		switch {
		case !c.Add(at, 0).Equal(at):
			t.Fatalf("no time leads from %s to %s", at, c.Add(at, 0))
		case c.Between(at, c.Add(at, a)) != a:
			t.Fatalf("%s are added to %s, and %s lie between\n%s", a, at, c.Between(at, c.Add(at, a)), d.text())
		case c.Add(at, c.Between(at, last)).After(last):
			t.Fatalf("what is open from %s to %s takes longer than that\n%s", at, last, d.text())
		case !c.Add(c.Add(at, a), b).Equal(c.Add(at, a+b)):
			t.Fatalf("%s and then %s after %s is not the sum of both after it\n%s", a, b, at, d.text())
		case c.Add(later, b).Before(c.Add(at, b)) || c.Add(at, a+b).Before(c.Add(at, a)):
			t.Fatalf("more of %s and %s, or %s later than %s, leads to an earlier time\n%s", a, b, later, at, d.text())
		case c.Between(at, later)+c.Between(later, last) != c.Between(at, last):
			t.Fatalf("the parts from %s by %s to %s are not the whole\n%s", at, later, last, d.text())
		case c.Between(at, later) < 0 || c.Between(at, later) > later.Sub(at):
			t.Fatalf("%s of %s are open\n%s", c.Between(at, later), later.Sub(at), d.text())
		case c.Between(at, c.Next(at)) != 0 || !c.Open(c.Next(at)):
			t.Fatalf("%s is not when it opens after %s\n%s", c.Next(at), at, d.text())
		}
	})
}
