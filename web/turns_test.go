package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

// slowRules blocks saves until the test releases them, or their caller disconnects.
type slowRules struct {
	*rules.Registry
	atWork, most atomic.Int32
	entered      chan struct{}
	left         chan struct{}
	free         chan struct{}
}

func (s *slowRules) Save(ctx context.Context, _ []byte, _ string, _ rules.SaveOptions) (rules.Change, error) {
	now := s.atWork.Add(1)
	defer s.atWork.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); {
		most = s.most.Load()
	}
	s.entered <- struct{}{}
	select {
	case <-s.free:
		return rules.Change{}, nil
	case <-ctx.Done():
		s.left <- struct{}{}
		return rules.Change{}, ctx.Err()
	}
}

// lints makes a stand with blocking lints.
func lints(t *testing.T) (*stand, *slowRules) {
	slow := &slowRules{free: make(chan struct{}), entered: make(chan struct{}, 100), left: make(chan struct{}, 100)}
	return newStand(t, closed, func(o *web.Options, s *stand) {
		slow.Registry = s.rules
		o.Rules = slow
	}), slow
}

// lint sends a lint, and reports its result.
func (s *stand) lint(ctx context.Context, header []string, ended chan<- string) {
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/v1/rules/lint", strings.NewReader("name: x"))
	fatal(s.t, err)
	r.Header.Set(header[0], header[1])
	s.send(r, ended)
}

// send sends a request, and reports its result.
func (s *stand) send(r *http.Request, ended chan<- string) {
	go func() {
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			ended <- err.Error()
			return
		}
		var p web.Problem
		err = json.NewDecoder(a.Body).Decode(&p)
		ended <- fmt.Sprint(a.StatusCode, " ", p.Type, " retry ", a.Header.Get("Retry-After"), " ", err, a.Body.Close())
	}()
}

// TestLintsTakeTurns checks that one lint of a token runs at a time, a few wait, and more are refused, and that two of
// all tokens run at once.
func TestLintsTakeTurns(t *testing.T) {
	s, slow := lints(t)
	const tokens, each, allowed = 3, 8, 5
	answers := make([]chan string, tokens)
	for i := range answers {
		answers[i] = make(chan string, each)
		header := s.token(fmt.Sprintf("t%d", i), "", access.Read)
		for range each {
			s.lint(t.Context(), header, answers[i])
		}
		for range each - allowed { // the others wait for their turns
			if answer := <-answers[i]; !strings.HasPrefix(answer, "429 urn:deadman:problem:too-many-requests retry 1 ") {
				t.Errorf("one too many: %s", answer)
			}
		}
	}
	<-slow.entered
	<-slow.entered
	close(slow.free)
	for i := range answers {
		for range allowed {
			if answer := <-answers[i]; !strings.HasPrefix(answer, "200 ") {
				t.Errorf("one that waited: %s", answer)
			}
		}
	}
	if most := slow.most.Load(); most != 2 {
		t.Errorf("%d were at work at a time", most)
	}
}

// TestSavesTakeTurns checks that one save of a token runs at a time, some wait, and more are refused, and that another
// token's save does not wait for them.
func TestSavesTakeTurns(t *testing.T) {
	s, slow := lints(t)
	const each, allowed = 20, 16
	save := func(header []string, ended chan<- string) {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/api/v1/rules/acme-x?dry_run=true&since=2026-01-01T00:00:00Z", strings.NewReader("name: acme-x"))
		fatal(t, err)
		r.Header.Set(header[0], header[1])
		r.Header.Set("Content-Type", "application/yaml")
		s.send(r, ended)
	}
	first, other := make(chan string, each), make(chan string, 1)
	header := s.token("acme", "acme-*", access.Rules)
	for range each {
		save(header, first)
	}
	for range each - allowed {
		if answer := <-first; !strings.HasPrefix(answer, "429 urn:deadman:problem:too-many-requests retry 1 ") {
			t.Errorf("one too many: %s", answer)
		}
	}
	<-slow.entered
	save(s.token("other", "", access.Rules), other)
	<-slow.entered // beside the first one
	close(slow.free)
	for range allowed {
		if answer := <-first; !strings.HasPrefix(answer, "200 ") {
			t.Errorf("one that waited: %s", answer)
		}
	}
	if answer := <-other; !strings.HasPrefix(answer, "200 ") {
		t.Errorf("another token's: %s", answer)
	}
	if most := slow.most.Load(); most != 2 {
		t.Errorf("%d were at work at a time", most)
	}
}

// TestALintEndsWithItsCaller checks that a lint ends when its caller disconnects, running or waiting.
func TestALintEndsWithItsCaller(t *testing.T) {
	s, slow := lints(t)
	header, ended := s.token("t", "", access.Read), make(chan string, 3)
	ctx, leave := context.WithCancel(t.Context())
	for range 3 {
		s.lint(ctx, header, ended)
	}
	<-slow.entered
	leave()
	for range 3 {
		if answer := <-ended; !strings.Contains(answer, "context canceled") {
			t.Errorf("a caller that left: %s", answer)
		}
	}
	<-slow.left
	close(slow.free)
	s.lint(t.Context(), header, ended)
	if answer := <-ended; !strings.HasPrefix(answer, "200 ") {
		t.Errorf("the next one: %s", answer)
	}
}
