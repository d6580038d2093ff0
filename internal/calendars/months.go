package calendars

import (
	"sort"
	"sync"
	"time"
)

// The months whose open time is summed up: of the years from firstYear on, until monthCount months later. Instants outside
// of them are searched day by day.
const (
	firstYear  = 2000
	monthCount = 150 * 12
)

// monthSums are the sums of open time from the first month on, in UTC: a search over years takes steps of a binary search,
// and not one for each day. They are computed when a search first needs them.
type monthSums struct {
	once sync.Once
	sums []time.Duration // by month, up to its beginning
}

// monthBegin returns the beginning of a month by its number.
func monthBegin(n int) time.Time {
	return time.Date(firstYear, time.Month(1+n), 1, 0, 0, 0, 0, time.UTC)
}

// monthAfter returns the number of the first month that does not begin before t. It is known if sums of the month exist.
func monthAfter(t time.Time) (n int, isKnown bool) {
	t = t.UTC()
	n = (t.Year()-firstYear)*12 + int(t.Month()) - 1
	if n >= 0 && monthBegin(n).Before(t) {
		n++
	}
	return n, n >= 0 && n <= monthCount
}

// openUntil returns the open time from the beginning of the first month to that of each.
func (c *Calendar) openUntil() []time.Duration {
	c.months.once.Do(func() {
		sums := make([]time.Duration, monthCount+1)
		for n := range monthCount {
			sums[n+1] = sums[n] + c.search(monthBegin(n), monthBegin(n+1))
		}
		c.months.sums = sums
	})
	return c.months.sums
}

// skip returns the beginning of the last month before which less than the open time has passed since t, which is the
// beginning of month n, and the open time that is left then.
func (c *Calendar) skip(n int, t time.Time, open time.Duration) (time.Time, time.Duration) {
	sums := c.openUntil()
	later := sort.Search(monthCount-n, func(i int) bool { return sums[n+1+i]-sums[n] >= open })
	return monthBegin(n + later).In(t.Location()), open - (sums[n+later] - sums[n])
}
