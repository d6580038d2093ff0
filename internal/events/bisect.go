package events

import (
	"context"
	"errors"
	"slices"

	futurejobs "deadman/future_jobs"
)

// bisect applies events that the database rejects together: by halves, until it finds the rejected one. The others
// are applied, and the rejected one becomes a dead letter.
func (t *streamReader) bisect(ctx context.Context, got []futurejobs.Event, refused error) error {
	if half := len(got) / 2; half > 0 {
		if err := t.applyBatch(ctx, t.matcher.newBatch(got[:half], t.sub.revision)); err != nil {
			return err
		}
		return t.applyBatch(ctx, t.matcher.newBatch(got[half:], t.sub.revision))
	}
	t.in.Log.Warn("the database refused the changes of an event, which becomes a dead letter",
		"stream", t.line, "seq", got[0].Seq, "subject", got[0].Subject, "err", refused)
	whole := t.toFutureJobsBatch(t.matcher.newBatch(got, t.sub.revision))
	for _, rule := range rulesOf(whole.Effects) {
		err := t.apply(ctx, t.matcher.replaceWithDeadLetter(whole, got[0], refused, rule), 0)
		if !errors.Is(err, futurejobs.ErrRefused) {
			return err
		}
	}
	return t.apply(ctx, t.matcher.replaceWithDeadLetter(whole, got[0], refused, ""), 0)
}

// rulesOf returns the names of the effects' rules, without duplicates.
func rulesOf(effects []futurejobs.Effect) []string {
	var names []string
	for _, e := range effects {
		if !slices.Contains(names, e.Rule.Name) {
			names = append(names, e.Rule.Name)
		}
	}
	return names
}
