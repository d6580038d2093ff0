package schedules

import "strings"

// ClosestDays returns the closest days of a crontab, as it finds them and in a whole cycle.
func ClosestDays(text string) (found, inCycle int, err error) {
	c, err := parseFields(strings.Fields(text))
	return c.closestDays(), c.closestWithin(cycle), err
}
