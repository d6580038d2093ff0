package document

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"deadman/internal/configfile"
)

// Duration is a span as authors write it: "90s", "1h30m", "7d".
type Duration time.Duration

// ParseDuration parses a span of years (y), weeks (w), days (d), h, m, s and ms, in this order.
func ParseDuration(s string) (Duration, error) {
	d, err := configfile.ParseDuration(s)
	return Duration(d), err
}

// units are the units in milliseconds, the longest first.
var units = []struct {
	name string
	ms   int64
}{{"d", 86_400_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1}}

// String returns the shortest form of d in days and smaller units.
func (d Duration) String() string {
	rest := time.Duration(d).Milliseconds()
	var b strings.Builder
	for _, u := range units {
		if n := rest / u.ms; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.ms
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// MarshalJSON writes d in the form that ParseDuration reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return configfile.ErrDuration
	}
	parsed, err := ParseDuration(s)
	*d = parsed
	return err
}

// Delay is a literal span, or an expression that yields one, such as hours(event.sla_hours).
type Delay struct {
	Fixed    Duration
	AtOnce   bool   // the text is a span of zero
	Computed string // an expression; empty: Fixed
}

// String returns d as it is written.
func (d Delay) String() string {
	if d.Computed != "" {
		return d.Computed
	}
	return d.Fixed.String()
}

// MarshalJSON writes d in the form that UnmarshalJSON reads.
func (d Delay) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a duration if the text is one, and an expression otherwise.
func (d *Delay) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return configfile.ErrDuration
	}
	*d = delayOf(s)
	return nil
}

func delayOf(s string) Delay {
	if fixed, err := ParseDuration(s); err == nil {
		return Delay{Fixed: fixed, AtOnce: fixed == 0}
	}
	return Delay{Computed: s}
}

// isSpanLike reports whether a delay is meant to be a duration: no expression begins so.
func isSpanLike(s string) bool {
	s = strings.TrimLeft(s, " +-.")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}
