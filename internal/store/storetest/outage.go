package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// outageHit returns a hit of an outage: checks of a rule whose source does not answer.
func outageHit(w *fixture, rule *futurejobs.Rule, jobs int) futurejobs.OutageHit {
	return futurejobs.OutageHit{
		Held: w.held, RuleSet: w.set,
		Outage: futurejobs.Outage{Source: "shop", RuleID: rule.ID, Version: rule.Version, Jobs: jobs, Reason: "connection refused"},
		Alert:  func(o futurejobs.Outage) alerts.Alert { return outageAlert(rule, o, alerts.Undetermined) },
	}
}

func outageAlert(rule *futurejobs.Rule, o futurejobs.Outage, status alerts.Status) alerts.Alert {
	a := alerts.SystemAlert{Topic: "outage/" + o.Source, Step: rule.Name, Status: status, Severity: alerts.Error, Since: o.OpenedAt, Count: o.Jobs}.Alert(o.OpenedAt)
	a.Rule, a.RuleID, a.RuleVersion, a.Entity = rule.Name, rule.ID, int(rule.Version), rule.Entity
	return a
}

func outagesOpenOnce(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	for _, j := range w.all() {
		j.NextCheckAt = w.slot().Add(-2 * futurejobs.Day) // it is due
		w.settle(futurejobs.Decision{Job: j})
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var raised []alerts.Alert
	for range 5 {
		all.Go(func() {
			got, err := w.RecordOutage(w.ctx(), outageHit(w, w.rule, 2))
			mu.Lock()
			defer mu.Unlock()
			raised = append(raised, got...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(raised) != 1 || raised[0].Count != 3 {
		t.Fatalf("alerts %+v, want one of the three jobs that are due", raised)
	}
	if waiting := w.unpublished(); len(waiting) != 1 || waiting[0].ID != raised[0].ID || waiting[0].Rule != w.rule.Name {
		t.Errorf("in the outbox: %+v", waiting)
	}
	other := w.save("other", "order")
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, other, 1)))

	open := must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))
	if len(open) != 2 || open[0].Jobs != 10 || open[0].RuleID != w.rule.ID || open[0].Reason != "connection refused" || open[0].SeenAt.Before(open[0].OpenedAt) {
		t.Fatalf("open: %+v, want one of ten jobs and the other rule's", open)
	}
	if g := must[store.Gauges](t)(w.Gauges(w.ctx())); g.Outages != 2 {
		t.Errorf("%d outages are open, want 2", g.Outages)
	}
	for _, p := range w.Pools() {
		if p.Name == "" || p.Max < 1 || p.InUse != 0 || p.Idle < 1 || p.Idle > p.Max {
			t.Errorf("after use, a pool is %+v", p)
		}
	}
}

// outageHitsAreBounded checks that a new outage counts the due jobs of its rule up to a bound, since all settles
// wait meanwhile.
func outageHitsAreBounded(t *testing.T, w *fixture) {
	const bound, more = 20_000, 500
	keys := make([]string, bound+more)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	w.start(w.slot(), keys...)
	other := w.save("other", "order")
	w.applyManually(w.starting(other, "a", w.slot()), w.starting(other, "b", w.slot()))
	var due []futurejobs.Decision
	for _, j := range w.all() {
		j.NextCheckAt = w.slot().Add(-2 * futurejobs.Day)
		due = append(due, futurejobs.Decision{Job: j})
	}
	for batch := range slices.Chunk(due, 2000) {
		w.settle(batch...)
	}
	open := func(m futurejobs.OutageHit) (o futurejobs.Outage) {
		t.Helper()
		raise := m.Alert
		m.Alert = func(opened futurejobs.Outage) alerts.Alert { o = opened; return raise(opened) }
		if raised := must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), m)); len(raised) != 1 {
			t.Fatalf("alerts %+v", raised)
		}
		return o
	}
	if o := open(outageHit(w, w.rule, 7)); !o.More || o.Jobs > bound || o.Jobs < bound-2 {
		t.Errorf("of %d due jobs %d are counted, and more: %v", len(due), o.Jobs, o.More)
	}
	if o := open(outageHit(w, other, 1)); !o.More || o.Jobs < 1 || o.Jobs > 2 {
		t.Errorf("of two due jobs among %d, %d are counted, and more: %v", len(due), o.Jobs, o.More)
	}
}

