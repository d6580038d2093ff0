package web_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/web"
)

const idempotentJob = `{"rule": "order-unshipped", "key": "1"}`

func TestIdempotencyKey(t *testing.T) {
	s := newFixture(t)
	post := func(key, path, body string) answer {
		t.Helper()
		return requestPath(t, s.Server, "POST", path, body, "Idempotency-Key", key)
	}
	first := post("k", "/api/v1/jobs", idempotentJob)
	again := post("k", "/api/v1/jobs", idempotentJob)
	decodeJob(t, first, 201)
	if again.StatusCode != 201 || again.body != first.body || again.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" ||
		again.Header.Get("Content-Type") != "application/json" {
		t.Errorf("again: %d %v %s", again.StatusCode, again.Header, again.body)
	}
	checkProblem(t, post("k", "/api/v1/jobs", `{"rule": "order-unshipped", "key": "2"}`), 422, web.IdempotencyConflict, "another body")
	checkProblem(t, post("other", "/api/v1/jobs", idempotentJob), 409, web.Conflict, "already")
	if page := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs"); len(page.Items) != 1 {
		t.Errorf("%d jobs", len(page.Items))
	}

	// The path and the query are part of the key.
	made := post("k", "/api/v1/rules?dry_run=true", paidRule)
	if c := decodeChange(t, made, 200); !c.DryRun {
		t.Errorf("%+v", c)
	}
	made = post("k", "/api/v1/rules", paidRule)
	again = post("k", "/api/v1/rules", paidRule)
	if decodeChange(t, made, 201); again.StatusCode != 201 || again.Header.Get("ETag") != `"1"` || again.Header.Get("Location") != "/api/v1/rules/paid" {
		t.Errorf("a rule again: %d %v", again.StatusCode, again.Header)
	}

	// A refused request was not executed, and may be corrected under its key.
	checkProblem(t, post("mend", "/api/v1/jobs", `{"rule": "absent", "key": "3"}`), 404, web.NotFound)
	decodeJob(t, post("mend", "/api/v1/jobs", `{"rule": "order-unshipped", "key": "3"}`), 201)

	checkProblem(t, post(strings.Repeat("k", 257), "/api/v1/jobs", idempotentJob), 400, web.BadRequest, "header.Idempotency-Key", "256")
	checkProblem(t, post("large", "/api/v1/jobs", strings.Repeat(" ", 256<<10+1)), 413, web.TooLarge)
}

// TestIdempotencyKeyIsPerActor checks that two actors may use the same key.
func TestIdempotencyKeyIsPerActor(t *testing.T) {
	s := newFixture(t, closedNode)
	one, other := s.newToken("one", "", access.Rules), s.newToken("other", "", access.Rules)
	if a := requestPath(t, s.Server, "POST", "/api/v1/rules/order-unshipped/pause", "", append([]string{"Idempotency-Key", "k"}, one...)...); a.StatusCode != 200 {
		t.Fatal(a.body)
	}
	a := requestPath(t, s.Server, "POST", "/api/v1/rules/order-unshipped/pause", "", append([]string{"Idempotency-Key", "k"}, other...)...)
	if a.StatusCode != 200 || a.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another actor gets the answer of the first: %d %v", a.StatusCode, a.Header)
	}
}

// TestIdempotencyKeyOfRunningRequest checks that a repeat of a running request is refused, and that a panic frees the key.
func TestIdempotencyKeyOfRunningRequest(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := newFixture(t, func(o *web.Options, s *fixture) {
		o.JobActions = &slowJobActions{fixture: s, entered: entered, release: leave}
	})
	post := func() answer {
		return requestPath(t, s.Server, "POST", "/api/v1/jobs", idempotentJob, "Idempotency-Key", "k")
	}
	first := make(chan answer, 1)
	go func() { first <- post() }()
	<-entered
	checkProblem(t, post(), 409, web.IdempotencyConflict, "still")
	leave <- struct{}{}
	if a := <-first; a.StatusCode != 500 {
		t.Fatalf("the first is to fail: %d %s", a.StatusCode, a.body)
	}
	go func() { first <- post() }()
	<-entered
	leave <- struct{}{}
	if a := <-first; a.StatusCode != 201 {
		t.Errorf("the key is not free again: %d %s", a.StatusCode, a.body)
	}
	var j web.Job
	if a := post(); json.Unmarshal([]byte(a.body), &j) != nil || j.Key != "1" || a.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the answer is not kept: %s", a.body)
	}
}

// slowJobActions applies the actions of a fixture slowly, and fails once.
type slowJobActions struct {
	*fixture
	entered, release chan struct{}
	failed           bool
}

func (d *slowJobActions) Create(ctx context.Context, j web.NewJob) (futurejobs.ListedJob, error) {
	d.entered <- struct{}{}
	<-d.release
	if !d.failed {
		d.failed = true
		panic("broken on purpose")
	}
	return d.fixture.Create(ctx, j)
}

func TestIdempotencyKeyWithoutStore(t *testing.T) {
	checkProblem(t, requestPath(t, newBareNode(t, web.Options{}), "POST", "/api/v1/jobs", idempotentJob, "Idempotency-Key", "k"), 400, web.BadRequest, "does not support idempotency keys")
}
