// Package periodic repeats the step of a component at an interval, and logs when the steps begin to fail and when they
// recover.
package periodic

import (
	"context"
	"log/slog"
	"time"
)

// Run runs a step at once and then at each interval, until ctx ends. The name is the noun of the log messages. A failed
// step is repeated at the next interval; the log has each cause once.
func Run(ctx context.Context, interval time.Duration, log *slog.Logger, name string, step func(context.Context) error) error {
	return NewStatus(log, slog.LevelWarn, name).Run(ctx, interval, step)
}

// RunAfter is Run without the step at once: the first step runs after the interval.
func RunAfter(ctx context.Context, interval time.Duration, log *slog.Logger, name string, step func(context.Context) error) error {
	return NewStatus(log, slog.LevelWarn, name).repeat(ctx, interval, step)
}
