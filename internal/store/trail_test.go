package store_test

import (
	"context"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// TestEndWithAlertHasNoTrailEntry checks that a job with one check, an alert and an end stores only its history and
// its alert.
func TestEndWithAlertHasNoTrailEntry(t *testing.T) {
	alerted := checks.Answer{Outcome: checks.Exhausted, Step: 1, Values: `state.status = "OPEN"`, Alerts: []alerts.Draft{{Status: alerts.Firing, Severity: alerts.Warning, Step: "primary"}}}
	silent := checks.Answer{Outcome: checks.Cleared, Values: alerted.Values}
	for name, open := range stores(t) {
		for _, c := range []struct {
			answer checks.Answer
			want   int // number of trails
		}{{alerted, 0}, {silent, 1}} {
			t.Run(name+"/"+string(c.answer.Outcome), func(t *testing.T) {
				l := newLoad(t, open(t))
				l.rule.Handler = checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) { return c.answer, nil })
				l.create(3)
				s := futurejobs.Settlement{Held: l.held, RuleSet: l.set}
				for _, j := range l.due() {
					s.Decisions = append(s.Decisions, new(l.rule.Check(t.Context(), j, j.NextCheckAt.Add(time.Second))))
				}
				if settled, err := l.Settle(t.Context(), s); err != nil || len(settled.Jobs) != 3 {
					t.Fatalf("settled %+v: %v", settled, err)
				}
				var ended, trails int
				if err := l.DB().QueryRowContext(t.Context(), `SELECT count(*), count(trail) FROM history`).Scan(&ended, &trails); err != nil {
					t.Fatal(err)
				}
				if ended != 3 || trails != 3*c.want {
					t.Errorf("%d jobs ended, %d with a trail; want 3, %d", ended, trails, 3*c.want)
				}
			})
		}
	}
}

// BenchmarkTrail moves jobs with a full trail to a later slot, with checks that add an entry and checks that add none.
// ns/op is per job.
func BenchmarkTrail(b *testing.B) {
	entry := futurejobs.Entry{
		Kind: futurejobs.Checked, At: time.Unix(1_800_000_000, 0), Lateness: 12 * time.Millisecond, Values: `state.status = "UNSHIPPED"`, Next: time.Unix(1_800_000_900, 0),
	}.Trail()
	for name, open := range stores(b) {
		for kind, trail := range map[string]futurejobs.Trail{"leaves": entry, "leaves none": ""} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				l := newLoad(b, open(b))
				l.create(benchBatch)
				for range futurejobs.TrailMost {
					l.writeTrails(entry)
				}
				b.ResetTimer()
				for n := 0; n < b.N; n += benchBatch {
					l.writeTrails(trail)
				}
			})
		}
	}
}

// writeTrails settles a check of each job that continues with an entry.
func (l *load) writeTrails(trail futurejobs.Trail) {
	l.tb.Helper()
	s := futurejobs.Settlement{Held: l.held, RuleSet: l.set}
	for _, j := range l.due() {
		j.NextCheckAt, j.Trail = j.NextCheckAt.Add(time.Second), trail
		s.Decisions = append(s.Decisions, &futurejobs.Decision{Job: j})
	}
	if settled, err := l.Settle(l.tb.Context(), s); err != nil || len(settled.Jobs) != benchBatch {
		l.tb.Fatalf("settled %d: %v", len(settled.Jobs), err)
	}
}
