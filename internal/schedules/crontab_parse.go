package schedules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"

	"deadman/internal/configfile"
)

// cronField is a field of a crontab. "?" stands for a value from least to most, a range that every month has.
type cronField struct {
	name, bounds string
	least, most  int
}

var columns = []cronField{
	{"minute", "0 to 59", 0, 59},
	{"hour", "0 to 23", 0, 23},
	{"day of month", "1 to 31", 1, 28},
	{"month", "1 to 12 or JAN to DEC", 1, 12},
	{"day of week", "0 to 7 or SUN to SAT", 0, 6},
}

var fieldPattern = regexp.MustCompile(`^(\?|(\*|[0-9]+|[A-Za-z]{3})(-([0-9]+|[A-Za-z]{3}))?(/[0-9]+)?(,(\*|[0-9]+|[A-Za-z]{3})(-([0-9]+|[A-Za-z]{3}))?(/[0-9]+)?)*)$`)

// parseCrontab parses five fields. A "+" before the day of week means that both days must match.
func parseCrontab(text, seed string) (crontab, error) {
	fields := strings.Fields(text)
	if len(fields) != len(columns) {
		return crontab{}, fmt.Errorf(`a crontab has 5 fields, minute, hour, day of month, month and day of week, not %d; write it like "0 9 * * 1-5"`, len(fields))
	}
	week := &fields[len(fields)-1]
	without, both := strings.CutPrefix(*week, "+")
	*week = without
	for i, c := range columns {
		field, err := c.read(i, fields[i], seed)
		if err != nil {
			return crontab{}, err
		}
		fields[i] = field
	}
	read, err := parseFields(fields)
	if err != nil {
		return crontab{}, err
	}
	read.both = read.both || both
	if _, ok := read.next(0); !ok {
		return crontab{}, fmt.Errorf("%q never comes: no month has such a day", text)
	}
	return read, nil
}

// read returns the field at index i in the form of the parser, or an error.
func (c cronField) read(i int, field, seed string) (string, error) {
	if !fieldPattern.MatchString(field) || strings.Contains(field, "*-") {
		return "", fmt.Errorf(`the %s, %q, is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`, c.name, configfile.Truncate(field, quoted))
	}
	if field == "?" {
		return spread(seed, c), nil
	}
	alone := []string{"*", "*", "*", "*", "*"}
	alone[i] = field
	if _, err := parseFields(alone); err != nil {
		return "", fmt.Errorf("the %s, %q, is not possible; it is %s, ranges rise, and steps are 1 or more", c.name, configfile.Truncate(field, quoted), c.bounds)
	}
	return field, nil
}

// sundays rewrites Sunday as 7, also at the end of a range, to 0, the only form that the parser accepts.
func sundays(field string) string {
	var parts []string
	for part := range strings.SplitSeq(field, ",") {
		days, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(days, "-")
		if !ranged {
			to = from
		}
		if !stepped {
			step = "1"
		}
		first, err := strconv.Atoi(from)
		every, errStep := strconv.Atoi(step)
		if to != "7" || err != nil || errStep != nil || every < 1 || first > 7 {
			parts = append(parts, part)
			continue
		}
		for day := first; day <= 7; day += min(every, 8) {
			parts = append(parts, strconv.Itoa(day%7))
		}
	}
	return strings.Join(parts, ",")
}

// star is the bit with which the parser marks a field with any value. If one of the day fields has it, only the other
// one counts.
const star = 1 << 63

// parseFields calls the library's parser. A panic is returned as an error.
func parseFields(fields []string) (c crontab, err error) {
	week := len(fields) - 1
	text := strings.Join(fields[:week], " ") + " " + sundays(fields[week])
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%q is not a crontab", configfile.Truncate(text, quoted))
		}
	}()
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return crontab{}, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return crontab{}, fmt.Errorf("%q is not a crontab", configfile.Truncate(text, quoted))
	}
	return crontab{
		minutes: s.Minute &^ star, hours: s.Hour &^ star, days: s.Dom &^ star, months: s.Month &^ star, weekdays: s.Dow &^ star,
		both: (s.Dom|s.Dow)&star != 0,
	}, nil
}
