package ui

import (
	"testing"
	"time"
)

// TestPrecisely checks that the duration of a short check is not 0.
func TestPrecisely(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 µs", 3200 * time.Nanosecond: "3 µs", 999 * time.Microsecond: "999 µs", 12540 * time.Microsecond: "12.5 ms", 1240 * time.Millisecond: "1.2 s",
	} {
		if got := precisely(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
