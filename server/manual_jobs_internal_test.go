package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"deadman/rules/document"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/guards"
	"deadman/internal/access"
	"deadman/internal/bus/bustest"
	"deadman/rules"
	"deadman/web"
)

// openNode returns an embedded node that does not run, until the end of the test.
func openNode(t *testing.T) *node {
	t.Helper()
	n, err := newNode(t.Context(), Config{DataDir: bustest.Dir(t), NATSAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// An action on a job that changed concurrently is retried; it returns not found only if the job is gone.
func TestActionOnJobThatChangesConcurrently(t *testing.T) {
	n := openNode(t)
	const text = "name: late\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 3h}]\n"
	if _, err := n.rules.Save(t.Context(), []byte(text), "", rules.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.jobs.Create(t.Context(), web.NewJob{Rule: "late", Key: "1"}); err != nil {
		t.Fatal(err)
	}
	var wrong document.Problems
	if _, err := n.jobs.Snooze(t.Context(), "late", "1", futurejobs.FarFuture.Add(futurejobs.Day)); !errors.As(err, &wrong) {
		t.Errorf("a snooze beyond the last time of a check: %v", err)
	}
	// requested ends the job as read, after concurrent changes during the first attempts.
	requested := func(ctx context.Context, meanwhile func() error, times int) (queries int, err error) {
		err = n.jobs.applyToJob(ctx, access.JobCheck, "late", "1", func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
			if queries++; queries <= times {
				if err := meanwhile(); err != nil {
					return nil, err
				}
			}
			return &futurejobs.Effect{Rule: r, Ref: j.Ref, Rev: &j.Rev, Action: futurejobs.End{Outcome: "cleared"}}, nil
		})
		return queries, err
	}
	snooze := func() error {
		_, err := n.jobs.Snooze(t.Context(), "late", "1", time.Now().Add(time.Hour))
		return err
	}
	if queries, err := requested(t.Context(), snooze, 99); queries != maxConflictRetries || !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("queried %d times: %v, want ErrMoved after all tries", queries, err)
	}
	if queries, err := requested(t.Context(), snooze, 1); queries != 2 || err != nil {
		t.Errorf("queried %d times: %v", queries, err)
	}
	if _, err := requested(t.Context(), snooze, 0); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("of a job that ended: %v", err)
	}
}

// exhaustedAllowance is the allowance of a tenant that is used up for a minute.
type exhaustedAllowance struct{}

func (exhaustedAllowance) Tenant() string                     { return "acme-*" }
func (exhaustedAllowance) IsUsedUp(time.Time) bool            { return true }
func (exhaustedAllowance) HasRecovered(time.Time) bool        { return false }
func (exhaustedAllowance) RecoversIn(time.Time) time.Duration { return time.Minute }
func (exhaustedAllowance) Spent() int64                       { return 0 }

// A check by hand is refused for a tenant whose allowance is used up, and never for a client without a prefix.
func TestAllowanceRefusesManualChecksOfTenantsOnly(t *testing.T) {
	requests := 0
	r := &futurejobs.Rule{Allowance: exhaustedAllowance{}, Limits: guards.Limits{Timeout: time.Minute}, Handler: checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
		requests++
		return checks.Answer{Outcome: checks.Cleared}, nil
	})}
	for name, c := range map[string]struct {
		bounds  *access.Bounds
		refused bool
	}{
		"no bounds": {nil, false}, "bounds without a prefix": {&access.Bounds{Token: "ops"}, false}, "a tenant": {&access.Bounds{Token: "acme", Prefix: "acme-"}, true},
	} {
		before := requests
		_, ends, err := checkNow(access.Within(t.Context(), c.bounds), r, futurejobs.Job{}, time.Now())
		var refusal *futurejobs.UsedUpError
		if errors.As(err, &refusal) != c.refused || ends == c.refused || (requests == before) != c.refused {
			t.Errorf("%s: ends %t, %v", name, ends, err)
		}
		if c.refused && (refusal.Tenant != "acme-*" || refusal.After != time.Minute) {
			t.Errorf("%+v", refusal)
		}
	}
}
