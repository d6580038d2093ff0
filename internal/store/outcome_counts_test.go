package store_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// outcomeHistory is a store with several days of history, which the clock of a test cannot produce.
type outcomeHistory struct {
	*store.Store
	*testing.T
	rules []int32
	rows  []endedRow
	now   time.Time
}

type endedRow struct {
	id      int
	at      time.Time
	rule    int
	outcome checks.Outcome
	checks  int
	slowest time.Duration
}

func (p *outcomeHistory) exec(text string, args ...any) {
	p.Helper()
	if _, err := p.DB().ExecContext(p.Context(), text, args...); err != nil {
		p.Fatal(err)
	}
}

// end adds a row of history.
func (p *outcomeHistory) end(e endedRow) {
	p.Helper()
	e.id = len(p.rows) + 1
	p.exec(`INSERT INTO history (shard, key, rule_id, id, version, outcome, ended_at, created_at, since_at, first_check_at, next_check_at, check_count, step, checks, check_total, check_slowest)
VALUES (0, $1, $2, $3, 1, $4, $5, $5, $5, $5, $5, 0, CAST($6 AS int), $6, 0, $7)`, fmt.Sprint(e.id), p.rules[e.rule], e.id, string(e.outcome), e.at, e.checks, e.slowest.Microseconds())
	p.rows = append(p.rows, e)
}

func newOutcomeHistory(t *testing.T, s *store.Store) *outcomeHistory {
	p := &outcomeHistory{Store: s, T: t}
	for _, name := range []string{"a", "b"} {
		saved, err := s.Save(t.Context(), rules.RuleVersion{Name: name, Entity: "of-" + name, Document: []byte(`{}`)}, rules.AnyVersion)
		if err != nil {
			t.Fatal(err)
		}
		p.rules = append(p.rules, saved.RuleID)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.now = now.UTC()
	outcomes := []checks.Outcome{checks.Resolved, "shipped", checks.Exhausted}
	for i := range 300 { // 25 minutes apart, five days
		p.end(endedRow{
			at: p.now.Add(time.Duration(i-299) * 25 * time.Minute).Truncate(time.Microsecond), rule: i % 7 % 2, outcome: outcomes[i%3],
			checks: i % 5, slowest: time.Duration(i*7919%301) * time.Millisecond,
		})
	}
	return p
}

// deleteRows deletes rows, as retention does, and leaves gaps.
func (p *outcomeHistory) deleteRows(which func(id int) bool) {
	p.Helper()
	var left []endedRow
	for _, e := range p.rows {
		if which(e.id) {
			p.exec(`DELETE FROM history WHERE id = $1`, e.id)
			continue
		}
		left = append(left, e)
	}
	p.rows = left
}

// counts returns the expected counts.
func (p *outcomeHistory) counts(from, until time.Time) []futurejobs.OutcomeCount {
	sums := map[futurejobs.OutcomeCount]futurejobs.OutcomeCount{}
	for _, e := range p.rows {
		if !e.at.Before(from) && e.at.Before(until) {
			name := []string{"a", "b"}[e.rule]
			of := futurejobs.OutcomeCount{Hour: e.at.Truncate(time.Hour), Rule: name, Entity: "of-" + name, Outcome: e.outcome}
			n := sums[of]
			n.Jobs++
			if e.checks > 0 { // as many steps
				n.AfterStep++
			}
			sums[of] = n
		}
	}
	var all []futurejobs.OutcomeCount
	for e := range maps.Keys(sums) {
		n := sums[e]
		e.Jobs, e.AfterStep = n.Jobs, n.AfterStep
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b futurejobs.OutcomeCount) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Outcome, b.Outcome))
	})
	return all
}

// TestEndsAreCounted checks that ended jobs are counted by hour, rule and outcome, from any instant on, and that lists
// start at the requested instant, even with deleted rows in between.
func TestEndsAreCounted(t *testing.T) {
	t.Parallel()
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newOutcomeHistory(t, open(t))
			p.compareCounts()
			p.deleteRows(func(id int) bool { return id < 20 || id%3 == 1 || id > 100 && id < 160 })
			p.compareCounts()
			p.deleteRows(func(int) bool { return true })
			p.compareCounts()
		})
	}
}

func (p *outcomeHistory) compareCounts() {
	p.Helper()
	ctx := context.Background()
	for _, back := range []time.Duration{0, time.Second, 25 * time.Minute, 40 * time.Hour, 90*time.Hour + time.Minute, 30 * futurejobs.Day} {
		from := p.now.Add(-back)
		for _, until := range []time.Time{p.now.Add(time.Hour), p.now.Add(-30 * time.Hour)} {
			got, err := p.OutcomeCounts(ctx, from, until)
			if err != nil {
				p.Fatal(err)
			}
			if diff := gocmp.Diff(p.counts(from, until), got, cmpopts.EquateEmpty()); diff != "" {
				p.Errorf("from %s back until %s (-want +got):\n%s", back, until.Sub(p.now), diff)
			}
		}
		page, err := p.History(ctx, futurejobs.Filter{After: from, Limit: futurejobs.MaxLimit})
		if err != nil {
			p.Fatal(err)
		}
		if want := len(slices.DeleteFunc(slices.Clone(p.rows), func(e endedRow) bool { return e.at.Before(from) })); len(page.Items) != want {
			p.Errorf("%s back, %d are listed, want %d", back, len(page.Items), want)
		}
	}
}

// TestSlowestComeFirst checks that the jobs with the slowest checks come first, without jobs that were never checked.
func TestSlowestComeFirst(t *testing.T) {
	t.Parallel()
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newOutcomeHistory(t, open(t))
			from := p.now.Add(-20 * time.Hour)
			var want []time.Duration
			for _, e := range p.rows {
				if !e.at.Before(from) && e.checks > 0 {
					want = append(want, e.slowest)
				}
			}
			slices.SortFunc(want, func(a, b time.Duration) int { return cmp.Compare(b, a) })
			got, err := p.Slowest(t.Context(), from, 12)
			if err != nil {
				t.Fatal(err)
			}
			var took []time.Duration
			for _, e := range got {
				took = append(took, e.CheckSlowest)
			}
			if !slices.Equal(took, want[:12]) {
				t.Errorf("the slowest took %v, want %v", took, want[:12])
			}
		})
	}
}
