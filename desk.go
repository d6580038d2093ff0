package deadman

import (
	"context"
	"errors"

	futurejobs "deadman/future_jobs"
)

// Cancel ends a job by hand. What was said about it is closed by an alert. A job that is
// not there is futurejobs.ErrNotFound.
func (n *node) Cancel(ctx context.Context, rule, key string) error {
	for {
		ruleSet := n.book.Revision()
		job, err := n.store.Job(ctx, rule, key)
		if err != nil {
			return err
		}
		made, err := n.book.Rule(ctx, job.RuleID, job.Version)
		if err != nil {
			return err
		}
		applied, err := n.store.Apply(ctx, futurejobs.Batch{
			RuleSet: ruleSet, Effects: []futurejobs.Effect{futurejobs.Cancel(made, job.Ref)},
		})
		if errors.Is(err, futurejobs.ErrRulesChanged) {
			if err := n.book.Refresh(ctx); err != nil {
				return err
			}
			continue
		}
		if err == nil && applied.Ended == 0 {
			return futurejobs.ErrNotFound // it ended by itself meanwhile
		}
		for _, a := range applied.Said {
			n.witness.Alerted(a)
		}
		return err
	}
}
