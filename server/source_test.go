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

// stubSource is a source with the same value for all entities, until the value is replaced.
type stubSource struct {
	mu    sync.Mutex
	found checks.Finding
}

var (
	_ rules.Source  = (*stubSource)(nil)
	_ rules.Sources = (*stubSource)(nil)
)

// Words of a timeline in place of a source's value.
const (
	noEntity = "nothing" // no such entity
	noAnswer = "no answer"
)

// set sets the value from a timeline.
func (s *stubSource) set(text string) {
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

func (s *stubSource) Source(string) (rules.Source, bool) { return s, true }
func (s *stubSource) Names() []string                    { return []string{"shop"} }
func (s *stubSource) Enter() bool                        { return true }

func (s *stubSource) Query(_ context.Context, _ time.Duration, _ lookup.Question, queries []lookup.KeyQuery) []checks.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]checks.Finding, len(queries))
	for i := range found {
		found[i] = s.found
	}
	return found
}

func (s *stubSource) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, nil
}

func (s *stubSource) Reach(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found.Err
}
