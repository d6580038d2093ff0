package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestInstant(t *testing.T) {
	p := inProcess(new(bytes.Buffer), nil) // it is 2026-01-31 15:04:05 UTC
	p.zone = time.FixedZone("+2", 7200)
	base := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for written, want := range map[string]string{
		"2026-01-31T15:04:05Z":         "2026-01-31T15:04:05Z",
		"2026-01-31T15:04:05.25+05:30": "2026-01-31T09:34:05.25Z",
		"2026-03-01 10:05":             "2026-03-01T08:05:00Z",
		"2026-03-01 10:05:30":          "2026-03-01T08:05:30Z",
		"2026-03-01":                   "2026-02-28T22:00:00Z",
		"10:05":                        "2026-01-31T08:05:00Z",
		"10:05:30":                     "2026-01-31T08:05:30Z",
		"+3h":                          "2026-06-01T15:00:00Z",
		"-7d":                          "2026-05-25T12:00:00Z",
		"+1h30m":                       "2026-06-01T13:30:00Z",
	} {
		got, err := p.instant(written, base)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s is %s, %v; want %s", written, got, err, want)
		}
	}
	if got, err := p.instant("now", base); err != nil || !got.Equal(p.now()) {
		t.Errorf("now is %s, %v", got, err)
	}
	for _, written := range []string{"24h", "-24h", "2026-01-30T15:04:05Z", "1d"} {
		got, err := p.sinceFlag("since", written)
		back, agoErr := p.ago("since", written)
		if want := "2026-01-30T15:04:05Z"; err != nil || agoErr != nil || got.UTC().Format(time.RFC3339) != want || !got.Equal(back) {
			t.Errorf("since %s is %s, %v; in the past %s, %v; want %s", written, got, err, back, agoErr, want)
		}
	}
	for _, written := range []string{"soon", "--3h", "-"} {
		if got, err := p.sinceFlag("since", written); err == nil {
			t.Errorf("since %q is taken, as %s", written, got)
		}
	}
	for _, written := range []string{"", "soon", "25:00", "2026-02-30", "+", "+3", "3h", "--3h", "+3x", "2026-01-31T15:04:05"} {
		if got, err := p.instant(written, base); err == nil {
			t.Errorf("%q is taken, as %s", written, got)
		}
	}
	_, err := p.instantFlag("until", "soon", base)
	if misuse := (usageError{}); !errors.As(err, &misuse) || !strings.Contains(err.Error(), "--until") {
		t.Errorf("%v does not say which flag", err)
	}
}
