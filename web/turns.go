package web

import (
	"context"
	"math"
	"net/http"
	"time"
)

// turnWait is how long a request waits for its turn.
const turnWait = 20 * time.Second

// newTrials bounds lints and previews, since tokens with only the scope read can run them.
func newTrials() *places[tokenRef] { return newTurns("lints and previews", 2, 5) }

// newSaves bounds saves of rules. rules.Registry bounds their work on the node.
func newSaves() *places[tokenRef] { return newTurns("saves of rules", math.MaxInt64, 16) }

// newBulkTurns bounds the bodies of many jobs that are in memory at once. A token may have them all.
func newBulkTurns() *places[tokenRef] {
	return &places[tokenRef]{perNode: bulkTurns, perOwner: bulkTurns, full: func(tokenRef, bool) *Problem {
		return problem(http.StatusServiceUnavailable, "%d such requests are in progress, and none of them ended in time; retry", bulkTurns)
	}}
}

// newTurns bounds requests with expensive work: one of each token runs at a time, and perNode of all. line bounds the
// running and waiting requests of a token.
func newTurns(what string, perNode, line int64) *places[tokenRef] {
	return &places[tokenRef]{perNode: perNode, perOwner: 1, line: line, full: func(_ tokenRef, node bool) *Problem {
		if node {
			return problem(http.StatusServiceUnavailable, "other %s are in progress, and none of them ended in time; retry", what)
		}
		return problem(http.StatusTooManyRequests, "%d %s of this token are in progress or queued, or none of them ended in %s; "+
			"send the next one once one of them is answered",
			line, what, turnWait)
	}}
}

// inTurn runs requests in their turn.
func inTurn[In, T any](turns *places[tokenRef], do func(context.Context, *In) (T, error)) func(context.Context, *In) (T, error) {
	return func(ctx context.Context, in *In) (answer T, err error) {
		of := principalOf(ctx).ref()
		if err := turns.wait(ctx, of, 1, turnWait); err != nil {
			return answer, err
		}
		defer turns.leave(of)
		return do(ctx, in)
	}
}
