package rules

import (
	"fmt"
	"regexp"
	"time"

	"deadman/schedules"
)

// schedule checks a trigger that ticks.
func (c *compiler) schedule(t Trigger) {
	c.only("schedule", t, "key", "if", "since", "shape")
	_, err := schedules.Parse(t.Schedule, time.UTC, c.document.Name) // what is wrong with it is so in every zone
	c.must("/trigger/schedule", err)
	if t.Zone != "" {
		c.must("/trigger/zone", checkZone(t.Zone))
	}
	c.keys("/trigger/keys", t.Keys)
	c.notRun("/trigger/schedule", "a schedule")
}

var zonePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`)

func checkZone(zone string) error {
	if zonePattern.MatchString(zone) && zone != "Local" {
		if _, err := time.LoadLocation(zone); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC", clip(zone, 80))
}
