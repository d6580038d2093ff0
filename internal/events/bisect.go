package events

import (
	"context"
	"errors"
	"slices"

	futurejobs "deadman/future_jobs"
)

// takeApart takes in events that the database refuses together: by halves, until the one is
// found that is to blame. The others are taken in, and it becomes a dead letter.
func (t *tap) takeApart(ctx context.Context, got []futurejobs.Event, refused error) error {
	if half := len(got) / 2; half > 0 {
		if err := t.take(ctx, t.ask(got[:half], t.revision)); err != nil {
			return err
		}
		return t.take(ctx, t.ask(got[half:], t.revision))
	}
	t.in.Log.Warn("the database does not take what an event leads to; it becomes a dead letter",
		"stream", t.stream, "seq", got[0].Seq, "subject", got[0].Subject, "err", refused)
	whole := t.batch(t.ask(got, t.revision))
	for _, rule := range rulesOf(whole.Effects) {
		err := t.apply(ctx, t.without(whole, got[0], refused, rule), 0)
		if !errors.Is(err, futurejobs.ErrRefused) {
			return err
		}
	}
	return t.apply(ctx, t.without(whole, got[0], refused, ""), 0)
}

// without is the batch of one event with a dead letter in place of what a rule makes of it, or
// all rules where none is named.
func (t *tap) without(b futurejobs.Batch, e futurejobs.Event, refused error, rule string) futurejobs.Batch {
	b.Effects = slices.DeleteFunc(slices.Clone(b.Effects), func(f futurejobs.Effect) bool { return rule == "" || f.Rule.Name == rule })
	if rule == "" {
		b.DeadLetters = nil // this one is for all of them
	}
	b.DeadLetters = append(slices.Clone(b.DeadLetters), t.letter(e, len(e.Data), futurejobs.Refusal{Rule: rule, Reason: refused.Error()}))
	return b
}

// rulesOf names the rules that effects are of, each once.
func rulesOf(effects []futurejobs.Effect) []string {
	var names []string
	for _, e := range effects {
		if !slices.Contains(names, e.Rule.Name) {
			names = append(names, e.Rule.Name)
		}
	}
	return names
}
