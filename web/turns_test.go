package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

// blockingRules blocks saves until the test releases them, or their caller disconnects.
type blockingRules struct {
	*rules.Registry
	atWork, most atomic.Int32
	entered      chan struct{}
	left         chan struct{}
	free         chan struct{}
}

func (s *blockingRules) Save(ctx context.Context, _ []byte, _ string, _ rules.SaveOptions) (rules.Change, error) {
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

// newLintFixture makes a fixture with blocking lints.
func newLintFixture(t *testing.T) (*fixture, *blockingRules) {
	slow := &blockingRules{free: make(chan struct{}), entered: make(chan struct{}, 100), left: make(chan struct{}, 100)}
	return newFixture(t, closedNode, func(o *web.Options, s *fixture) {
		slow.Registry = s.rules
		o.Rules = slow
	}), slow
}

// sendLint sends a lint, and reports its result.
func (s *fixture) sendLint(ctx context.Context, header []string, ended chan<- string) {
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/v1/rules/lint", strings.NewReader("name: x"))
	failOn(s.t, err)
	r.Header.Set(header[0], header[1])
	s.sendRequest(r, ended)
}

// sendRequest sends a request, and reports its result.
func (s *fixture) sendRequest(r *http.Request, ended chan<- string) {
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

// TestLintsAreSerialized checks that one lint of a token runs at a time, a few wait, and more are refused, and that two of
// all tokens run at once.
func TestLintsAreSerialized(t *testing.T) {
	s, slow := newLintFixture(t)
	const tokens, each, allowed = 3, 8, 5
	answers := make([]chan string, tokens)
	for i := range answers {
		answers[i] = make(chan string, each)
		header := s.newToken(fmt.Sprintf("t%d", i), "", access.Read)
		for range each {
			s.sendLint(t.Context(), header, answers[i])
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

// TestSavesAreSerialized checks that one save of a token runs at a time, some wait, and more are refused, and that another
// token's save does not wait for them.
func TestSavesAreSerialized(t *testing.T) {
	s, slow := newLintFixture(t)
	const each, allowed = 20, 16
	save := func(header []string, ended chan<- string) {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/api/v1/rules/acme-x?dry_run=true&since=2026-01-01T00:00:00Z", strings.NewReader("name: acme-x"))
		failOn(t, err)
		r.Header.Set(header[0], header[1])
		r.Header.Set("Content-Type", "application/yaml")
		s.sendRequest(r, ended)
	}
	first, other := make(chan string, each), make(chan string, 1)
	header := s.newToken("acme", "acme-*", access.Rules)
	for range each {
		save(header, first)
	}
	for range each - allowed {
		if answer := <-first; !strings.HasPrefix(answer, "429 urn:deadman:problem:too-many-requests retry 1 ") {
			t.Errorf("one too many: %s", answer)
		}
	}
	<-slow.entered
	save(s.newToken("other", "", access.Rules), other)
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

// TestLintEndsWithCaller checks that a lint ends when its caller disconnects, running or waiting.
func TestLintEndsWithCaller(t *testing.T) {
	s, slow := newLintFixture(t)
	header, ended := s.newToken("t", "", access.Read), make(chan string, 3)
	ctx, leave := context.WithCancel(t.Context())
	for range 3 {
		s.sendLint(ctx, header, ended)
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
	s.sendLint(t.Context(), header, ended)
	if answer := <-ended; !strings.HasPrefix(answer, "200 ") {
		t.Errorf("the next one: %s", answer)
	}
}

// TestLintsOfTenantsAreSerialized checks that more tokens give a tenant no more places, and that the lints of tenants leave
// one for others.
func TestLintsOfTenantsAreSerialized(t *testing.T) {
	s, slow := newLintFixture(t)
	const each, allowed = 8, 5
	ended := make(chan string, 2*each)
	for _, name := range []string{"acme1", "acme-b"} {
		header := s.newToken(name, "acme-*", access.Read)
		for range each {
			s.sendLint(t.Context(), header, ended)
		}
	}
	for range 2*each - allowed {
		if answer := <-ended; !strings.HasPrefix(answer, "429 urn:deadman:problem:too-many-requests retry 1 ") {
			t.Errorf("one too many: %s", answer)
		}
	}
	zenith, operator := make(chan string, 1), make(chan string, 1)
	s.sendLint(t.Context(), s.newToken("zenith", "zenith-*", access.Read), zenith)
	<-slow.entered
	s.sendLint(t.Context(), s.newToken("operator", "", access.Read), operator)
	<-slow.entered
	if now := slow.atWork.Load(); now != 2 {
		t.Errorf("%d lints are at work", now)
	}
	close(slow.free)
	for _, answers := range []chan string{operator, zenith} {
		if answer := <-answers; !strings.HasPrefix(answer, "200 ") {
			t.Errorf("another's: %s", answer)
		}
	}
	for range allowed {
		<-ended
	}
}

// blockingJobActions blocks checks by hand until the test releases them, and counts those of tokens with the name orders….
type blockingJobActions struct {
	*fixture
	entered, free chan struct{}
	atWork, most  *atomic.Int32
}

func (d blockingJobActions) Check(ctx context.Context, _, _ string) (web.CheckResult, error) {
	if strings.HasPrefix(access.ActorOf(ctx).Name, "orders") {
		now := d.atWork.Add(1)
		defer d.atWork.Add(-1)
		for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); {
			most = d.most.Load()
		}
	}
	d.entered <- struct{}{}
	<-d.free
	return web.CheckResult{}, nil
}

// TestManualChecksOfTenantAreSerialized checks that two checks by hand of a tenant run at a time, some wait, and more are
// refused, and that those of others run at once.
func TestManualChecksOfTenantAreSerialized(t *testing.T) {
	const each, allowed, running = 10, 16, 2
	slow := blockingJobActions{entered: make(chan struct{}, 100), free: make(chan struct{}), atWork: new(atomic.Int32), most: new(atomic.Int32)}
	s := newFixture(t, closedNode, func(o *web.Options, s *fixture) {
		slow.fixture = s
		o.JobActions = slow
	})
	check := func(header []string, ended chan<- string) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/api/v1/jobs/order-unshipped/1/check", nil)
		failOn(t, err)
		r.Header.Set(header[0], header[1])
		s.sendRequest(r, ended)
	}
	tenants, operators := make(chan string, 2*each), make(chan string, each)
	for _, name := range []string{"orders1", "orders-b"} {
		header := s.newToken(name, "order-*", access.Rules)
		for range each {
			check(header, tenants)
		}
	}
	for range 2*each - allowed {
		if answer := <-tenants; !strings.HasPrefix(answer, "429 urn:deadman:problem:too-many-requests retry 1 ") {
			t.Errorf("one too many: %s", answer)
		}
	}
	for range running {
		<-slow.entered
	}
	operator := s.newToken("operator", "", access.Rules)
	for range each {
		check(operator, operators)
	}
	for range each {
		<-slow.entered
	}
	close(slow.free)
	for _, answers := range []struct {
		of     chan string
		number int
	}{{operators, each}, {tenants, allowed}} {
		for range answers.number {
			if answer := <-answers.of; !strings.HasPrefix(answer, "200 ") {
				t.Errorf("one that waited: %s", answer)
			}
		}
	}
	if most := slow.most.Load(); most != running {
		t.Errorf("%d checks of the tenant were at work at a time, want %d", most, running)
	}
}

// usedUpJobActions refuses checks by hand, as for a tenant whose allowance is used up.
type usedUpJobActions struct{ *fixture }

func (usedUpJobActions) Check(context.Context, string, string) (web.CheckResult, error) {
	return web.CheckResult{}, &futurejobs.UsedUpError{Tenant: "order-*", After: 7 * time.Second}
}

// TestCheckBeyondAllowanceIsRefused checks the answer to a check by hand of a tenant whose allowance is used up.
func TestCheckBeyondAllowanceIsRefused(t *testing.T) {
	s := newFixture(t, closedNode, func(o *web.Options, s *fixture) { o.JobActions = usedUpJobActions{s} })
	a := requestPath(t, s.Server, "POST", "/api/v1/jobs/order-unshipped/1/check", "", s.newToken("orders", "order-*", access.Rules)...)
	if p := a.problem(t); a.StatusCode != 429 || a.Header.Get("Retry-After") != "7" || p.Type != web.TooManyRequests.URN() || !strings.Contains(p.Detail, "order-*") {
		t.Errorf("%d retry %s %+v", a.StatusCode, a.Header.Get("Retry-After"), p)
	}
}
