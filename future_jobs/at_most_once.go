package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"deadman/checks"
)

// CheckStart is a check that is about to begin and must not begin twice.
type CheckStart struct {
	HeldShard
	JobID  int64
	Checks int // that the job had before this one
}

// CheckStarts keeps which checks have begun. Implementations are safe for concurrent use.
type CheckStarts interface {
	// BeginCheck writes down that a check begins; ok is false where it began before. It returns
	// ErrNotHeld when the shard is not held at the epoch any more.
	BeginCheck(ctx context.Context, b CheckStart) (ok bool, err error)
}

// errAlreadyStarted means that a check with effects was begun before, and nobody knows how it went.
var errAlreadyStarted = errors.New("the check was begun before and not decided, as when the node crashed; it has effects and is not run twice")

// isAtMostOnce reports whether no check of the rule may begin twice.
func isAtMostOnce(r *Rule) bool {
	_, is := r.Handler.(checks.AtMostOnce)
	return is
}

// recordStart writes down that a check begins, where that has to be.
func (s *Sweeper) recordStart(ctx context.Context, v *task) error {
	if !isAtMostOnce(v.rule) {
		return nil
	}
	ok, err := s.queue.BeginCheck(ctx, CheckStart{HeldShard: v.shard.HeldShard, JobID: v.Job.ID, Checks: v.Job.Checks})
	switch {
	case err != nil:
		return fmt.Errorf("the check was not begun: %w", err)
	case !ok:
		return errAlreadyStarted
	}
	return nil
}

// answerCache keeps what checks with effects answered until that is settled. A settlement may fall
// through, as when a rule is saved meanwhile; the job is looked at again then, and the check is
// not to run again.
type answerCache struct {
	mu      sync.Mutex
	answers map[int64]cachedAnswer // by job
}

// cachedAnswer is what a check answered.
type cachedAnswer struct {
	slot   time.Time
	checks int // that the job had before it
	at     time.Time
	answer checks.Answer
	err    error
}

// answerCacheTTL is how long an answer is kept. What was not settled by then never will be: the job is
// another node's, or is no more.
const answerCacheTTL = time.Hour

func (u *answerCache) keep(j Job, now time.Time, answer checks.Answer, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answers == nil {
		u.answers = make(map[int64]cachedAnswer)
	}
	maps.DeleteFunc(u.answers, func(_ int64, g cachedAnswer) bool { return now.Sub(g.at) > answerCacheTTL })
	u.answers[j.ID] = cachedAnswer{j.NextCheckAt, j.Checks, now, answer, err}
}

// of is what the check that a job is about to have answered already.
func (u *answerCache) of(j Job) (g cachedAnswer, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g, ok = u.answers[j.ID]
	return g, ok && g.checks == j.Checks && g.slot.Equal(j.NextCheckAt)
}

func (u *answerCache) forget(job int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.answers, job)
}
