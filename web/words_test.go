package web_test

import (
	"testing"
	"time"

	"deadman/web"
)

func TestRelative(t *testing.T) {
	now := time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 999 * time.Millisecond: "now", -999 * time.Millisecond: "now",
		time.Second: "in 1 s", -time.Second: "1 s ago", 119 * time.Second: "in 119 s",
		2 * time.Minute: "in 2 m", -90 * time.Minute: "90 m ago", 2 * time.Hour: "in 2 h",
		47 * time.Hour: "in 47 h", -48 * time.Hour: "2 d ago", 400 * 24 * time.Hour: "in 400 d",
	} {
		if got := web.Relative(now.Add(d), now); got != want {
			t.Errorf("%s from now is %q, want %q", d, got, want)
		}
	}
}
