package futurejobs

import (
	"fmt"
	"strings"
	"time"
)

// Day is the period that every grid divides.
const Day = 24 * time.Hour

// Grid is the resolution of a rule's slots: slots are its multiples, counted from midnight UTC.
type Grid time.Duration

// NewGrid returns the grid with a slot every d. d must be whole seconds and divide a day.
func NewGrid(d time.Duration) (Grid, error) {
	switch {
	case d < time.Second:
		return 0, fmt.Errorf("slot %s is under 1s; write 1s or more", d)
	case d%time.Second != 0 || Day%d != 0:
		return 0, fmt.Errorf("slot %s does not divide a day into whole slots; write one that does, such as %s", spell(d), spell(dividing(d)))
	}
	return Grid(d), nil
}

// spell formats a duration without units that are zero: 7m, not 7m0s.
func spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// dividing returns the longest duration up to d that divides a day.
func dividing(d time.Duration) time.Duration {
	for s := min(d, Day).Truncate(time.Second); s > time.Second; s -= time.Second {
		if Day%s == 0 {
			return s
		}
	}
	return time.Second
}

// Up returns the first slot at or after t. All rounding to slots is done here.
func (g Grid) Up(t time.Time) time.Time {
	step := time.Duration(g).Microseconds()
	us := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		us++ // a time just past a slot belongs to the next one
	}
	past := us % step
	if past < 0 {
		past += step
	}
	if past > 0 {
		us += step - past
	}
	return time.UnixMicro(us).UTC()
}

// After returns the first slot after t.
func (g Grid) After(t time.Time) time.Time {
	slot := g.Up(t)
	if !slot.After(t) {
		slot = slot.Add(time.Duration(g))
	}
	return slot
}
