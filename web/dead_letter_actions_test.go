package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/web"
)

// writeDeadLetter stores an event as refused by the rule of the fixture, and returns its id.
func (s *fixture) writeDeadLetter(seq uint64, subject, body string) int64 {
	s.t.Helper()
	revision, err := s.store.Revision(s.t.Context())
	failOn(s.t, err)
	_, err = s.store.Apply(s.t.Context(), futurejobs.EffectBatch{RuleSet: revision, DeadLetters: []futurejobs.DeadLetter{{
		Event: futurejobs.Event{Stream: "DEADMAN_EVENTS", Subject: subject, Seq: seq, At: s.now, Data: []byte(body)},
		Rule:  "order-unshipped", Part: futurejobs.Triggers, Reason: "as the rule was then",
	}}})
	failOn(s.t, err)
	all, err := s.store.DeadLetters(s.t.Context(), futurejobs.Filter{Limit: 1})
	failOn(s.t, err)
	return all.Items[0].ID
}

// postFor sends a request and decodes a successful answer.
func postFor[T any](t *testing.T, s *fixture, method, path string) T {
	t.Helper()
	a := requestPath(t, s.Server, method, "/api/v1"+path, "")
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); a.StatusCode != 200 || err != nil {
		t.Fatalf("%s %s: %d %s", method, path, a.StatusCode, a.body)
	}
	return v
}

