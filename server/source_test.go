package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/rules"
)

// shelf is a source with the same value for all entities, until the value is replaced.
type shelf struct {
	mu    sync.Mutex
	found checks.Finding
}

var (
	_ rules.Source  = (*shelf)(nil)
	_ rules.Sources = (*shelf)(nil)
)

// Words of a timeline in place of a source's value.
const (
	noEntity = "nothing" // no such entity
	noAnswer = "no answer"
)

// put sets the value from a timeline.
func (s *shelf) put(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch text {
	case noEntity:
		s.found = checks.Finding{}
	case noAnswer:
		s.found = checks.Finding{Err: &checks.Outage{Source: "shop", Err: errors.New("connection refused")}}
	default:
		s.found = checks.Finding{Value: json.RawMessage(text)}
	}
}

func (s *shelf) Source(string) (rules.Source, bool) { return s, true }
func (s *shelf) Names() []string                    { return []string{"shop"} }
func (s *shelf) Enter() bool                        { return true }

func (s *shelf) Query(_ context.Context, _ time.Duration, _ lookup.Question, queries []lookup.KeyQuery) []checks.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]checks.Finding, len(queries))
	for i := range found {
		found[i] = s.found
	}
	return found
}

func (s *shelf) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, nil
}

func (s *shelf) Reach(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found.Err
}
