package storetest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	futurejobs "deadman/future_jobs"
	"deadman/internal/longtest"
	"deadman/rules"
)

// model is the expected content of a store.
type model struct {
	*fixture
	pending  map[string]modelJob
	early    map[string]bool // early events without a job
	created  int64
	archived int64
	alerts   int
}

// modelJob is a job in the model.
type modelJob struct {
	Checks, Alerts int
	Paused         bool
	State          string
}

// The cases that rapid draws of the model on each database: each has about 30 operations. All tests with DEADMAN_TEST_LONG
// draw ten times as many as the short loop.
const (
	modelCases     = "6"
	modelCasesLong = "60"
)

// fewCases limits the cases of rapid to a number that suits two stores on a slow disk, unless -rapid.checks is set.
var fewCases = sync.OnceValue(func() error {
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "rapid.checks" })
	switch {
	case isSet:
		return nil
	case longtest.Enabled():
		return flag.Set("rapid.checks", modelCasesLong)
	}
	return flag.Set("rapid.checks", modelCases)
})

// balanceHolds runs random operations on a store and on the model, and compares them.
func balanceHolds(t *testing.T, w *fixture) {
	w.must(fewCases())
	runs := 0
	m := &model{fixture: w}
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m.pending, m.early = make(map[string]modelJob), make(map[string]bool) // keys are new in every run; the sums continue
		key := rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprintf("%d-%d", runs, rapid.IntRange(0, 5).Draw(rt, "key"))
		})
		rt.Repeat(map[string]func(*rapid.T){
			"":       m.compare,
			"events": func(rt *rapid.T) { m.events(rt, rapid.SliceOfN(key, 1, 6).Draw(rt, "keys")) },
			"settle": m.decide,
			"stale":  m.settleStale,
			"rules":  func(*rapid.T) { m.save(m.rule.Name, "order") },
			"pause":  m.pause,
			"delete": m.delete,
			"lost":   m.loseShard,
		})
		m.clear(rt)
	})
}

// manualActions has the effect of each action on the model; waits reports whether the key has a job.
var manualActions = map[string]func(m *model, key string, w modelJob, waits bool) futurejobs.Action{
	"start": func(m *model, key string, w modelJob, waits bool) futurejobs.Action {
		return m.startAction(key, w, waits, false)
	},
	"restart": func(m *model, key string, w modelJob, waits bool) futurejobs.Action {
		return m.startAction(key, w, waits, true)
	},
	"end": func(m *model, key string, w modelJob, waits bool) futurejobs.Action {
		if waits {
			m.end(key, w)
		} else {
			m.early[key] = true
		}
		return futurejobs.End{Outcome: "resolved", Close: resolvedEnd.Close, Early: time.Hour}
	},
	"update": func(m *model, key string, w modelJob, waits bool) futurejobs.Action {
		w.State = fmt.Sprintf(`{"n":%d}`, nextPlace.Add(1))
		m.storeJob(key, w, waits)
		return futurejobs.Update{Merge: func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(w.State), nil }}
	},
	"pause": func(m *model, key string, w modelJob, waits bool) futurejobs.Action {
		w.Paused = true
		m.storeJob(key, w, waits)
		return futurejobs.Pause{}
	},
	"resume": func(m *model, key string, w modelJob, waits bool) futurejobs.Action {
		w.Paused = false
		m.storeJob(key, w, waits)
		return futurejobs.Resume{}
	},
	"snooze": func(m *model, _ string, _ modelJob, _ bool) futurejobs.Action {
		return futurejobs.Snooze{Until: m.slot().Add(time.Hour)}
	},
}

// events applies one batch.
func (m *model) events(rt *rapid.T, keys []string) {
	var effects []futurejobs.Effect
	for _, key := range keys {
		play := rapid.SampledFrom(slices.Sorted(maps.Keys(manualActions))).Draw(rt, "play")
		w, waits := m.pending[key]
		effects = append(effects, actionEffect(m.fixture, m.rule, key, m.slot(), manualActions[play](m, key, w, waits)))
	}
	if _, err := m.Apply(m.ctx(), futurejobs.EffectBatch{RuleSet: m.set, Effects: effects}); err != nil {
		rt.Fatal(err)
	}
}

// startAction is a trigger: an early event ends the job at once.
func (m *model) startAction(key string, w modelJob, waits, restart bool) futurejobs.Action {
	if waits && restart {
		m.end(key, w)
		waits = false
	}
	if !waits {
		m.created++
		if m.early[key] {
			m.archived++
			delete(m.early, key)
		} else {
			m.pending[key] = modelJob{}
		}
	}
	j := m.job(m.rule, key, m.slot())
	j.Event = nil
	return futurejobs.Start{Job: j, Restart: restart, Early: true, Close: resolvedEnd.Close}
}

func (m *model) end(key string, w modelJob) {
	delete(m.pending, key)
	m.archived++
	if w.Alerts > 0 {
		m.alerts++ // the closing alert
	}
}

// storeJob changes the job of a key in the model, if it has one.
func (m *model) storeJob(key string, w modelJob, waits bool) {
	if waits {
		m.pending[key] = w
	}
}

// pause pauses or resumes the rule: for the store it is a change like others.
func (m *model) pause(rt *rapid.T) {
	if err := m.Pause(m.ctx(), m.rule.Name, rapid.Bool().Draw(rt, "paused")); err != nil {
		rt.Fatal(err)
	}
	m.set = must[int64](m.t)(m.Revision(m.ctx()))
}

