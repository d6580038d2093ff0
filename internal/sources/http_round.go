package sources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"deadman/checks"
)

// httpRound is the state of one query of a service.
type httpRound struct {
	mu           sync.Mutex
	found        []checks.Finding
	answered     []bool
	answeredKeys int   // keys answered by the service, including errors about the key
	ailing       int   // keys not answered because of the service itself
	why          error // one of those errors
}

// maxServiceErrors is the number of failed keys, without any success, after which the remaining keys are not queried.
const maxServiceErrors = mostRequests

// serviceError is an error of the service, not of the key.
type serviceError struct{ error }

func (a serviceError) Unwrap() error { return a.error }

// answer records the finding of a key. A request cut off by the end of ctx is not an answer.
func (r *httpRound) answer(ctx context.Context, i int, f checks.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(f.Err, errNoAnswer) && ctx.Err() != nil:
		return
	case errors.As(f.Err, new(serviceError)):
		r.ailing++
		r.why = f.Err
	case errors.Is(f.Err, errPath): // no request was sent
	default:
		r.answeredKeys++
	}
	r.found[i], r.answered[i] = f, true
}

// shouldStop reports whether further requests are pointless.
func (r *httpRound) shouldStop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answeredKeys == 0 && r.ailing >= maxServiceErrors
}

// result returns the findings, or the error of the service if no key was answered.
func (r *httpRound) result(ctx context.Context) ([]checks.Finding, error) {
	partly := slices.Contains(r.answered, false)
	late := partly && ctx.Err() != nil
	switch {
	case r.answeredKeys == 0 && r.ailing > 0:
		return nil, r.why
	case late && r.answeredKeys == 0:
		return nil, errNoAnswer
	case late:
		if err := finish(r.found, func(i int) bool { return r.answered[i] }, errNoAnswer); err != nil {
			return nil, err
		}
	case partly: // the service recovered only after the round was given up
		for i := range r.found {
			if !r.answered[i] {
				r.found[i].Err = fmt.Errorf("%w, as it failed for %d others: %w", errNotQueried, r.ailing, r.why)
			}
		}
	}
	return r.found, nil
}
