package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// retryAtOnce bounds the dead letters retried in one call, and retryPage those in memory.
const (
	retryAtOnce = 500
	retryPage   = 50
)

// DeadLetterMatcher matches the event of a dead letter against the current rules. rules.Catalog implements it.
type DeadLetterMatcher interface {
	MatchDeadLetter(l futurejobs.DeadLetter) ([]futurejobs.Effect, []futurejobs.Refusal)
	Revision() int64
	Refresh(ctx context.Context) error
}

// DeadLetterStore stores dead letters. It returns futurejobs.ErrNotFound for a missing one. Implementations are safe
// for concurrent use.
type DeadLetterStore interface {
	DeadLetter(ctx context.Context, id int64) (futurejobs.DeadLetter, error)
	// LettersAfter returns up to limit dead letters of a filter after an id, oldest first.
	LettersAfter(ctx context.Context, f futurejobs.Filter, after int64, limit int) ([]futurejobs.DeadLetter, error)
	// Apply is the method of futurejobs.EffectStore.
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	DropLetter(ctx context.Context, id int64) error
	// DropLetters returns the number of dropped dead letters.
	DropLetters(ctx context.Context, f futurejobs.Filter) (int64, error)
}

// DeadLetters retries events that could not be processed.
type DeadLetters struct {
	DeadLetterStore
	Catalog  DeadLetterMatcher
	Now      func() time.Time
	Observer Observer // may be nil
}

// Retried is the result of retrying dead letters.
type Retried struct {
	Tried   int
	TakenIn int // ingested and deleted
	Refused int // rejected again and kept
	Reason  string
	Next    int64 // id of the last retried dead letter if more follow; 0: none follow
}

// Retry matches the event of a dead letter against the current rules and ingests it exactly once: the dead letter is
// deleted in the same transaction. If the event is rejected again, the dead letter stays with the new reason. A summary
// is always refused, and keeps its reason. Retry returns futurejobs.ErrNotFound if the dead letter does not exist.
//
// The event is applied late: later events were ingested without it, and are not ingested again.
func (l *DeadLetters) Retry(ctx context.Context, id int64) (Retried, error) {
	letter, err := l.DeadLetter(ctx, id)
	if err != nil {
		return Retried{}, err
	}
	if err := l.Catalog.Refresh(ctx); err != nil {
		return Retried{}, fmt.Errorf("refresh the rules: %w", err)
	}
	return l.retry(ctx, letter)
}

// RetryAll retries the dead letters of a filter after an id, oldest first, up to retryAtOnce of them. It skips dead
// letters that are deleted concurrently.
func (l *DeadLetters) RetryAll(ctx context.Context, f futurejobs.Filter, after int64) (all Retried, err error) {
	if err := l.Catalog.Refresh(ctx); err != nil {
		return all, fmt.Errorf("refresh the rules: %w", err)
	}
	for all.Tried < retryAtOnce {
		page, err := l.LettersAfter(ctx, f, after, retryPage)
		if err != nil {
			return all, err
		}
		for _, letter := range page {
			one, err := l.retry(ctx, letter)
			if err != nil && !errors.Is(err, futurejobs.ErrNotFound) {
				return all, err
			}
			all.Tried, all.TakenIn, all.Refused = all.Tried+one.Tried, all.TakenIn+one.TakenIn, all.Refused+one.Refused
			after = letter.ID
		}
		if len(page) < retryPage {
			return all, nil
		}
	}
	all.Next = after
	return all, nil
}

// retry retries one dead letter, and repeats it after concurrent rule changes. A summary is refused and stays as it is.
func (l *DeadLetters) retry(ctx context.Context, letter futurejobs.DeadLetter) (Retried, error) {
	if letter.Summarized > 0 {
		return Retried{Tried: 1, Refused: 1, Reason: eventsGone(letter)}, nil
	}
	for range ruleTries {
		b := l.fold(letter)
		done, err := l.Apply(ctx, b)
		if errors.Is(err, futurejobs.ErrRefused) {
			b.Effects = nil
			b.DeadLetters = []futurejobs.DeadLetter{again(letter, futurejobs.Refusal{Rule: letter.Rule, Reason: err.Error()}, l.Now())}
			done, err = l.Apply(ctx, b)
		}
		switch {
		case err == nil:
			fresh := len(b.DeadLetters)
			if done.RefusedAgain != "" { // it was counted at its first rejection
				fresh, done.Refused = 0, 0
			}
			observe(l.Observer, done, fresh, 0)
			return retried(done), nil
		case !errors.Is(err, futurejobs.ErrRulesChanged):
			return Retried{}, fmt.Errorf("retry: %w", err)
		}
		if err := l.Catalog.Refresh(ctx); err != nil {
			return Retried{}, fmt.Errorf("refresh the rules: %w", err)
		}
	}
	return Retried{}, futurejobs.ErrRulesChanged
}

// fold matches a dead letter's event against the current rules.
func (l *DeadLetters) fold(letter futurejobs.DeadLetter) futurejobs.EffectBatch {
	b := futurejobs.EffectBatch{RuleSet: l.Catalog.Revision(), AuditAction: futurejobs.ActionRetry, Letter: &letter}
	var refusals []futurejobs.Refusal
	switch {
	case letter.Size > MaxBody:
		refusals = []futurejobs.Refusal{{Rule: letter.Rule, Reason: BodyTooLarge(letter.Size)}}
	case letter.Size > 0:
		refusals = []futurejobs.Refusal{{Rule: letter.Rule, Reason: bodyGone(letter)}}
	default:
		b.Effects, refusals = l.Catalog.MatchDeadLetter(letter)
	}
	for _, r := range refusals {
		b.DeadLetters = append(b.DeadLetters, again(letter, r, l.Now()))
	}
	return b
}

// bodyGone returns the reason that a dead letter without its body can't be retried.
func bodyGone(letter futurejobs.DeadLetter) string {
	return fmt.Sprintf("the body of %d bytes was removed, as only the newest dead letters of a rule keep theirs; publish the event again (it was message %d of stream %s)",
		letter.Size, letter.Event.Seq, letter.Event.Stream)
}

// eventsGone returns the reason that a summary can't be retried.
func eventsGone(letter futurejobs.DeadLetter) string {
	return fmt.Sprintf("it is a summary of %d refused events, which are not kept; publish them again: they were among messages %d to %d of stream %s",
		letter.Summarized, letter.Event.Seq, letter.LastSeq, letter.Event.Stream)
}

// again returns the dead letter of an event that was rejected again.
func again(letter futurejobs.DeadLetter, r futurejobs.Refusal, now time.Time) futurejobs.DeadLetter {
	if r.Rule == letter.Rule {
		r.Rules = letter.Several()
	}
	fresh := futurejobs.NewDeadLetter(letter.Event, r, now)
	fresh.Size = letter.Size
	return fresh
}

func retried(done futurejobs.ApplyResult) Retried {
	if done.RefusedAgain == "" {
		return Retried{Tried: 1, TakenIn: 1}
	}
	return Retried{Tried: 1, Refused: 1, Reason: done.RefusedAgain}
}
