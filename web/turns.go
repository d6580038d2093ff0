package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// turnWait is how long a request waits for its turn.
const turnWait = 20 * time.Second

// turns lets requests in that make a node work: one of a token at a time, and a few of all. It is safe for concurrent use.
type turns struct {
	what    string        // the requests, in a sentence
	waiting int           // how many of a token may wait beside the one at work
	node    chan struct{} // a place for each that is at work; nil: there is no bound of the node

	mu    sync.Mutex
	lines map[string]*turnLine // by the id of the token; empty: without one
}

// turnLine is the requests of one token.
type turnLine struct {
	turn  chan struct{}
	among int // that wait or are at work
}

// newTrials bounds lints and previews, which work for tokens that may only read.
func newTrials() *turns {
	return &turns{what: "lints and previews", waiting: 4, node: make(chan struct{}, 2), lines: make(map[string]*turnLine)}
}

// newSaves bounds saves of rules. Their work on the node is bounded by rules.Registry.
func newSaves() *turns {
	return &turns{what: "saves of rules", waiting: 15, lines: make(map[string]*turnLine)}
}

// of is the line of a token with one more in it, or nil where it is full.
func (t *turns) of(token string) *turnLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[token]
	if line == nil {
		line = &turnLine{turn: make(chan struct{}, 1)}
		t.lines[token] = line
	}
	if line.among > t.waiting {
		return nil
	}
	line.among++
	return line
}

func (t *turns) leave(token string, line *turnLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line.among--; line.among == 0 {
		delete(t.lines, token)
	}
}

// enter waits for a turn of the visitor's token, and then for one of the node. leave gives both back.
func (t *turns) enter(ctx context.Context) (leave func(), err error) {
	v := visitorOf(ctx)
	if v.open && t.node == nil {
		return func() {}, nil // an open node trusts all alike
	}
	token := v.token.ID
	line := t.of(token)
	if line == nil {
		return nil, problem(http.StatusTooManyRequests, "%d %s of this token are at work or wait; send the next one once one of them is answered", t.waiting+1, t.what)
	}
	limited, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	taken := 0
	places := []chan struct{}{line.turn}
	if t.node != nil {
		places = append(places, t.node)
	}
	leave = func() {
		for _, place := range places[:taken] {
			<-place
		}
		t.leave(token, line)
	}
	for _, place := range places {
		select {
		case place <- struct{}{}:
			taken++
		case <-limited.Done():
			leave()
			return nil, t.late(ctx)
		}
	}
	return leave, nil
}

// late is why a request was not let in in time.
func (t *turns) late(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return problem(http.StatusServiceUnavailable, "other %s are at work, and none of them ended in time; try again", t.what)
}

// inTurn answers requests when it is their turn.
func inTurn[In, T any](t *turns, do func(context.Context, *In) (T, error)) func(context.Context, *In) (T, error) {
	return func(ctx context.Context, in *In) (answer T, err error) {
		leave, err := t.enter(ctx)
		if err != nil {
			return answer, err
		}
		defer leave()
		return do(ctx, in)
	}
}
