package futurejobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// inlineFunc is an inline handler function, as rules are.
type inlineFunc struct{ checks.HandlerFunc }

func (inlineFunc) Inline() {}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// coarseRule is a rule with slots too far apart to wake the sweep soon.
const coarseRule = `
name: %s
entity: thing
trigger: {event: %s.created, key: event.id}
escalate: [{after: 10s, step: only, severity: error}]
slot: 1h
`

func TestChangeOfRulesDelaysNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *engine
		var once sync.Once
		e = startEngine(t, map[string]checks.Handler{
			"coarse": inlineFunc{func(context.Context, checks.Check) (checks.Answer, error) {
				once.Do(func() { e.resolve(fmt.Sprintf(coarseRule, "coarse", "coarse")) })
				return checks.Answer{Outcome: checks.Exhausted}, nil
			}},
		}, fmt.Sprintf(coarseRule, "coarse", "coarse"))
		e.publish("coarse.created", "1")
		time.Sleep(time.Hour + 2*time.Second)
		if ended := e.ended(); len(ended) != 1 {
			t.Fatalf("%d jobs decided 2s after the slot, want 1", len(ended))
		}
	})
}

func TestUnreadableVersionDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, fmt.Sprintf(noResolve, "odd", "odd"), fmt.Sprintf(noResolve, "fine", "fine"))
		e.publishInvalid("odd.created", keys(20)...)
		time.Sleep(time.Second) // the odd ones are due first
		e.publish("fine.created", keys(20)...)
		time.Sleep(15 * time.Second)
		if ended := e.ended(); len(ended) != 20 {
			t.Errorf("%d jobs of the rule that can be read were decided, want 20", len(ended))
		}
		if e.sweeper.Err() == nil {
			t.Error("an unreadable version is not reported")
		}
		if lag := e.sweeper.Lag(); lag < 4*time.Second {
			t.Errorf("the sweep reports a lag of %s while jobs wait for their rule", lag)
		}
	})
}

// publishInvalid begins jobs of a version that does not exist.
func (e *engine) publishInvalid(subject string, keys ...string) {
	e.Helper()
	batch := futurejobs.EffectBatch{RuleSet: e.catalog.Revision()}
	for _, k := range keys {
		effects, _ := e.catalog.Match(futurejobs.Event{Stream: "S", Subject: subject, Seq: 1, At: time.Now().UTC(), Data: fmt.Appendf(nil, `{"id":%q}`, k)})
		for _, effect := range effects {
			start := effect.Action.(futurejobs.Start)
			start.Job.Version = 99
			effect.Action = start
			batch.Effects = append(batch.Effects, effect)
		}
	}
	if _, err := e.store.Apply(e.Context(), batch); err != nil {
		e.Fatal(err)
	}
}

func TestNodeWithoutShardsIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, fmt.Sprintf(noResolve, "fine", "fine"))
		time.Sleep(2500 * time.Millisecond)
		if err := e.store.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		leases, err := e.store.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			if _, ok, err := e.store.Take(t.Context(), "other", l.HeldShard, time.Hour); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		time.Sleep(10 * time.Minute)
		if lag := e.sweeper.Lag(); lag != 0 {
			t.Errorf("a node without shards reports a lag of %s", lag)
		}
	})
}
