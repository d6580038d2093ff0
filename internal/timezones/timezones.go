// Package timezones parses the names of time zones, in the same way for schedules, calendars and messages, and finds the
// changes of their offsets.
package timezones

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/internal/configfile"
)

// ofMachine are names that stand for the zone of a machine, in lower case: two nodes could disagree.
var ofMachine = []string{"local", "localtime", "posixrules"}

var namePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`)

// parsed holds the zones that were parsed, by name: the IANA database has about 600, and reading one takes 20 µs.
var parsed sync.Map

// Parse returns the named zone of the IANA database. The error names the remedy.
func Parse(name string) (*time.Location, error) {
	if zone, ok := parsed.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if namePattern.MatchString(name) && !slices.Contains(ofMachine, strings.ToLower(name)) {
		if zone, err := time.LoadLocation(name); err == nil {
			parsed.Store(name, zone)
			return zone, nil
		}
	}
	return nil, fmt.Errorf("%q is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC", configfile.Truncate(name, 80))
}

// ParseOrUTC is Parse with UTC for an empty name.
func ParseOrUTC(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	return Parse(name)
}

// NextChange returns an instant until which the offset at t is valid, in the zone of t; the zero time: for ever.
//
// ZoneBounds (also of Go 1.26) ends every year after the last one listed in a zone's file with its 365th day. On the
// 366th day that bound is past; the offset does not change until the end of the year.
func NextChange(t time.Time) time.Time {
	_, change := t.ZoneBounds()
	if change.IsZero() || change.After(t) {
		return change
	}
	return t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}
