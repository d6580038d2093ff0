package futurejobs

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// failures records the errors that block the sweep, by activity. It is safe for concurrent use.
type failures struct {
	local func() time.Time // a monotonic clock
	log   *slog.Logger

	mu    sync.Mutex
	errs  map[string]error
	since map[string]time.Time // by the local clock, for each of errs
}

func newFailures(local func() time.Time, log *slog.Logger) *failures {
	return &failures{local: local, log: log, errs: map[string]error{}, since: map[string]time.Time{}}
}

// set records the failure of an activity, or its end if err is nil, and logs changes.
func (f *failures) set(activity string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.errs[activity]
	if err != nil && was == nil {
		f.since[activity] = f.local()
	}
	switch {
	case err == nil && was != nil:
		f.log.Info("sweep recovered", "activity", activity)
		delete(f.errs, activity)
		delete(f.since, activity)
	case err != nil:
		err = fmt.Errorf("%s: %w", activity, err)
		if was == nil || was.Error() != err.Error() {
			f.log.Error("sweep failed, retrying", "activity", activity, "err", err)
		}
		f.errs[activity] = err
	}
}

// err returns the current errors, joined.
func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(slices.Collect(maps.Values(f.errs))...)
}

// unfit returns the reason why another node should hold the shards: due jobs could not be read, or decided jobs not be
// settled, for d or longer. Empty: none.
func (f *failures) unfit(d time.Duration) (reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, failing := range []struct{ activity, reason string }{
		{"settle", "decided jobs cannot be settled"},
		{"sweep", "due jobs cannot be read"},
	} {
		if f.errs[failing.activity] != nil && f.local().Sub(f.since[failing.activity]) >= d {
			return failing.reason
		}
	}
	return ""
}
