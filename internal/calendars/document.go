package calendars

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hours are open hours of a day as they were written, as the time since midnight. Hours that end after 24:00 end on the
// next day.
type Hours struct{ From, To time.Duration }

// String returns the hours as in a document: "09:00-17:30".
func (h Hours) String() string {
	to := h.To
	if to > 24*time.Hour {
		to -= 24 * time.Hour
	}
	return timeOfDay(h.From) + "-" + timeOfDay(to)
}

func timeOfDay(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// Zone returns the zone of the calendar's hours.
func (c *Calendar) Zone() *time.Location { return c.zone }

// Week returns the hours that begin on each weekday, by time.Weekday and in order.
func (c *Calendar) Week() (week [7][]Hours) {
	for d, spans := range c.begins {
		for _, s := range sorted(spans) {
			week[d] = append(week[d], Hours{time.Duration(s.from) * time.Second, time.Duration(s.to) * time.Second})
		}
	}
	return week
}

// Holidays returns up to n holidays from the local day of t on, as midnights in UTC, and searches up to years.
func (c *Calendar) Holidays(t time.Time, n, years int) (days []time.Time) {
	if len(c.holidays.dated)+len(c.holidays.yearly)+len(c.holidays.regions) == 0 {
		return nil
	}
	first := dateOf(t.In(c.zone).Date())
	for d := first; d < first+date(366*years) && len(days) < n; d++ {
		if c.holidays.on(d) {
			days = append(days, d.civil())
		}
	}
	return days
}

// HolidayName returns the name of the public holiday on a day, given as its midnight in UTC; empty: it has none.
func (c *Calendar) HolidayName(day time.Time) string { return c.holidays.nameOf(dateOf(day.Date())) }

// Document returns the calendar as YAML that ParseOne reads.
func (c *Calendar) Document() string {
	var b strings.Builder
	fmt.Fprintf(&b, "zone: %s\nhours:\n", c.zone)
	for i := range 7 {
		d := time.Weekday((i + 1) % 7) // from Monday on
		var texts []string
		for _, h := range c.Week()[d] {
			texts = append(texts, h.String())
		}
		if len(texts) > 0 {
			fmt.Fprintf(&b, "  %s: %q\n", dayNames[d], strings.Join(texts, ", "))
		}
	}
	days := c.holidays.texts()
	if len(days) == 0 {
		return b.String()
	}
	b.WriteString("holidays:\n")
	for _, day := range days {
		fmt.Fprintf(&b, "  - %q\n", day)
	}
	return b.String()
}

// texts returns the holidays as in a document: regions, dates, then the days of every year, in order.
func (h holidays) texts() []string {
	var dated, yearly []string
	for d := range h.dated {
		dated = append(dated, d.civil().Format(time.DateOnly))
	}
	for a := range h.yearly {
		yearly = append(yearly, fmt.Sprintf("%02d-%02d", a.month, a.day))
	}
	slices.Sort(dated)
	slices.Sort(yearly)
	return slices.Concat(h.regions, dated, yearly)
}
