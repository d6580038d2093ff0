package schedules

import (
	"math/bits"
	"time"
)

// crontab has a bit for each value of its five fields. It works in local time, without a zone.
type crontab struct {
	minutes, hours, days, months, weekdays uint64
	both                                   bool // a day must match both days and weekdays; without it one of them is enough
}

// cycle is the number of days after which the calendar repeats, including weekdays: 400 years. A minute that does not
// occur within a cycle never occurs.
const cycle = 146097

// next returns the first minute after a time; false: the crontab never ticks.
func (c crontab) next(after civilTime) (civilTime, bool) {
	first := after.day()
	if m := c.from(after.minute() + 1); m < dayMinutes && c.on(first) {
		return civilTimeAt(first, m), true
	}
	for day := first + 1; day <= first+cycle; day++ {
		if c.on(day) {
			return civilTimeAt(day, c.from(0)), true
		}
	}
	return 0, false
}

// last returns the last minute that is not after a time. The crontab must have one.
func (c crontab) last(through civilTime) civilTime {
	day := through.day()
	if m := c.through(through.minute()); m >= 0 && c.on(day) {
		return civilTimeAt(day, m)
	}
	for day--; ; day-- {
		if c.on(day) {
			return civilTimeAt(day, c.through(dayMinutes-1))
		}
	}
}

// between returns the number of minutes after one time and not after another.
func (c crontab) between(after, through civilTime) int {
	n := 0
	for day := after.day(); day <= through.day(); day++ {
		if !c.on(day) {
			continue
		}
		from, to := -1, dayMinutes-1
		if day == after.day() {
			from = after.minute()
		}
		if day == through.day() {
			to = through.minute()
		}
		n += c.count(to) - c.count(from)
	}
	return n
}

// on reports whether the crontab ticks on a day.
func (c crontab) on(day int64) bool {
	date := time.Unix(day*daySeconds, 0).UTC()
	_, month, ofMonth := date.Date()
	if c.months>>month&1 == 0 {
		return false
	}
	inMonth, inWeek := c.days>>ofMonth&1 == 1, c.weekdays>>date.Weekday()&1 == 1
	if c.both {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// from returns the first minute of a day that is not before another; dayMinutes: none.
func (c crontab) from(minute int) int {
	hour := minute / hourMinutes
	if c.hours>>hour&1 == 1 {
		if left := c.minutes >> (minute % hourMinutes); left != 0 {
			return minute + bits.TrailingZeros64(left)
		}
	}
	left := c.hours >> (hour + 1)
	if left == 0 {
		return dayMinutes
	}
	return (hour+1+bits.TrailingZeros64(left))*hourMinutes + bits.TrailingZeros64(c.minutes)
}

// through returns the last minute of a day that is not after another; -1: none.
func (c crontab) through(minute int) int {
	hour := minute / hourMinutes
	if c.hours>>hour&1 == 1 {
		if left := c.minutes & upTo(minute%hourMinutes); left != 0 {
			return hour*hourMinutes + bits.Len64(left) - 1
		}
	}
	left := c.hours & (1<<hour - 1)
	if left == 0 {
		return -1
	}
	return (bits.Len64(left)-1)*hourMinutes + bits.Len64(c.minutes) - 1
}

// count returns the number of minutes of a day that are not after another; -1 is before all.
func (c crontab) count(minute int) int {
	if minute < 0 {
		return 0
	}
	hour := minute / hourMinutes
	n := bits.OnesCount64(c.hours&(1<<hour-1)) * bits.OnesCount64(c.minutes)
	if c.hours>>hour&1 == 1 {
		n += bits.OnesCount64(c.minutes & upTo(minute%hourMinutes))
	}
	return n
}

// upTo returns a bit for each value from 0 to last.
func upTo(last int) uint64 { return 1<<(last+1) - 1 }

// hourly reports whether the crontab ticks in every hour.
func (c crontab) hourly() bool { return c.hours == upTo(23) }

// Shortest returns the shortest time between two ticks.
func (c crontab) Shortest() time.Duration {
	first, last := c.from(0), c.through(dayMinutes-1)
	shortest := c.closestDays()*dayMinutes - (last - first)
	for m := first; m < last; {
		next := c.from(m + 1)
		shortest = min(shortest, next-m)
		m = next
	}
	return time.Duration(shortest) * time.Minute
}

// closestDays returns the minimum number of days between two days with ticks.
func (c crontab) closestDays() int { return c.closestWithin(c.varied()) }

// varied returns a number of days, from 1970 on, with all distances between neighboring days with ticks that a cycle has.
// Crontabs without weekdays have them in nine years, with 29 February twice.
func (c crontab) varied() int64 {
	const allDays, allMonths, allWeekdays = 1<<32 - 2, 1<<13 - 2, 1<<7 - 1
	switch {
	case c.both && c.days == allDays && c.months == allMonths:
		return 2 * 7
	case c.both && c.weekdays == allWeekdays:
		return 9 * 366
	}
	return cycle
}

// closestWithin is closestDays in a number of days from 1970 on.
func (c crontab) closestWithin(days int64) int {
	closest, before := int64(cycle), int64(-cycle)
	for day := int64(0); day <= days && closest > 1; day++ {
		if c.on(day) {
			closest, before = min(closest, day-before), day
		}
	}
	return int(closest)
}
