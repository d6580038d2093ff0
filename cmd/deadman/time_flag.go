package main

import (
	"fmt"
	"strings"
	"time"

	"deadman/rules"
)

// instant parses a time in a human format: complete as in 2026-01-31T15:04:05Z, a date with or without a time or a
// time of today in the user's zone, or a span from base as in +3h or -7d.
func (p *cli) instant(s string, base time.Time) (time.Time, error) {
	if sign := sign(s); sign != 0 {
		d, err := rules.ParseDuration(s[1:])
		return base.Add(sign * time.Duration(d)), err
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, p.zone); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			year, month, day := p.now().In(p.zone).Date()
			return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), 0, p.zone), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; write it as 2026-01-31T15:04:05Z, \"2026-01-31 15:04\", 15:04, +3h or -3h", s)
}

func sign(s string) time.Duration {
	switch {
	case strings.HasPrefix(s, "+"):
		return 1
	case strings.HasPrefix(s, "-"):
		return -1
	}
	return 0
}

// instantFlag parses the optional time of a flag.
func (p *cli) instantFlag(flag, s string, base time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := p.instant(s, base)
	if err != nil {
		return t, usage("--%s: %w", flag, err)
	}
	return t, nil
}

// checkSpan validates the optional span of a flag, which must be over 0.
func checkSpan(flag, s string) error {
	if s == "" {
		return nil
	}
	d, err := rules.ParseDuration(s)
	if err != nil {
		return usage("--%s: %w", flag, err)
	}
	if d <= 0 {
		return usage("--%s is %s; it takes a span over 0, such as 2h or 90d", flag, s)
	}
	return nil
}
