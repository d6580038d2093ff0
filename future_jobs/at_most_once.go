package futurejobs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"deadman/checks"
)

// CheckStart is a check that is about to start and must not start twice.
type CheckStart struct {
	HeldShard
	JobID         int64
	CheckAttempts int // of the job before this one
}

// CheckStarts records started checks. Implementations are safe for concurrent use.
type CheckStarts interface {
	// BeginCheck records the start of a check; ok is false if it started before. It returns ErrNotHeld if the shard
	// is no longer held at the epoch.
	BeginCheck(ctx context.Context, b CheckStart) (ok bool, err error)
}

// errAlreadyStarted means that a check with side effects was started before, with an unknown result.
var errAlreadyStarted = errors.New("the check was started before and not decided, for example because the node crashed; it has side effects and is not run again")

// isAtMostOnce reports whether a check of the rule must not start twice.
func isAtMostOnce(r *Rule) bool {
	_, is := r.Handler.(checks.AtMostOnce)
	return is
}

// answerCache keeps the answers of checks with side effects until they are settled. A settlement may fail, for
// example if a rule is saved meanwhile; the job is checked again then, without a second run of its handler.
type answerCache struct {
	mu      sync.Mutex
	answers map[int64]cachedAnswer // by job
}

// cachedAnswer is the answer of a check.
type cachedAnswer struct {
	slot   time.Time
	checks int // of the job before this one
	at     time.Time
	answer checks.Answer
	err    error
}

// answerCacheTTL is how long an answer is kept. If it was not settled by then, it never will be: the job belongs to
// another node, or has ended.
const answerCacheTTL = time.Hour

func (u *answerCache) keep(j Job, now time.Time, answer checks.Answer, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answers == nil {
		u.answers = make(map[int64]cachedAnswer)
	}
	maps.DeleteFunc(u.answers, func(_ int64, g cachedAnswer) bool { return now.Sub(g.at) > answerCacheTTL })
	u.answers[j.ID] = cachedAnswer{j.NextCheckAt, j.CheckAttempts, now, answer, err}
}

// of returns the answer of the job's next check, if that check has run already.
func (u *answerCache) of(j Job) (g cachedAnswer, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g, ok = u.answers[j.ID]
	return g, ok && g.checks == j.CheckAttempts && g.slot.Equal(j.NextCheckAt)
}

func (u *answerCache) forget(job int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.answers, job)
}
