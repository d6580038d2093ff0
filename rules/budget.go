package rules

import "errors"

// budget is the limit, in rounds, of all expressions of a rule together: on one event, at one check, or in one preview.
// It counts evaluation and not time, so that the result is the same on every machine. It is not safe for concurrent
// use.
type budget struct {
	left  int
	ended <-chan struct{} // closed once the caller has left; nil: the caller stays
	spent error           // the error if nothing is left; nil: errSpent
}

// The budget of the expressions of a rule together: four times the limit of one expression.
const (
	leastBudget   = 4 * leastRounds
	budgetPerByte = 4 * roundsPerByte
	previewBudget = 10_000_000 // about a second
	// roundsToEvaluate is the cost of an expression that does nothing.
	roundsToEvaluate = 5
)

var (
	errSpent = errors.New("the expressions of the rule take too long together")
	errEnded = errors.New("the caller is gone")
)

// budgetFor returns the budget of expressions that read the given number of bytes.
func budgetFor(bytes int) budget { return budget{left: leastBudget + budgetPerByte*bytes} }

// enter pays for an evaluation that has to decode the given number of bytes, and returns how many rounds it may take,
// at most the limit of the evaluation itself.
func (b *budget) enter(bytes, most int) (int, error) {
	if b == nil {
		return most, nil
	}
	select {
	case <-b.ended:
		return 0, errEnded
	default:
	}
	if b.left -= roundsToEvaluate + bytes/cheap; b.left <= 0 {
		b.left = 0
		return 0, b.why()
	}
	return min(most, b.left), nil
}

// why returns the error for a budget with nothing left.
func (b *budget) why() error {
	if b == nil || b.spent == nil {
		return errSpent
	}
	return b.spent
}

// leave deducts the cost of an evaluation, given its limit and its remainder.
func (b *budget) leave(given, left int) {
	if b != nil {
		b.left -= given - max(left, 0)
	}
}

// isCostly reports whether an evaluation ended because it would have cost too much.
func isCostly(err error) bool { return errors.Is(err, errTooExpensive) || errors.Is(err, errSpent) }
