package futurejobs

import (
	"context"
	"errors"
	"fmt"

	"deadman/checks"
)

// Beginning is a check that is about to begin and must not begin twice.
type Beginning struct {
	Held
	JobID  int64
	Checks int // that the job had before this one
}

// Beginnings keeps which checks have begun. Implementations are safe for concurrent use.
type Beginnings interface {
	// BeginCheck writes down that a check begins; ok is false where it began before. It returns
	// ErrNotHeld when the shard is not held at the epoch any more.
	BeginCheck(ctx context.Context, b Beginning) (ok bool, err error)
}

// errBegun means that a check with effects was begun before, and nobody knows how it went.
var errBegun = errors.New("the check was begun before and not decided, as when the node crashed; it has effects and is not run twice")

// once reports whether no check of the rule may begin twice.
func once(r *Rule) bool {
	_, is := r.Handler.(checks.AtMostOnce)
	return is
}

// begin writes down that a check begins, where that has to be.
func (s *Sweeper) begin(ctx context.Context, v verdict) error {
	if !once(v.rule) {
		return nil
	}
	ok, err := s.queue.BeginCheck(ctx, Beginning{Held: v.shard.Held, JobID: v.Job.ID, Checks: v.Job.Checks})
	switch {
	case err != nil:
		return fmt.Errorf("the check was not begun: %w", err)
	case !ok:
		return errBegun
	}
	return nil
}
