package events

import (
	"context"
	"errors"
	"fmt"
	"slices"

	futurejobs "deadman/future_jobs"
)

// MaxBody is the longest body of an event that is taken in, in bytes.
const MaxBody = 256 << 10

// ruleTries bounds how often a batch is matched again because the rules changed meanwhile.
const ruleTries = 5

// take applies events and moves the cursor, in one transaction.
func (t *tap) take(ctx context.Context, got []futurejobs.Event) error {
	got = slices.DeleteFunc(got, func(e futurejobs.Event) bool { return e.Seq <= t.cursor.LastSeq })
	if len(got) == 0 {
		return nil
	}
	for range ruleTries {
		batch, ignored := t.fold(got)
		done, err := t.in.Ledger.Apply(ctx, batch)
		switch {
		case err == nil:
			t.cursor.LastSeq, t.cursor.LastAt = batch.Last, batch.LastAt
			t.count(done, len(batch.DeadLetters), ignored)
			return nil
		case errors.Is(err, futurejobs.ErrMoved):
			return errReopen
		case !errors.Is(err, futurejobs.ErrRulesChanged):
			return fmt.Errorf("apply events: %w", err)
		}
		if err := t.in.Book.Refresh(ctx); err != nil {
			return fmt.Errorf("look at the rules: %w", err)
		}
		if err := t.follow(); err != nil {
			return err
		}
	}
	return fmt.Errorf("apply events: %w, %d times in a row", futurejobs.ErrRulesChanged, ruleTries)
}

// fold asks the rules what the events mean.
func (t *tap) fold(got []futurejobs.Event) (b futurejobs.Batch, ignored int) {
	last := got[len(got)-1]
	b = futurejobs.Batch{
		Stream: t.stream, After: t.cursor.LastSeq, Last: last.Seq, LastAt: last.At,
		// The subjects that are read belong to this revision. Rules that are newer already
		// make the transaction fail, and the events are matched again.
		RuleSet: t.revision,
	}
	for _, e := range got {
		effects, refusals := t.match(&e)
		for _, r := range refusals {
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{Event: e, Rule: r.Rule, Reason: r.Reason, At: t.in.Now()})
		}
		b.Effects = append(b.Effects, effects...)
		if len(effects)+len(refusals) == 0 {
			ignored++
		}
	}
	return b, ignored
}

// match asks the rules what an event means. One that is too long is cut, and not asked about.
func (t *tap) match(e *futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal) {
	if n := len(e.Data); n > MaxBody {
		e.Data = e.Data[:MaxBody]
		return nil, []futurejobs.Refusal{{
			Reason: fmt.Sprintf("the body has %d bytes, at most %d are taken in; only its start is kept here", n, MaxBody),
		}}
	}
	return t.in.Book.Match(*e)
}

func (t *tap) count(done futurejobs.Applied, letters, ignored int) {
	for outcome, n := range map[string]int{
		Created: done.Created, Ended: done.Ended, Kept: done.Kept, Restarted: done.Restarted, Updated: done.Updated,
		Paused: done.Paused, Resumed: done.Resumed, Remembered: done.Remembered, Unmatched: done.Missed,
		DeadLetter: letters + done.Refused, Ignored: ignored,
	} {
		t.in.taken(outcome, n)
	}
	if t.in.Observer != nil {
		for _, a := range done.Said {
			t.in.Observer.Alerted(a)
		}
	}
}
