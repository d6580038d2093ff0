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

// inLine is an inline handler function, as rules are.
type inLine struct{ checks.HandlerFunc }

func (inLine) Inline() {}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// coarse is a rule with slots too far apart to wake the sweep soon.
const coarse = `
name: %s
entity: thing
trigger: {event: %s.created, key: event.id}
escalate: [{after: 10s, step: only, severity: error}]
slot: 1h
`

func TestAChangeOfTheRulesDelaysNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *engine
		var once sync.Once
		e = run(t, map[string]checks.Handler{
			"coarse": inLine{func(context.Context, checks.Check) (checks.Answer, error) {
				once.Do(func() { e.resolve(fmt.Sprintf(coarse, "coarse", "coarse")) })
				return checks.Answer{Outcome: checks.Exhausted}, nil
			}},
		}, fmt.Sprintf(coarse, "coarse", "coarse"))
		e.happen("coarse.created", "1")
		time.Sleep(time.Hour + 2*time.Second)
		if ended := e.ended(); len(ended) != 1 {
			t.Fatalf("%d jobs decided 2s after the slot, want 1", len(ended))
		}
	})
}

func TestUnreadableVersionDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := run(t, nil, fmt.Sprintf(noResolve, "odd", "odd"), fmt.Sprintf(noResolve, "fine", "fine"))
		e.odd("odd.created", keys(20)...)
		time.Sleep(time.Second) // the odd ones are due first
		e.happen("fine.created", keys(20)...)
		time.Sleep(15 * time.Second)
		if ended := e.ended(); len(ended) != 20 {
			t.Errorf("%d jobs of the rule that can be read were decided, want 20", len(ended))
		}
		if e.sweeper.Err() == nil {
			t.Error("an unreadable version is not reported")
		}
		if lag := e.sweeper.Lag(); lag < 4*time.Second {
			t.Errorf("the sweep says that it is %s behind while jobs wait for their rule", lag)
		}
	})
}

// odd begins jobs of a version that does not exist.
func (e *engine) odd(subject string, keys ...string) {
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

func TestANodeWithoutShardsIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := run(t, nil, fmt.Sprintf(noResolve, "fine", "fine"))
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
			t.Errorf("a node that holds no shard says that it is %s behind", lag)
		}
	})
}
