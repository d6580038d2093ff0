package rules

import (
	"context"
	"errors"
)

// budget is what all expressions of a rule may cost together, in rounds: on one event, at one look, or in one preview.
// It counts what is evaluated and no time, so that it comes to the same on every machine. It is not safe for concurrent
// use.
type budget struct {
	left  int
	ended <-chan struct{} // nobody waits for the evaluation any more; nil: it is waited for
	spent error           // what is wrong where nothing is left; nil: errSpent
}

// What the expressions of a rule may cost together: four times what one of them may.
const (
	leastBudget   = 4 * leastRounds
	budgetPerByte = 4 * roundsPerByte
	previewBudget = 10_000_000 // about a second
	// roundsToEvaluate is what an expression costs that does nothing.
	roundsToEvaluate = 5
)

var (
	errSpent = errors.New("the expressions of the rule take too long together")
	errEnded = errors.New("nobody waits for the answer any more")
)

// budgetFor is the budget of expressions that read so many bytes.
func budgetFor(bytes int) budget { return budget{left: leastBudget + budgetPerByte*bytes} }

// enter pays for an evaluation that has to take so many bytes apart, and returns how many rounds it may take, if it may take
// most by itself.
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

// why is what is wrong where nothing is left.
func (b *budget) why() error {
	if b == nil || b.spent == nil {
		return errSpent
	}
	return b.spent
}

// leave takes away what an evaluation has cost, of what it was given.
func (b *budget) leave(given, left int) {
	if b != nil {
		b.left -= given - max(left, 0)
	}
}

// isCostly reports whether an evaluation ended because it would have cost too much.
func isCostly(err error) bool { return errors.Is(err, errTooExpensive) || errors.Is(err, errSpent) }

// purse is the budget of all that the rule evaluates, where it has one, or that of an event or a look.
func (r *Rule) purse(own *budget) *budget {
	if r.spend != nil {
		return r.spend
	}
	return own
}

// onBudget is the rule with one budget for all that it evaluates, as long as ctx lasts.
func (r *Rule) onBudget(ctx context.Context) *Rule {
	own := *r
	own.spend = &budget{left: previewBudget, ended: ctx.Done()}
	if _, is := r.engine.Handler.(handler); is {
		own.engine.Handler = handler{&own}
	}
	return &own
}
