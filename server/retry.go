package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// startRetryInterval is the interval at which a starting node retries an unavailable database or broker.
const startRetryInterval = 2 * time.Second

// msgDatabaseLost is logged while a starting node retries a lost database.
const msgDatabaseLost = "the database is not there any more"

// retryWhile retries until try succeeds, fails with an error other than the passing ones, or ctx ends.
func retryWhile(ctx context.Context, log *slog.Logger, waiting string, try func() error, passing ...error) error {
	for {
		err := try()
		if !slices.ContainsFunc(passing, func(reason error) bool { return errors.Is(err, reason) }) {
			return err
		}
		log.Warn(waiting, "again_in", startRetryInterval, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startRetryInterval):
		}
	}
}
