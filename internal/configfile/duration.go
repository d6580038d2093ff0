package configfile

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// ErrDuration says how a duration is written.
var ErrDuration = errors.New(`write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`)

// ParseDuration reads a span of years (y), weeks (w), days (d), h, m, s and ms, in this order.
// The error is ErrDuration.
func ParseDuration(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; %w", Truncate(s, quoted), ErrDuration)
	}
	return time.Duration(d), nil
}
