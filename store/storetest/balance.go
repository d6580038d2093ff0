package storetest

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	futurejobs "deadman/future_jobs"
)

// model is what a store should hold: nothing but numbers of checks by key.
type model struct {
	*world
	pending  map[string]int
	created  int64
	archived int64
	said     int
}

// fewer makes rapid play as often as two stores on a slow disk allow; -rapid.checks says
// otherwise.
var fewer = sync.OnceValue(func() error {
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "rapid.checks" })
	if said {
		return nil
	}
	return flag.Set("rapid.checks", "20")
})

// balanceHolds plays random operations on a store and on the model, and compares.
func balanceHolds(t *testing.T, w *world) {
	w.must(fewer())
	runs := 0
	m := &model{world: w}
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m.pending = make(map[string]int) // keys are new in every run; the sums go on
		key := rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprintf("%d-%d", runs, rapid.IntRange(0, 5).Draw(rt, "key"))
		})
		rt.Repeat(map[string]func(*rapid.T){
			"":       m.compare,
			"events": func(rt *rapid.T) { m.events(rt, rapid.SliceOfN(key, 1, 6).Draw(rt, "keys")) },
			"settle": m.decide,
			"stale":  m.stale,
			"rules":  func(*rapid.T) { m.save("order-unshipped", "order") },
			"lost":   m.lost,
		})
		m.clear(rt)
	})
}

// events starts and ends waits in one batch.
func (m *model) events(rt *rapid.T, keys []string) {
	var effects []futurejobs.Effect
	for _, key := range keys {
		count, waits := m.pending[key]
		if rapid.Bool().Draw(rt, "start") {
			effects = append(effects, m.starting(m.rule, key, m.slot()))
			if !waits {
				m.pending[key] = 0
				m.created++
			}
			continue
		}
		effects = append(effects, m.ending(m.rule, key))
		if waits {
			delete(m.pending, key)
			m.archived++
			if count > 0 {
				m.said++ // what was said is closed
			}
		}
	}
	if _, err := m.Apply(m.ctx(), futurejobs.Batch{RuleSet: m.set, Effects: effects}); err != nil {
		rt.Fatal(err)
	}
}

// decide settles some of the jobs.
func (m *model) decide(rt *rapid.T) {
	var decisions []futurejobs.Decision
	for _, j := range m.all() {
		switch rapid.IntRange(0, 2).Draw(rt, "decision") {
		case 1:
			decisions = append(decisions, m.later(j, j.NextCheckAt.Add(time.Minute)))
			m.pending[j.Key]++
		case 2:
			decisions = append(decisions, m.over(j))
			delete(m.pending, j.Key)
			m.archived++
		}
	}
	m.said += len(decisions)
	settled, err := m.Settle(m.ctx(), m.settlement(decisions...))
	if err != nil || len(settled.Jobs) != len(decisions) || settled.Alerts != len(decisions) || settled.Lost != nil {
		rt.Fatalf("settled %+v of %d: %v", settled, len(decisions), err)
	}
}

// stale settles jobs as they were before they moved: nothing may come of it.
func (m *model) stale(rt *rapid.T) {
	before := m.all()
	m.decide(rt)
	after := make(map[int64]int32)
	for _, j := range m.all() {
		after[j.ID] = j.Rev
	}
	var decisions []futurejobs.Decision
	for _, j := range before {
		if rev, ok := after[j.ID]; !ok || rev != j.Rev {
			decisions = append(decisions, m.over(j))
		}
	}
	settled, err := m.Settle(m.ctx(), m.settlement(decisions...))
	if err != nil || len(settled.Jobs) != 0 || settled.Alerts != 0 {
		rt.Fatalf("settled what had moved: %+v, %v", settled, err)
	}
}

// lost settles with leases of an earlier epoch.
func (m *model) lost(rt *rapid.T) {
	old := m.settlement()
	old.Held = slices.Clone(m.held)
	var gone []int16
	for _, j := range m.all() {
		old.Decisions = append(old.Decisions, m.over(j))
		gone = append(gone, j.Shard)
	}
	gone = slices.Compact(gone)
	for _, shard := range gone {
		if err := m.Release(m.ctx(), me, []futurejobs.Lease{{Held: m.held[shard]}}); err != nil {
			rt.Fatal(err)
		}
		got, ok, err := m.Take(m.ctx(), me, m.held[shard], time.Hour)
		if err != nil || !ok {
			rt.Fatalf("take: %v, %v", ok, err)
		}
		m.held[shard] = got.Held
	}
	settled, err := m.Settle(m.ctx(), old)
	if err != nil || len(settled.Jobs) != 0 || !slices.Equal(settled.Lost, gone) {
		rt.Fatalf("settled without a lease: %+v, %v", settled, err)
	}
}

// compare is the invariant.
func (m *model) compare(rt *rapid.T) {
	got := make(map[string]int)
	for _, j := range m.all() {
		got[j.Key] = j.CheckCount
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
	if n := len(m.unpublished()); n != m.said {
		rt.Fatalf("%d alerts, want %d", n, m.said)
	}
}

// clear ends what this run has left.
func (m *model) clear(rt *rapid.T) {
	for key := range m.pending {
		if _, err := m.Apply(m.ctx(), futurejobs.Batch{RuleSet: m.set, Effects: []futurejobs.Effect{
			{Rule: m.rule, Kind: futurejobs.End, Job: futurejobs.Job{Ref: m.ref(m.rule, key)}, Outcome: "cancelled"},
		}}); err != nil {
			rt.Fatal(err)
		}
		m.archived++
	}
	if err := m.MarkPublished(m.ctx(), m.unpublished()); err != nil {
		rt.Fatal(err)
	}
	m.said = 0
}
