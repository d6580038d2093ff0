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
		if err := t.applyBatch(ctx, t.newBatch(got[:half], t.revision)); err != nil {
			return err
		}
		return t.applyBatch(ctx, t.newBatch(got[half:], t.revision))
	}
	t.in.Log.Warn("the database does not take what an event leads to; it becomes a dead letter",
		"stream", t.line, "seq", got[0].Seq, "subject", got[0].Subject, "err", refused)
	whole := t.toFutureJobsBatch(t.newBatch(got, t.revision))
	for _, rule := range rulesOf(whole.Effects) {
		err := t.apply(ctx, t.replaceWithDeadLetter(whole, got[0], refused, rule), 0)
		if !errors.Is(err, futurejobs.ErrRefused) {
			return err
		}
	}
	return t.apply(ctx, t.replaceWithDeadLetter(whole, got[0], refused, ""), 0)
}

// replaceWithDeadLetter returns the batch of one event with a dead letter in place of the effects of a rule, or of
// all rules if rule is empty.
func (t *streamReader) replaceWithDeadLetter(b futurejobs.EffectBatch, e futurejobs.Event, refused error, rule string) futurejobs.EffectBatch {
	b.Effects = slices.DeleteFunc(slices.Clone(b.Effects), func(f futurejobs.Effect) bool { return rule == "" || f.Rule.Name == rule })
	if rule == "" {
		b.DeadLetters = nil // one dead letter stands for all rules
	}
	b.DeadLetters = append(slices.Clone(b.DeadLetters), t.deadLetter(e, len(e.Data), futurejobs.Refusal{Rule: rule, Reason: refused.Error()}))
	return b
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
