package schedules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"deadman/internal/configfile"
)

// MaxText is the maximum length of a schedule's text in bytes.
const MaxText = 256

// longest is the maximum span of @every.
const longest = 3650 * 24 * time.Hour

// quoted is the maximum number of characters of a quoted text.
const quoted = 40

// Parse parses a crontab of five fields, a macro such as @daily, "@every DURATION" or "@at INSTANT". A crontab is in
// local time of the zone; nil is UTC. The seed, the name of the rule, determines the values of "?". The error names the
// problem and the remedy.
func Parse(text string, zone *time.Location, seed string) (Schedule, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the schedule has %d bytes, the most is %d", len(text), MaxText)
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.HasPrefix(word, "TZ=") || strings.HasPrefix(word, "CRON_TZ="):
		return nil, zoneInside(word)
	case word == "@every":
		return parseEvery(rest)
	case word == "@at":
		return parseAt(rest)
	case strings.HasPrefix(word, "@"):
		crontab, err := expand(word, rest)
		if err != nil {
			return nil, err
		}
		text = crontab
	}
	c, err := parseCrontab(text, seed)
	switch {
	case err != nil:
		return nil, err
	case c.hourly():
		return hourly{c, orUTC(zone)}, nil
	}
	return daily{c, orUTC(zone)}, nil
}

func zoneInside(word string) error {
	_, zone, _ := strings.Cut(word, "=")
	return fmt.Errorf("a schedule has no %s; write zone: %s beside it", configfile.Truncate(word, quoted), configfile.Truncate(zone, quoted))
}

func parseEvery(text string) (Schedule, error) {
	span, err := configfile.ParseDuration(text)
	if err != nil {
		return nil, err
	}
	if span < time.Second || span > longest || span%time.Second != 0 {
		return nil, fmt.Errorf("@every takes whole seconds between 1s and 3650d, not %s", configfile.Truncate(text, quoted))
	}
	return every{span: int64(span / time.Second)}, nil
}

// parseAt parses an instant. A fraction of a second is rounded up, so that no tick is early.
func parseAt(text string) (Schedule, error) {
	at, err := time.Parse(time.RFC3339, text)
	if seconds, errUnix := strconv.ParseInt(text, 10, 64); errUnix == nil && seconds >= 0 && seconds <= lastSecond {
		at, err = time.Unix(seconds, 0), nil
	}
	if err != nil {
		return nil, fmt.Errorf(`@at takes an instant such as "2026-11-20T15:04:05Z", or seconds since 1970, not %q`, configfile.Truncate(text, quoted))
	}
	at = at.UTC().Add(time.Second - 1).Truncate(time.Second)
	if at.Year() < 1970 || at.Year() > 9999 {
		return nil, errors.New("the instant is not between 1970 and 9999; are these milliseconds? divide them by 1000")
	}
	return oneTime{at}, nil
}

// macros are the names of predefined crontabs.
var macros = []struct{ word, crontab string }{
	{"@yearly", "0 0 1 1 *"},
	{"@annually", "0 0 1 1 *"},
	{"@monthly", "0 0 1 * *"},
	{"@weekly", "0 0 * * 0"},
	{"@daily", "0 0 * * *"},
	{"@midnight", "0 0 * * *"},
	{"@hourly", "0 * * * *"},
}

// expand returns the crontab of a macro.
func expand(word, rest string) (string, error) {
	known := []string{"@every", "@at"}
	for _, m := range macros {
		switch {
		case m.word == word && rest != "":
			return "", fmt.Errorf("%s stands alone; leave %q out", word, configfile.Truncate(rest, quoted))
		case m.word == word:
			return m.crontab, nil
		}
		known = append(known, m.word)
	}
	if near := configfile.Suggest(word, known); near != "" {
		return "", fmt.Errorf("%q is not a schedule; did you mean %q?", configfile.Truncate(word, quoted), near)
	}
	return "", fmt.Errorf("%q is not a schedule; write one of %s", configfile.Truncate(word, quoted), strings.Join(known, ", "))
}
