package checks_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"deadman/checks"
)

// endsWith returns a handler that answers with a recognizable outcome.
func endsWith(as checks.Outcome) checks.Handler {
	return checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
		return checks.Answer{Outcome: as}, nil
	})
}

func TestHandlersAreFoundByName(t *testing.T) {
	handlers := &checks.Handlers{Fallback: func(name string) checks.Handler { return endsWith("elsewhere-" + checks.Outcome(name)) }}
	if err := handlers.Register("mine", endsWith("here")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]checks.Outcome{"mine": "here", "yours": "elsewhere-yours"} {
		if got, err := handlers.Lookup(name).Check(t.Context(), checks.Check{}); err != nil || got.Outcome != want {
			t.Errorf("%s: %q, %v; want %q", name, got.Outcome, err, want)
		}
	}
}

func TestMissingHandlerIsOutage(t *testing.T) {
	for name, handlers := range map[string]*checks.Handlers{"none": nil, "empty": {}} {
		_, err := handlers.Lookup("mine").Check(t.Context(), checks.Check{})
		var outage *checks.Outage
		if !errors.As(err, &outage) || outage.Source != "handler/mine" || !errors.Is(err, checks.ErrNoHandler) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A node has the handlers registered at its start. A later node has its own fallback, not that of the first node with
// its closed connection.
func TestNodeHasItsOwnFallback(t *testing.T) {
	var none *checks.Handlers
	mine := &checks.Handlers{}
	if err := mine.Register("mine", endsWith("here")); err != nil {
		t.Fatal(err)
	}
	for _, node := range []checks.Outcome{"first", "second"} {
		fallback := func(string) checks.Handler { return endsWith(node) }
		for which, want := range map[*checks.Handlers]map[string]checks.Outcome{
			none: {"mine": node, "yours": node},
			mine: {"mine": "here", "yours": node},
			{Fallback: func(string) checks.Handler { return endsWith("own") }}: {"yours": "own"},
		} {
			for name, outcome := range want {
				if got, err := which.With(fallback).Lookup(name).Check(t.Context(), checks.Check{}); err != nil || got.Outcome != outcome {
					t.Errorf("%s node, %s: %q, %v; want %q", node, name, got.Outcome, err, outcome)
				}
			}
		}
	}
	if err := mine.Register("late", endsWith("here")); err == nil || !strings.Contains(err.Error(), "a node runs with the handlers already") {
		t.Error(err)
	}
}

func TestRegisterRefuses(t *testing.T) {
	handlers := &checks.Handlers{}
	if err := handlers.Register("mine", endsWith("here")); err != nil {
		t.Fatal(err)
	}
	handlers.Lookup("wanted")
	for _, c := range []struct {
		name    string
		handler checks.Handler
		want    string
	}{
		{"", endsWith(""), "a name is 1 to 63"},
		{"Mine.*", endsWith(""), "a name is 1 to 63"},
		{"nothing", nil, "there is no handler"},
		{"mine", endsWith(""), "already registered"},
		{"wanted", endsWith(""), "before the node runs"},
	} {
		if err := handlers.Register(c.name, c.handler); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestHandlersAreUsedByMany(t *testing.T) {
	handlers := &checks.Handlers{}
	var registered sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		registered.Go(func() {
			if err := handlers.Register(name, endsWith(checks.Outcome(name))); err != nil {
				t.Error(err)
			}
			if got, err := handlers.Lookup(name).Check(t.Context(), checks.Check{}); err != nil || got.Outcome != checks.Outcome(name) {
				t.Errorf("%s: %q, %v", name, got.Outcome, err)
			}
		})
	}
	registered.Wait()
}
