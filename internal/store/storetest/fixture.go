package storetest

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// ready returns the only notification to be sent.
func (w *fixture) ready(now time.Time) alerts.Notification {
	w.t.Helper()
	found := must[[]alerts.Notification](w.t)(w.Ready(w.ctx(), now))
	if len(found) != 1 {
		w.t.Fatalf("%d messages are ready, want 1", len(found))
	}
	return found[0]
}

func (w *fixture) binding() binding {
	w.t.Helper()
	b := binding{created: w.slot().Add(-time.Hour)}
	_, err := w.Apply(w.ctx(), batch(w, 7, 30))
	w.must(err)
	w.must(w.MarkRead(w.ctx(), "ORDERS", 30, w.slot()))
	stream(w, "ORDERS", b.created)
	save := func(name string, reads ...rules.StreamBinding) rules.RuleVersion {
		return must[rules.RuleVersion](w.t)(w.Save(w.ctx(), rules.RuleVersion{Name: name, Entity: "e", Document: []byte(`{}`), Reads: reads}, rules.AnyVersion))
	}
	b.stays = save("stays", rules.StreamBinding{Subject: "a", Stream: "ORDERS", From: 31, At: w.slot().Add(time.Hour), CreatedAt: b.created})
	save("goes", rules.StreamBinding{Subject: "b", Stream: "OLD", From: 3})
	b.goes = save("goes", rules.StreamBinding{Subject: "b", Stream: "OLD", From: 5}, rules.StreamBinding{Subject: "c", Stream: "ORDERS", From: 30})
	return b
}

// fixture is a store with a rule, and a node that holds all its shards.
type fixture struct {
	*store.Store
	t    *testing.T
	rule *futurejobs.Rule
	held []futurejobs.HeldShard
	set  int64     // the rule set's revision
	at   time.Time // a slot, a day from now
}

func (w *fixture) ctx() context.Context { return w.t.Context() }

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// save saves a rule and updates the fixture's revision of the rule set.
func (w *fixture) save(name, entity string) *futurejobs.Rule {
	w.t.Helper()
	saved := must[rules.RuleVersion](w.t)(w.Save(w.ctx(), rules.RuleVersion{
		Name: name, Entity: entity, Document: []byte(`{"name":"` + name + `"}`),
		Reads: []rules.StreamBinding{{Subject: "orders.created", Stream: "ORDERS", From: 7}},
	}, rules.AnyVersion))
	w.set = must[int64](w.t)(w.Revision(w.ctx()))
	return &futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: name, Entity: entity,
		Grid: futurejobs.Grid(time.Minute), MaxSeverity: alerts.Critical,
	}
}

func (w *fixture) acquireShards(node string, d time.Duration) []futurejobs.HeldShard {
	w.t.Helper()
	var held []futurejobs.HeldShard
	for _, l := range must[[]futurejobs.Lease](w.t)(w.Leases(w.ctx())) {
		got, ok, err := w.Take(w.ctx(), node, l.HeldShard, d)
		if err != nil || !ok {
			w.t.Fatalf("take shard %d: %v, %v", l.Shard, ok, err)
		}
		held = append(held, got.HeldShard)
	}
	return held
}

// slot returns the first slot of the fixture's jobs.
func (w *fixture) slot() time.Time { return w.at }

func (w *fixture) ref(rule *futurejobs.Rule, key string) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf(rule.Entity, key, w.Shards()), RuleID: rule.ID, Key: key}
}

// job returns a job for key, due at first.
func (w *fixture) job(rule *futurejobs.Rule, key string, first time.Time) futurejobs.Job {
	return futurejobs.Job{
		Ref: w.ref(rule, key), Version: rule.Version, Since: first.Add(-time.Hour), FirstCheckAt: first,
		Event: json.RawMessage(`{"id":"` + strconv.Itoa(len(key)) + `"}`),
	}
}

// starting returns the effect that starts a job for key, due at first.
func (w *fixture) starting(rule *futurejobs.Rule, key string, first time.Time) futurejobs.Effect {
	return begins(rule, w.job(rule, key, first))
}

// ending returns the effect that ends the job of key with a closing alert.
func (w *fixture) ending(rule *futurejobs.Rule, key string) futurejobs.Effect {
	return futurejobs.Effect{Rule: rule, Ref: w.ref(rule, key), Action: resolvedEnd}
}

// applyManually applies effects without a stream.
func (w *fixture) applyManually(effects ...futurejobs.Effect) futurejobs.ApplyResult {
	w.t.Helper()
	return must[futurejobs.ApplyResult](w.t)(w.Apply(w.ctx(), futurejobs.EffectBatch{RuleSet: w.set, Effects: effects}))
}

// start starts jobs for keys, all due at first.
func (w *fixture) start(first time.Time, keys ...string) {
	w.t.Helper()
	effects := make([]futurejobs.Effect, len(keys))
	for i, key := range keys {
		effects[i] = w.starting(w.rule, key, first)
	}
	if got := w.applyManually(effects...); got.Created != len(keys) {
		w.t.Fatalf("created %d jobs of %d", got.Created, len(keys))
	}
}

// all returns all pending jobs, in due order.
func (w *fixture) all() []futurejobs.Job {
	w.t.Helper()
	return must[[]futurejobs.Job](w.t)(w.Due(w.ctx(), futurejobs.DueQuery{
		Cursors: w.shardCursors(), Until: w.slot().AddDate(1, 0, 0), Limit: 100_000,
	}))
}

