package web

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"time"
)

// turnWait is how long a request waits for its turn.
const turnWait = 20 * time.Second

// newTrials bounds lints and previews, since tokens with only the scope read can run them. Tenants together have one place
// of two, so that others always find one.
func newTrials() *semaphore[tokenRef] {
	trials := newTurns("lints and previews", 2, 5)
	trials.reserved, trials.guest = 1, func(of tokenRef) bool { return of.guest }
	return trials
}

// newReplayPermits bounds running replays: one of each token or tenant, and two of the node. Tenants together have one of
// them. A permit is held until the end of the task.
func newReplayPermits() *semaphore[tokenRef] {
	return &semaphore[tokenRef]{
		perNode: 2, perOwner: 1, reserved: 1, guest: func(of tokenRef) bool { return of.guest },
		full: func(of tokenRef, node bool) *Problem {
			if node {
				return problem(http.StatusServiceUnavailable, "other replays are running on this node, which runs a few at a time; retry once one of them has ended, or start it on another node")
			}
			return problem(http.StatusTooManyRequests, "a replay of %s is running; cancel it with DELETE, or retry after its end", of.who)
		},
	}
}

// newManualChecks bounds the checks by hand of a tenant. Those of others are not bounded.
func newManualChecks() *semaphore[tokenRef] {
	checks := newTurns("checks by hand", math.MaxInt64, 16)
	checks.perOwner = 2
	return checks
}

// newSaves bounds saves of rules. rules.Registry bounds their work on the node.
func newSaves() *semaphore[tokenRef] { return newTurns("saves of rules", math.MaxInt64, 16) }

// newBulkTurns bounds the bodies of many lines that are in memory at once. A token may have them all.
func newBulkTurns() *semaphore[tokenRef] {
	return &semaphore[tokenRef]{perNode: bulkTurns, perOwner: bulkTurns, full: func(tokenRef, bool) *Problem {
		return problem(http.StatusServiceUnavailable, "%d such requests are in progress, and none of them ended in time; retry", bulkTurns)
	}}
}

// newTurns bounds requests with expensive work: one of each token or tenant runs at a time, and perNode of all. line
// bounds the running and waiting requests of a token or tenant.
func newTurns(what string, perNode, line int64) *semaphore[tokenRef] {
	return &semaphore[tokenRef]{perNode: perNode, perOwner: 1, maxQueued: line, full: func(of tokenRef, node bool) *Problem {
		if node {
			return problem(http.StatusServiceUnavailable, "other %s are in progress, and none of them ended in time; retry", what)
		}
		return problem(http.StatusTooManyRequests, "%d %s of %s are in progress or queued, or none of them ended in %s; "+
			"send the next one once one of them is answered",
			line, what, cmp.Or(of.who, "this node's user"), turnWait)
	}}
}

// inTurn runs the requests of a token in their turn, and inTurnOf those of an owner of places, such as a tenant.
func inTurn[In, T any](turns *semaphore[tokenRef], do func(context.Context, *In) (T, error)) func(context.Context, *In) (T, error) {
	return inTurnOf(turns, principal.ref, do)
}

func inTurnOf[In, T any](turns *semaphore[tokenRef], owner func(principal) tokenRef, do func(context.Context, *In) (T, error)) func(context.Context, *In) (T, error) {
	return func(ctx context.Context, in *In) (answer T, err error) {
		of := owner(principalOf(ctx))
		if err := turns.acquireWithin(ctx, of, 1, turnWait); err != nil {
			return answer, err
		}
		defer turns.release(of)
		return do(ctx, in)
	}
}