func outagesEndOnce(t *testing.T, w *fixture) {
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, w.rule, 2)))
	first := must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))[0]
	end := func(rule *futurejobs.Rule) func(futurejobs.Outage) alerts.Alert {
		return func(o futurejobs.Outage) alerts.Alert { return outageAlert(rule, o, alerts.Resolved) }
	}
	raised, ended, err := w.CloseOutage(w.ctx(), first, end(w.rule))
	if w.must(err); !ended || len(raised) != 1 || raised[0].Count != 2 {
		t.Fatalf("ended %v, alerts %+v", ended, raised)
	}
	if raised, ended, err := w.CloseOutage(w.ctx(), first, end(w.rule)); ended || len(raised) != 0 || err != nil {
		t.Errorf("ended again: %v, %v, %v", ended, raised, err)
	}
	if open := must[[]futurejobs.Outage](t)(w.Outages(w.ctx())); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
	resumed := outageHit(w, w.rule, 0)
	resumed.Repeated = 1
	again := must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), resumed))
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), resumed)) // the same job again
	second := must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))
	if len(again) != 1 || again[0].Count != 1 || len(second) != 1 || second[0].Jobs != 0 || second[0].OpenedAt.Equal(first.OpenedAt) {
		t.Errorf("opened again: alerts %+v, open %+v", again, second)
	}

	must[int32](t)(w.Delete(w.ctx(), w.rule.Name, w.rule.Version))
	raised, ended, err = w.CloseOutage(w.ctx(), second[0], end(w.rule))
	if w.must(err); !ended || len(raised) != 0 {
		t.Errorf("of a deleted rule: ended %v, alerts %+v", ended, raised)
	}
}

func outagesAreListed(t *testing.T, w *fixture) {
	list := func(f futurejobs.Filter) futurejobs.Page[futurejobs.ListedOutage] {
		t.Helper()
		return must[futurejobs.Page[futurejobs.ListedOutage]](t)(w.ListedOutages(w.ctx(), f))
	}
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, w.rule, 2)))
	over := must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))[0]
	_, _, err := w.CloseOutage(w.ctx(), over, func(o futurejobs.Outage) alerts.Alert { return outageAlert(w.rule, o, alerts.Resolved) })
	w.must(err)
	other := w.save("other", "order")
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, other, 5)))

	all := list(futurejobs.Filter{}).Items
	if len(all) != 2 || all[0].Rule != "other" || all[0].Jobs != 5 || !all[0].ClosedAt.IsZero() || all[0].Reason != "connection refused" {
		t.Fatalf("all: %+v, want the other rule's, which is open, first", all)
	}
	if all[1].Rule != w.rule.Name || all[1].ClosedAt.Before(all[1].OpenedAt) || !all[1].OpenedAt.Equal(over.OpenedAt) || all[1].Source != "shop" {
		t.Errorf("the one that is over: %+v", all[1])
	}
	if open := list(futurejobs.Filter{Open: true}).Items; len(open) != 1 || open[0].ID != all[0].ID {
		t.Errorf("open: %+v", open)
	}
	if own := list(futurejobs.Filter{Rule: w.rule.Name}).Items; len(own) != 1 || own[0].ID != all[1].ID {
		t.Errorf("of one rule: %+v", own)
	}
	first := list(futurejobs.Filter{Limit: 1})
	second := list(futurejobs.Filter{Limit: 1, Cursor: first.Next})
	if len(first.Items) != 1 || first.Items[0].ID != all[0].ID || len(second.Items) != 1 || second.Items[0].ID != all[1].ID || second.Next != "" {
		t.Errorf("by pages: %+v, %+v", first, second)
	}
	if _, err := w.ListedOutages(w.ctx(), futurejobs.Filter{Cursor: "nonsense"}); !errors.Is(err, futurejobs.ErrBadCursor) {
		t.Errorf("a cursor of nothing: %v", err)
	}
}

