package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// retryAtOnce bounds how many dead letters one call tries again, and retryPage how many of
// them are in memory.
const (
	retryAtOnce = 500
	retryPage   = 50
)

// DeadLetterMatcher says what the event of a dead letter means by now. rules.Catalog implements it.
type DeadLetterMatcher interface {
	MatchDeadLetter(l futurejobs.DeadLetter) ([]futurejobs.Effect, []futurejobs.Refusal)
	Revision() int64
	Refresh(ctx context.Context) error
}

// DeadLetterStore keeps dead letters. One that is not there is futurejobs.ErrNotFound.
// Implementations are safe for concurrent use.
type DeadLetterStore interface {
	DeadLetter(ctx context.Context, id int64) (futurejobs.DeadLetter, error)
	// LettersAfter returns up to limit letters of a filter that follow an id, oldest first.
	LettersAfter(ctx context.Context, f futurejobs.Filter, after int64, limit int) ([]futurejobs.DeadLetter, error)
	// Apply is futurejobs.EffectStore's.
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	DropLetter(ctx context.Context, id int64) error
	// DropLetters returns how many there were.
	DropLetters(ctx context.Context, f futurejobs.Filter) (int64, error)
}

// DeadLetters are the events that could not be taken in, for another try.
type DeadLetters struct {
	DeadLetterStore
	Book     DeadLetterMatcher
	Now      func() time.Time
	Observer Observer // may be nil
}

// Retried is what another try of dead letters came to.
type Retried struct {
	Tried   int
	TakenIn int // and gone
	Refused int // again; they stay
	Reason  string
	Next    int64 // the last letter that was tried, where there are more; 0: that was all
}

// Retry asks the rules as they are now what the event of a dead letter means, and takes it in,
// once: the letter goes in the same transaction. Where it is refused again, the letter stays
// with the new reason. It returns futurejobs.ErrNotFound where there is no such letter.
//
// It comes late: what came after the event was taken in without it, and is not taken in again.
func (l *DeadLetters) Retry(ctx context.Context, id int64) (Retried, error) {
	letter, err := l.DeadLetter(ctx, id)
	if err != nil {
		return Retried{}, err
	}
	if err := l.Book.Refresh(ctx); err != nil {
		return Retried{}, fmt.Errorf("look at the rules: %w", err)
	}
	return l.retry(ctx, letter)
}

// RetryAll retries the letters of a filter that follow an id, oldest first, as many as fit
// into one call. Those that somebody else took away meanwhile are left out.
func (l *DeadLetters) RetryAll(ctx context.Context, f futurejobs.Filter, after int64) (all Retried, err error) {
	if err := l.Book.Refresh(ctx); err != nil {
		return all, fmt.Errorf("look at the rules: %w", err)
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

// retry tries one letter, again while the rules change meanwhile.
func (l *DeadLetters) retry(ctx context.Context, letter futurejobs.DeadLetter) (Retried, error) {
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
			if done.Again != "" { // it was counted when it was refused first
				fresh, done.Refused = 0, 0
			}
			observe(l.Observer, done, fresh, 0)
			return retried(done), nil
		case !errors.Is(err, futurejobs.ErrRulesChanged):
			return Retried{}, fmt.Errorf("retry: %w", err)
		}
		if err := l.Book.Refresh(ctx); err != nil {
			return Retried{}, fmt.Errorf("look at the rules: %w", err)
		}
	}
	return Retried{}, futurejobs.ErrRulesChanged
}

// fold asks the rules what a letter's event means now.
func (l *DeadLetters) fold(letter futurejobs.DeadLetter) futurejobs.EffectBatch {
	b := futurejobs.EffectBatch{RuleSet: l.Book.Revision(), AuditAction: futurejobs.DeedRetry, Letter: &letter}
	var refusals []futurejobs.Refusal
	switch {
	case letter.Size > MaxBody:
		refusals = []futurejobs.Refusal{{Rule: letter.Rule, Reason: BodyTooLarge(letter.Size)}}
	case letter.Size > 0:
		refusals = []futurejobs.Refusal{{Rule: letter.Rule, Reason: bodyGone(letter)}}
	default:
		b.Effects, refusals = l.Book.MatchDeadLetter(letter)
	}
	for _, r := range refusals {
		b.DeadLetters = append(b.DeadLetters, again(letter, r, l.Now()))
	}
	return b
}

// bodyGone is why a letter cannot be tried again whose body was not kept.
func bodyGone(letter futurejobs.DeadLetter) string {
	return fmt.Sprintf("the body of %d bytes was removed, as only the newest dead letters of a rule keep theirs; publish the event again (it was message %d of stream %s)",
		letter.Size, letter.Event.Seq, letter.Event.Stream)
}

// again is the letter of an event that was refused once more.
func again(letter futurejobs.DeadLetter, r futurejobs.Refusal, now time.Time) futurejobs.DeadLetter {
	return futurejobs.DeadLetter{Event: letter.Event, Rule: r.Rule, Part: r.Part, Reason: r.Reason, Size: letter.Size, At: now}
}

func retried(done futurejobs.ApplyResult) Retried {
	if done.Again == "" {
		return Retried{Tried: 1, TakenIn: 1}
	}
	return Retried{Tried: 1, Refused: 1, Reason: done.Again}
}
