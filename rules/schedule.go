package rules

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxSchedule bounds a crontab, in bytes.
const maxSchedule = 256

// schedule checks a trigger that ticks.
func (c *compiler) schedule(t Trigger) {
	c.only("schedule", t, "key", "if", "since", "shape")
	c.must("/trigger/schedule", checkSchedule(t.Schedule))
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

// checkSchedule says what is wrong with a crontab, "@every DURATION" or "@at INSTANT".
func checkSchedule(s string) error {
	word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case len(s) > maxSchedule:
		return fmt.Errorf("the schedule has %d bytes, the most is %d", len(s), maxSchedule)
	case strings.HasPrefix(word, "TZ=") || strings.HasPrefix(word, "CRON_TZ="):
		return fmt.Errorf("a schedule has no %s; write zone: %s beside it", clip(word, 40), clip(word[strings.Index(word, "=")+1:], 40))
	case word == "@every":
		return checkEvery(rest)
	case word == "@at":
		return checkAt(rest)
	case strings.HasPrefix(word, "@"):
		return checkMacro(word, rest)
	}
	return checkCrontab(s)
}

func checkEvery(s string) error {
	every, err := ParseDuration(s)
	if err != nil {
		return err
	}
	if every < Duration(time.Second) || every > longest || time.Duration(every)%time.Second != 0 {
		return fmt.Errorf("@every takes whole seconds between 1s and %s, not %s", longest, every)
	}
	return nil
}

func checkAt(s string) error {
	t, err := time.Parse(time.RFC3339, s)
	if seconds, errUnix := strconv.ParseInt(s, 10, 64); errUnix == nil && seconds >= 0 && seconds < maxYear*366*86400 {
		t, err = time.Unix(seconds, 0), nil
	}
	if err != nil {
		return fmt.Errorf(`@at takes an instant such as "2026-11-20T15:04:05Z", or seconds since 1970, not %q`, clip(s, 40))
	}
	_, err = bounded(t)
	return err
}

// macros are the words that stand for a crontab.
var macros = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

func checkMacro(word, rest string) error {
	known := append([]string{"@every", "@at"}, macros...)
	for _, m := range macros {
		if word == m && rest == "" {
			return nil
		}
		if word == m {
			return fmt.Errorf("%s stands alone; leave %q out", word, clip(rest, 40))
		}
	}
	return errors.New(notOneOf("a schedule", word, known))
}

// columns are the fields of a crontab.
var columns = []struct{ name, bounds string }{
	{"minute", "0 to 59"}, {"hour", "0 to 23"}, {"day of month", "1 to 31"}, {"month", "1 to 12 or JAN to DEC"}, {"day of week", "0 to 6 or SUN to SAT"},
}

var columnPattern = regexp.MustCompile(`^(\?|(\*|[0-9]+|[A-Za-z]{3})(-([0-9]+|[A-Za-z]{3}))?(/[0-9]+)?(,(\*|[0-9]+|[A-Za-z]{3})(-([0-9]+|[A-Za-z]{3}))?(/[0-9]+)?)*)$`)

func checkCrontab(s string) error {
	fields := strings.Fields(s)
	if len(fields) != len(columns) {
		return fmt.Errorf(`a crontab has 5 fields, minute, hour, day of month, month and day of week, not %d; write it like "0 9 * * 1-5"`, len(fields))
	}
	for i, field := range fields {
		if !columnPattern.MatchString(field) || strings.Contains(field, "*-") {
			return fmt.Errorf(`the %s, %q, is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`, columns[i].name, clip(field, 40))
		}
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if _, err := parseCrontab(strings.Join(alone, " ")); err != nil {
			return fmt.Errorf("the %s, %q, is not possible; it is %s, ranges rise, and steps are 1 or more", columns[i].name, clip(field, 40), columns[i].bounds)
		}
	}
	schedule, err := parseCrontab(strings.Join(fields, " "))
	if err != nil {
		return err
	}
	// The search gives up after five years, and within these lies a leap day.
	if schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return fmt.Errorf("%q never comes: no month has such a day", s)
	}
	return nil
}

// parseCrontab is the library's parser. What it panics at is an error.
func parseCrontab(s string) (schedule cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			schedule, err = nil, fmt.Errorf("%q is not a crontab", clip(s, 80))
		}
	}()
	return cron.ParseStandard(s)
}
