package web_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

// waitForCount polls until a number of ended jobs is counted.
func waitForCount(t *testing.T, s *fixture, query string, want int64) web.Outcomes {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		got := get[web.Outcomes](t, s.Server, "/api/v1/history/outcomes"+query)
		if sumOf(got) == want && !got.CountedAt.IsZero() {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d jobs ended, want %d: %+v", query, sumOf(got), want, got)
		}
		<-time.NewTimer(50 * time.Millisecond).C
	}
}

func sumOf(o web.Outcomes) (sum int64) {
	for _, item := range o.Items {
		for _, n := range item.Outcomes {
			sum += n
		}
	}
	return sum
}

// TestOutcomes checks that outcomes are in the bucket of their time, by outcome, for the requested and visible rules.
func TestOutcomes(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{}`)
	s.alert("1", "it waits", time.Hour)
	s.resolve("1")
	s.createJob("2", time.Hour, `{}`)
	s.resolve("2")
	for query, width := range map[string]time.Duration{"": time.Hour, "?bucket=1d": 24 * time.Hour} {
		got := waitForCount(t, s, query, 2)
		if want := map[time.Duration]int{time.Hour: 24, 24 * time.Hour: 14}[width]; len(got.Items) != want || got.Bucket != width.Seconds() {
			t.Errorf("%s: %d buckets of %g s, want %d", query, len(got.Items), got.Bucket, want)
		}
		for _, item := range got.Items {
			if item.From.Sub(item.From.Truncate(width)) != 0 || len(item.Outcomes) > 0 && (item.Outcomes["resolved"] == 0 || s.now.Sub(item.From) > width+time.Minute) {
				t.Errorf("%s: %+v", query, item)
			}
		}
		if !got.CountedFrom.Before(got.From) && got.CountedFrom != got.From {
			t.Errorf("%s: counted from %s, and shown from %s", query, got.CountedFrom, got.From)
		}
		if len(got.SlowestChecks) != 1 || got.SlowestChecks[0].Key != "1" || got.SlowestChecks[0].Seconds != 0.0015 {
			t.Errorf("%s: the slowest are %+v", query, got.SlowestChecks)
		}
	}
	waitForCount(t, s, "?rule=order-unshipped&entity=order", 2)
	if other := waitForCount(t, s, "?rule=other", 0); len(other.SlowestChecks) != 0 {
		t.Errorf("of no rule: %+v", other)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/history/outcomes?bucket=2h", ""); a.StatusCode != 400 || !strings.Contains(a.body, "1h, 1d") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestOutcomesOfPrefix checks that a token with a prefix gets the outcomes of its own rules.
func TestOutcomesOfPrefix(t *testing.T) {
	s := newFixture(t, closedNode)
	s.createJob("1", time.Hour, `{}`)
	s.resolve("1")
	all, others := s.newToken("all", "", access.Read), s.newToken("theirs", "acme-*", access.Read)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		var got web.Outcomes
		failOn(t, json.Unmarshal([]byte(requestPath(t, s.Server, "GET", "/api/v1/history/outcomes", "", all...).body), &got))
		if sumOf(got) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", got)
		}
		<-time.NewTimer(50 * time.Millisecond).C
	}
	var got web.Outcomes
	failOn(t, json.Unmarshal([]byte(requestPath(t, s.Server, "GET", "/api/v1/history/outcomes", "", others...).body), &got))
	if sumOf(got) != 0 || got.CountedAt.IsZero() {
		t.Errorf("another's: %+v", got)
	}
}
