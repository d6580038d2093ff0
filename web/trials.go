package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Bounds of lints and previews, which make the node work for who may only read.
const (
	trialsAtOnce  = 2 // of the node, one of a token
	trialsWaiting = 4 // of a token, beside the one at work
	trialWait     = 20 * time.Second
)

// trials lets lints and previews in: one of a token at a time, and a few of all. Its zero value is ready to be used.
type trials struct {
	mu    sync.Mutex
	turns chan struct{}
	lines map[string]*trialLine // by the id of the token; empty: without one
}

// trialLine is the trials of one token.
type trialLine struct {
	turn  chan struct{}
	among int // that wait or are at work
}

// of is the line of a token with one more in it, or nil where it is full.
func (t *trials) of(token string) *trialLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turns == nil {
		t.turns, t.lines = make(chan struct{}, trialsAtOnce), make(map[string]*trialLine)
	}
	line := t.lines[token]
	if line == nil {
		line = &trialLine{turn: make(chan struct{}, 1)}
		t.lines[token] = line
	}
	if line.among > trialsWaiting {
		return nil
	}
	line.among++
	return line
}

func (t *trials) leave(token string, line *trialLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line.among--; line.among == 0 {
		delete(t.lines, token)
	}
}

// enter waits for a turn of the visitor's token, and then for one of the node. leave gives both back.
func (t *trials) enter(ctx context.Context) (leave func(), err error) {
	token := visitorOf(ctx).token.ID
	line := t.of(token)
	if line == nil {
		return nil, problem(http.StatusTooManyRequests, "%d lints and previews of this token are at work or wait; send the next one once one of them is answered", trialsWaiting+1)
	}
	limited, cancel := context.WithTimeout(ctx, trialWait)
	defer cancel()
	taken := 0
	turns := []chan struct{}{line.turn, t.turns}
	leave = func() {
		for _, turn := range turns[:taken] {
			<-turn
		}
		t.leave(token, line)
	}
	for _, turn := range turns {
		select {
		case turn <- struct{}{}:
			taken++
		case <-limited.Done():
			leave()
			return nil, trialLate(ctx)
		}
	}
	return leave, nil
}

// trialLate is why a trial was not let in in time.
func trialLate(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return problem(http.StatusServiceUnavailable, "other lints and previews are at work, and none of them ended in time; try again")
}

// inTurn answers requests when it is their turn.
func inTurn[In, T any](t *trials, do func(context.Context, *In) (T, error)) func(context.Context, *In) (T, error) {
	return func(ctx context.Context, in *In) (answer T, err error) {
		leave, err := t.enter(ctx)
		if err != nil {
			return answer, err
		}
		defer leave()
		return do(ctx, in)
	}
}