func TestDeadLettersAreRetried(t *testing.T) {
	s := newFixture(t)
	good := s.writeDeadLetter(1, "orders.created", `{"id": "1"}`)
	bad := s.writeDeadLetter(2, "orders.created", `{"number": "1"}`)
	retry := func(id int64) web.RetryResult {
		t.Helper()
		return postFor[web.RetryResult](t, s, "POST", fmt.Sprintf("/dead-letters/%d/retry", id))
	}
	if diff := cmp.Diff(web.RetryResult{Retried: 1, Processed: 1}, retry(good)); diff != "" {
		t.Errorf("a good one (-want +got):\n%s", diff)
	}
	get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1")
	if a := requestPath(t, s.Server, "POST", fmt.Sprintf("/api/v1/dead-letters/%d/retry", good), ""); a.StatusCode != 404 {
		t.Errorf("it exists after its retry succeeded: %d %s", a.StatusCode, a.body)
	}

	got := retry(bad)
	if got.Refused != 1 || got.Processed != 0 || got.Reason == "" {
		t.Errorf("a bad one: %+v", got)
	}
	left := get[web.DeadLetter](t, s.Server, fmt.Sprintf("/api/v1/dead-letters/%d", bad))
	if left.Retries != 1 || left.LastRetriedAt.IsZero() || left.Reason != got.Reason {
		t.Errorf("it stays as %+v", left)
	}

	s.writeDeadLetter(3, "orders.created", `{"id": "2"}`)
	s.writeDeadLetter(4, "orders.other", `{"id": "3"}`) // no rule subscribes to it by now
	all := postFor[web.RetryResult](t, s, "POST", "/dead-letters/retry?all=true")
	if diff := cmp.Diff(web.RetryResult{Retried: 3, Processed: 2, Refused: 1}, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/2")
	if some := postFor[web.RetryResult](t, s, "POST", fmt.Sprintf("/dead-letters/retry?rule=order-unshipped&after=%d", bad)); some.Retried != 0 {
		t.Errorf("after the last one: %+v", some)
	}
}

func TestDeadLettersAreDropped(t *testing.T) {
	s := newFixture(t)
	one := s.writeDeadLetter(1, "orders.created", `{}`)
	s.writeDeadLetter(2, "orders.shipped", `{}`)
	s.writeDeadLetter(3, "orders.created", `{}`)
	s.writeDeadLetter(4, "orders.changed", `{}`)
	path := fmt.Sprintf("/api/v1/dead-letters/%d", one)
	for _, want := range []int{204, 404} {
		if a := requestPath(t, s.Server, "DELETE", path, ""); a.StatusCode != want {
			t.Errorf("%d %s, want %d", a.StatusCode, a.body, want)
		}
	}
	for _, step := range []struct {
		query string
		want  int64
	}{{"subject=orders.shipped", 1}, {"rule=other", 0}, {"reason=as+the+rule", 0}, {"rule=order-unshipped&subject=orders.created", 1}, {"all=true", 1}, {"all=true", 0}} {
		if got := postFor[web.DropResult](t, s, "DELETE", "/dead-letters?"+step.query); got.Dropped != step.want {
			t.Errorf("%s: %d dropped, want %d", step.query, got.Dropped, step.want)
		}
	}
	done, _, err := s.store.Audit(t.Context(), access.AuditFilter{Action: "dead-letter.drop"})
	failOn(t, err)
	if len(done) != 4 || done[3].Object != fmt.Sprintf("dead-letter/%d", one) || done[1].Detail != "1 dropped of rule order-unshipped on orders.created" {
		t.Errorf("%d entries in the audit: %+v", len(done), done)
	}
}

// TestDeadLetterActionsNeedSelection checks that dead letters must be selected explicitly, and otherwise stay unchanged.
func TestDeadLetterActionsNeedSelection(t *testing.T) {
	s := newFixture(t)
	id := s.writeDeadLetter(1, "orders.created", `{"id": "1"}`)
	for _, request := range []string{"DELETE /dead-letters", "POST /dead-letters/retry"} {
		for _, query := range []string{"", "?all=false", "?all=true&rule=order-unshipped", "?rules=x"} {
			var method, path string
			_, err := fmt.Sscan(request, &method, &path)
			failOn(t, err)
			if a := requestPath(t, s.Server, method, "/api/v1"+path+query, ""); a.StatusCode != 400 || a.problem(t).Detail == "" {
				t.Errorf("%s%s: %d %s", request, query, a.StatusCode, a.body)
			}
		}
	}
	get[web.DeadLetter](t, s.Server, fmt.Sprintf("/api/v1/dead-letters/%d", id))
}

// TestPublishPredictsDeadLetters checks that an event that a rule cannot process is accepted, and its sender gets
// the refusal at once.
func TestPublishPredictsDeadLetters(t *testing.T) {
	s := newFixture(t)
	for body, refusals := range map[string]int{`{"id": "1"}`: 0, `{"number": "1"}`: 1} {
		a := requestPath(t, s.Server, "POST", "/api/v1/events/orders.created", body)
		var taken web.PublishResult
		failOn(t, json.Unmarshal([]byte(a.body), &taken))
		if a.StatusCode != 202 || len(taken.WouldDeadLetter) != refusals {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
		for _, r := range taken.WouldDeadLetter {
			if r.Rule != "order-unshipped" || r.Reason == "" {
				t.Errorf("%s: %+v", body, r)
			}
		}
	}
}

// TestDeadLetterSummaries checks that a summary names its events in the list, the reasons, its page and the refusal of a
// retry, and that it stays until it is dropped.
func TestDeadLetterSummaries(t *testing.T) {
	s := newFixture(t)
	limits := store.DefaultLetterLimits
	limits.Letters.Rule, limits.Period = 1, time.Hour
	s.store.BoundLetters(limits)
	whole := s.writeDeadLetter(1, "orders.created", `{"number": "1"}`)
	var summary int64
	for seq := range uint64(12) {
		summary = s.writeDeadLetter(seq+2, "orders.created", `{"number": "2"}`)
	}
	var all web.Page[web.DeadLetter]
	if all = get[web.Page[web.DeadLetter]](t, s.Server, "/api/v1/dead-letters"); len(all.Items) < 2 {
		t.Fatalf("letters: %+v", all.Items)
	}
	got, sum := all.Items[0], int64(0)
	for _, l := range all.Items {
		sum += l.Summarized
	}
	if sum != 12 || got.ID != summary || got.LastSeq != 13 || got.LastEventAt.IsZero() || got.Body != "" || got.Size != 0 || got.BodyOmitted {
		t.Errorf("%d events are summarized; the newest summary: %+v", sum, got)
	}
	if first := all.Items[len(all.Items)-1]; first.ID != whole || first.Summarized != 0 || first.LastSeq != 0 {
		t.Errorf("a letter of one event: %+v", first)
	}
	if reasons := get[web.DeadLetterReasons](t, s.Server, "/api/v1/dead-letters/reasons"); reasons.Items[0].Summarized != 12 || reasons.Items[0].Count != int64(len(all.Items)) {
		t.Errorf("reasons: %+v", reasons)
	}
	retried := postFor[web.RetryResult](t, s, "POST", fmt.Sprintf("/dead-letters/%d/retry", summary))
	if retried.Refused != 1 || !strings.Contains(retried.Reason, fmt.Sprintf("a summary of %d refused events", got.Summarized)) ||
		!strings.Contains(retried.Reason, fmt.Sprintf("messages %d to 13 of stream DEADMAN_EVENTS", got.Seq)) {
		t.Errorf("a retry: %+v", retried)
	}
	if after := get[web.DeadLetter](t, s.Server, fmt.Sprintf("/api/v1/dead-letters/%d", summary)); !cmp.Equal(got, after) {
		t.Errorf("a summary after its retry (-before +after):\n%s", cmp.Diff(got, after))
	}
	people := []string{"Accept", "text/html"}
	for path, want := range map[string]string{
		"/dead-letters": "summary of ", fmt.Sprintf("/dead-letters/%d", summary): "cannot be retried",
	} {
		page := requestPath(t, s.Server, "GET", path, "", people...)
		if page.StatusCode != 200 || !strings.Contains(page.body, want) {
			t.Errorf("%s: %d, without %q", path, page.StatusCode, want)
		}
		if path != "/dead-letters" && (strings.Contains(page.body, `value="retry"`) || !strings.Contains(page.body, `value="drop"`)) {
			t.Errorf("%s has a button to retry, or none to drop", path)
		}
	}
	if page := requestPath(t, s.Server, "GET", "/dead-letters", "", people...); !strings.Contains(page.body, "with summaries of 12 events") {
		t.Error("the reasons do not name the summarized events")
	}
	if a := requestPath(t, s.Server, "DELETE", fmt.Sprintf("/api/v1/dead-letters/%d", summary), ""); a.StatusCode != 204 {
		t.Errorf("a summary is not dropped: %d %s", a.StatusCode, a.body)
	}
}