// delete deletes the rule and creates another of the same name. The jobs of the old rule end without alerts.
func (m *model) delete(rt *rapid.T) {
	var over []futurejobs.Decision
	for _, j := range m.all() {
		over = append(over, m.exhausted(j))
	}
	old := m.settlement(over...)
	if _, err := m.Delete(m.ctx(), m.rule.Name, rules.AnyVersion); err != nil {
		rt.Fatal(err)
	}
	if _, err := m.Settle(m.ctx(), old); len(old.Decisions) > 0 && !errors.Is(err, futurejobs.ErrRulesChanged) {
		rt.Fatalf("settle for a deleted rule: %v, want ErrRulesChanged", err)
	}
	m.set = must[int64](m.t)(m.Revision(m.ctx()))
	purge(m.fixture, m.rule)
	checkRulesLeft(m.fixture)
	m.archived += int64(len(m.pending))
	clear(m.pending)
	clear(m.early)
	m.rule = m.save(m.rule.Name, "order")
}

// decide settles some of the jobs.
func (m *model) decide(rt *rapid.T) {
	var decisions []futurejobs.Decision
	for _, j := range m.all() {
		switch rapid.IntRange(0, 2).Draw(rt, "decision") {
		case 1:
			decisions = append(decisions, m.reschedule(j, j.NextCheckAt.Add(time.Minute)))
			w := m.pending[j.Key]
			w.Checks, w.Alerts = w.Checks+1, w.Alerts+1
			m.pending[j.Key] = w
		case 2:
			decisions = append(decisions, m.exhausted(j))
			delete(m.pending, j.Key)
			m.archived++
		}
	}
	m.alerts += len(decisions)
	settled, err := m.Settle(m.ctx(), m.settlement(decisions...))
	if err != nil || len(settled.Jobs) != len(decisions) || settled.Alerts != len(decisions) || settled.Lost != nil {
		rt.Fatalf("settled %+v of %d: %v", settled, len(decisions), err)
	}
}

// settleStale settles outdated jobs, without any effect.
func (m *model) settleStale(rt *rapid.T) {
	before := m.all()
	m.decide(rt)
	after := make(map[int64]int32)
	for _, j := range m.all() {
		after[j.ID] = j.Rev
	}
	var decisions []futurejobs.Decision
	for _, j := range before {
		if rev, ok := after[j.ID]; !ok || rev != j.Rev {
			decisions = append(decisions, m.exhausted(j))
		}
	}
	settled, err := m.Settle(m.ctx(), m.settlement(decisions...))
	if err != nil || len(settled.Jobs) != 0 || settled.Alerts != 0 {
		rt.Fatalf("settled what had moved: %+v, %v", settled, err)
	}
}

// loseShard settles with leases of an earlier epoch.
func (m *model) loseShard(rt *rapid.T) {
	var over []futurejobs.Decision
	var gone []int16
	for _, j := range m.all() {
		over = append(over, m.exhausted(j))
		gone = append(gone, j.Shard)
	}
	old := m.settlement(over...)
	old.Held = slices.Clone(m.held)
	gone = slices.Compact(gone)
	for _, shard := range gone {
		if err := m.Release(m.ctx(), thisNode, []futurejobs.Lease{{HeldShard: m.held[shard]}}); err != nil {
			rt.Fatal(err)
		}
		got, ok, err := m.Take(m.ctx(), thisNode, m.held[shard], time.Hour)
		if err != nil || !ok {
			rt.Fatalf("take: %v, %v", ok, err)
		}
		m.held[shard] = got.HeldShard
	}
	settled, err := m.Settle(m.ctx(), old)
	if err != nil || len(settled.Jobs) != 0 || !slices.Equal(settled.Lost, gone) {
		rt.Fatalf("settled without a lease: %+v, %v", settled, err)
	}
}

// compare checks the invariant.
func (m *model) compare(rt *rapid.T) {
	got := make(map[string]modelJob)
	for _, j := range pages(m.t, futurejobs.Filter{Limit: futurejobs.MaxLimit}, m.Jobs) {
		got[j.Key] = modelJob{Checks: j.CheckCount, Alerts: len(j.Alerts), Paused: !j.PausedAt().IsZero(), State: string(j.State)}
		if paused := j.NextCheckAt.Equal(futurejobs.FarFuture); paused != got[j.Key].Paused || paused == j.PausedNext.IsZero() {
			rt.Fatalf("paused or not: %+v", j)
		}
	}
	if diff := cmp.Diff(m.pending, got); diff != "" {
		rt.Fatalf("pending (-model +store):\n%s", diff)
	}
	b, err := m.Balance(m.ctx())
	if err != nil {
		rt.Fatal(err)
	}
	if b.Created != m.created || b.Archived != m.archived || b.Pending != int64(len(m.pending)) || b.Pruned != 0 {
		rt.Fatalf("%+v, want %d created, %d archived, %d pending", b, m.created, m.archived, len(m.pending))
	}
	if n := len(m.unpublished()); n != m.alerts {
		rt.Fatalf("%d alerts, want %d", n, m.alerts)
	}
}

// clear ends the jobs that are left of this run.
func (m *model) clear(rt *rapid.T) {
	for key := range m.pending {
		if _, err := m.Apply(m.ctx(), futurejobs.EffectBatch{RuleSet: m.set, Effects: []futurejobs.Effect{
			futurejobs.Cancel(m.rule, m.ref(m.rule, key), ""),
		}}); err != nil {
			rt.Fatal(err)
		}
		m.archived++
	}
	if err := m.MarkPublished(m.ctx(), m.unpublished()); err != nil {
		rt.Fatal(err)
	}
	m.alerts = 0
}