// shardCursors returns cursors at the start of all shards.
func (w *fixture) shardCursors() []futurejobs.ShardCursor {
	walks := make([]futurejobs.ShardCursor, w.Shards())
	for i := range walks {
		walks[i] = futurejobs.ShardCursor{Shard: int16(i), ID: math.MinInt64}
	}
	return walks
}

// one returns the pending job of a key.
func (w *fixture) one(key string) futurejobs.Job {
	w.t.Helper()
	for _, j := range w.all() {
		if j.Key == key {
			return j
		}
	}
	w.t.Fatalf("no job for %q", key)
	return futurejobs.Job{}
}

// reschedule returns the decision to check again at next, with an alert.
func (w *fixture) reschedule(j futurejobs.Job, next time.Time) futurejobs.Decision {
	slot := j.NextCheckAt
	j.NextCheckAt, j.CheckCount, j.Step = next, j.CheckCount+1, j.Step+1
	return w.withAlert(futurejobs.Decision{Job: j}, slot)
}

// exhausted returns the decision that ends j, with an alert.
func (w *fixture) exhausted(j futurejobs.Job) futurejobs.Decision {
	j.CheckCount++
	return w.withAlert(futurejobs.Decision{Job: j, Outcome: "exhausted", Reason: "the last step was taken"}, j.NextCheckAt)
}

// withAlert adds an alert to a decision.
func (w *fixture) withAlert(d futurejobs.Decision, slot time.Time) futurejobs.Decision {
	now := must[time.Time](w.t)(w.Now(w.ctx()))
	a := alerts.Alert{
		ID: alerts.Decision{
			JobID: d.Job.ID, CreatedAt: d.Job.CreatedAt, Check: d.Job.CheckCount, Status: alerts.Firing,
			StepIndex: int(nextPlace.Add(1)), At: slot,
		}.ID(),
		Rule: w.rule.Name, RuleVersion: int(d.Job.Version), Entity: w.rule.Entity, Key: d.Job.Key,
		DecidedAt: now, Shard: d.Job.Shard, RuleID: d.Job.RuleID,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Step: "primary", Text: "it waits"},
			Since: d.Job.Since, Slot: slot, CheckCount: d.Job.CheckCount, Event: d.Job.Event,
		},
	}
	d.Alerts = append(d.Alerts, a)
	d.Job.Alerts = append(d.Job.Alerts[:len(d.Job.Alerts):len(d.Job.Alerts)], a.ID)
	return d
}

// settlement returns a settlement by the node that holds all shards.
func (w *fixture) settlement(decisions ...futurejobs.Decision) futurejobs.Settlement {
	st := futurejobs.Settlement{Held: w.held, RuleSet: w.set}
	for i := range decisions {
		st.Decisions = append(st.Decisions, &decisions[i])
	}
	return st
}

func (w *fixture) settle(decisions ...futurejobs.Decision) futurejobs.Settled {
	w.t.Helper()
	return must[futurejobs.Settled](w.t)(w.Settle(w.ctx(), w.settlement(decisions...)))
}

// unpublished returns all unpublished alerts.
func (w *fixture) unpublished() []alerts.Alert {
	w.t.Helper()
	return must[[]alerts.Alert](w.t)(batchOf(w.Unpublished(w.ctx(), allShards(w.Store), 100_000, nil)))
}

func allShards(s *store.Store) []int16 {
	shards := make([]int16, s.Shards())
	for i := range shards {
		shards[i] = int16(i)
	}
	return shards
}

// batchOf leaves out whether other alerts of a queue are left.
func batchOf(found []alerts.Alert, _ bool, err error) ([]alerts.Alert, error) { return found, err }

// ended returns the whole history, newest first.
func (w *fixture) ended() []futurejobs.EndedJob {
	w.t.Helper()
	return pages(w.t, futurejobs.Filter{Limit: futurejobs.MaxLimit}, w.History)
}

// thisNode is the node that holds the shards.
const thisNode = "me"

func newFixture(t *testing.T, s *store.Store) *fixture {
	w := &fixture{Store: s, t: t}
	w.at = must[time.Time](t)(s.Now(t.Context())).Add(futurejobs.Day).Truncate(time.Minute)
	w.rule = w.save("order-unshipped", "order")
	w.held = w.acquireShards(thisNode, time.Hour)
	return w
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// begins returns the effect that starts a job.
func begins(rule *futurejobs.Rule, j futurejobs.Job) futurejobs.Effect {
	return futurejobs.Effect{Rule: rule, Ref: j.Ref, Action: futurejobs.Start{Job: j}}
}

// resolvedEnd ends a job with a closing alert.
var resolvedEnd = futurejobs.End{Outcome: "resolved", Close: func(futurejobs.Job) alerts.Draft {
	return alerts.Draft{Status: alerts.Resolved, Severity: alerts.Info, Text: "it happened"}
}}

var nextPlace atomic.Int64

// list is a list method of the store.
type list[T any] func(context.Context, futurejobs.Filter) (futurejobs.Page[T], error)

// pages reads a list to its end.
func pages[T any](t *testing.T, f futurejobs.Filter, l list[T]) []T {
	t.Helper()
	var items []T
	for {
		page := must[futurejobs.Page[T]](t)(l(t.Context(), f))
		items = append(items, page.Items...)
		if page.Next == "" {
			return items
		}
		f.Cursor = page.Next
	}
}