// deletionWaitsForOutageEnd checks that a deletion waits for a running close of an outage, and that an outage
// closed after it raises no alert.
func deletionWaitsForOutageEnd(t *testing.T, w *fixture) {
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, w.rule, 2)))
	open := must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))[0]
	var deleted error
	raised, ended, err := w.CloseOutage(w.ctx(), open, func(o futurejobs.Outage) alerts.Alert {
		soon, cancel := context.WithTimeout(w.ctx(), 300*time.Millisecond)
		defer cancel()
		_, deleted = w.Delete(soon, w.rule.Name, rules.AnyVersion)
		return outageAlert(w.rule, o, alerts.Resolved)
	})
	w.must(err)
	if !ended || len(raised) != 1 || deleted == nil {
		t.Fatalf("ended: %t, alerts %d; the deletion meanwhile: %v, want that it waits", ended, len(raised), deleted)
	}
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, w.rule, 1)))
	open = must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))[0]
	must[int32](t)(w.Delete(w.ctx(), w.rule.Name, rules.AnyVersion))
	before := len(w.unpublished())
	raised, ended, err = w.CloseOutage(w.ctx(), open, func(o futurejobs.Outage) alerts.Alert { return outageAlert(w.rule, o, alerts.Resolved) })
	w.must(err)
	if !ended || len(raised) != 0 || len(w.unpublished()) != before {
		t.Errorf("after the deletion: ended: %t, alerts %d", ended, len(raised))
	}
}

func outagesNeedTheFence(t *testing.T, w *fixture) {
	deleted := w.save("deleted", "order")
	stale := outageHit(w, deleted, 1)
	must[int32](t)(w.Delete(w.ctx(), deleted.Name, rules.AnyVersion))
	if _, err := w.RecordOutage(w.ctx(), stale); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("under old rules: %v", err)
	}
	lost := outageHit(w, w.rule, 1)
	for i := range lost.Held {
		lost.Held[i].Epoch--
	}
	if _, err := w.RecordOutage(w.ctx(), lost); !errors.Is(err, futurejobs.ErrNotHeld) {
		t.Errorf("without shards: %v", err)
	}
	if open := must[[]futurejobs.Outage](t)(w.Outages(w.ctx())); len(open) != 0 || len(w.unpublished()) != 0 {
		t.Errorf("open: %+v", open)
	}
}

func checksBeginOnce(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	job := w.one("a")
	b := futurejobs.CheckStart{HeldShard: heldOf(w, job.Shard), JobID: job.ID, CheckAttempts: job.CheckAttempts}
	for i, want := range []bool{true, false} {
		if ok, err := w.BeginCheck(w.ctx(), b); ok != want || err != nil {
			t.Errorf("time %d: %v, %v", i, ok, err)
		}
	}
	b.CheckAttempts++
	if ok, err := w.BeginCheck(w.ctx(), b); !ok || err != nil {
		t.Errorf("the check after it: %v, %v", ok, err)
	}
	lost := b
	lost.CheckAttempts, lost.Epoch = b.CheckAttempts+1, b.Epoch-1
	if ok, err := w.BeginCheck(w.ctx(), lost); ok || !errors.Is(err, futurejobs.ErrNotHeld) {
		t.Errorf("without the shard: %v, %v", ok, err)
	}
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{}))
	if ok, err := w.BeginCheck(w.ctx(), b); ok || err != nil {
		t.Errorf("after the upkeep, while the job is there: %v, %v", ok, err)
	}
	w.settle(w.exhausted(w.one("a")))
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{History: time.Hour}))
	if ok, err := w.BeginCheck(w.ctx(), b); !ok || err != nil {
		t.Errorf("once the job is over nothing is kept of it: %v, %v", ok, err)
	}
}

func heldOf(w *fixture, shard int16) futurejobs.HeldShard {
	for _, h := range w.held {
		if h.Shard == shard {
			return h
		}
	}
	w.t.Fatalf("shard %d is not held", shard)
	return futurejobs.HeldShard{}
}
