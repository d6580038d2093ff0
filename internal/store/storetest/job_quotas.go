package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// jobQuota is a quota with capacity for some jobs.
type jobQuota struct {
	limit          int64
	held           int64
	bytes          bool
	grown, refused int64
}

func (r *jobQuota) OfJobs(string) []futurejobs.JobQuota { return []futurejobs.JobQuota{r} }
func (r *jobQuota) Tenant(string) string                { return "acme-" }
func (r *jobQuota) KeepAlert(*alerts.Alert)             {}
func (r *jobQuota) DropAlert(*alerts.Alert)             {}
func (r *jobQuota) Bytes() bool                         { return r.bytes }
func (r *jobQuota) Room() int64                         { return r.limit - r.held }
func (r *jobQuota) Refusal(string) error                { return access.ErrQuota }

func (r *jobQuota) Reserve(jobs int64) bool {
	if jobs > 0 && r.Room() < jobs {
		return false
	}
	r.held += max(jobs, 0)
	return true
}

func (r *jobQuota) Settle(reserved, grown, refused int64) {
	r.held -= max(reserved, 0)
	r.limit, r.grown, r.refused = r.limit-grown, r.grown+grown, r.refused+refused
}

// jobsAreBounded checks that no job is created beyond a quota, and that its event becomes a dead letter. A pending job
// is kept, even if it was not read before.
func jobsAreBounded(t *testing.T, w *fixture) {
	r := &jobQuota{limit: 2}
	w.BoundBy(r)
	seq := uint64(7)
	publish := func(keys ...string) futurejobs.ApplyResult {
		t.Helper()
		b := futurejobs.EffectBatch{Stream: "ORDERS", After: seq, Last: seq + 1, LastAt: w.at, RuleSet: w.set}
		seq++
		for _, key := range keys {
			e := w.starting(w.rule, key, w.slot())
			e.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: seq, At: w.at, Data: []byte(`{}`)}
			b.Effects = append(b.Effects, e)
		}
		return must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	if got := publish("a", "b"); got.Created != 2 || got.Refused != 0 {
		t.Errorf("with room: %+v", got.EffectCounts)
	}
	if got := publish("a", "c", "b", "d"); got.Created != 0 || got.Kept != 2 || got.Refused != 2 {
		t.Errorf("without room: %+v", got.EffectCounts)
	}
	letters := must[futurejobs.Page[futurejobs.DeadLetter]](t)(w.DeadLetters(w.ctx(), futurejobs.Filter{Rule: w.rule.Name})).Items
	if len(letters) != 2 || letters[0].Reason != access.ErrQuota.Error() || letters[0].Part != futurejobs.Triggers {
		t.Errorf("dead letters %+v", letters)
	}
	if got := w.applyManually(w.starting(w.rule, "e", w.slot()), w.starting(w.rule, "a", w.slot())); len(got.Over) != 1 || got.Over[0] != 0 || len(got.AlreadyPending) != 1 || got.Created != 0 {
		t.Errorf("by hand: %+v", got)
	}
	if got := w.applyManually(w.ending(w.rule, "a")); got.Ended != 1 {
		t.Errorf("an end: %+v", got.EffectCounts)
	}
	if r.grown != 1 || r.refused != 3 || r.limit != 1 || r.held != 0 {
		t.Errorf("the quota counts %+v", *r)
	}
	pending := must[map[string]int64](t)(w.PendingOf(w.ctx(), "", func(rule string) bool { return rule == w.rule.Name }))
	if diff := cmp.Diff(map[string]int64{w.rule.Name: 1}, pending); diff != "" {
		t.Errorf("pending jobs (-want +got):\n%s", diff)
	}
	if none := must[map[string]int64](t)(w.PendingOf(w.ctx(), "", func(string) bool { return false })); len(none) != 0 {
		t.Errorf("of no rule: %v", none)
	}
}

// bytesOfJobsAreBounded checks that the bytes of jobs are counted as jobs are created, change and end, and that the
// database counts the same. No job is created beyond the quota, even if it was not read before.
func bytesOfJobsAreBounded(t *testing.T, w *fixture) {
	r := &jobQuota{limit: 1000, bytes: true}
	w.BoundBy(r)
	seq := uint64(7)
	play := func(key string, action futurejobs.Action) futurejobs.ApplyResult {
		t.Helper()
		e := actionEffect(w, w.rule, key, w.at, action)
		e.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: seq + 1, At: w.at, Data: []byte(`{}`)}
		b := futurejobs.EffectBatch{Stream: "ORDERS", After: seq, Last: seq + 1, LastAt: w.at, RuleSet: w.set, Effects: []futurejobs.Effect{e}}
		seq++
		return must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	begin := func(key string, bytes int) futurejobs.ApplyResult {
		start := w.starting(w.rule, key, w.slot()).Action.(futurejobs.Start)
		start.Job.Event = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
		return play(key, start)
	}
	same := func(want int64) {
		t.Helper()
		counted := must[map[string]int64](t)(w.PendingBytesOf(w.ctx(), "", func(rule string) bool { return rule == w.rule.Name }))[w.rule.Name]
		if r.grown != want || counted != want {
			t.Errorf("%d bytes are counted, and %d by the database; want %d", r.grown, counted, want)
		}
	}
	begin("a", 700)
	same(700)
	play("a", futurejobs.Update{Merge: func(json.RawMessage) (json.RawMessage, error) { return []byte(`{"é": 123}`), nil }})
	same(711) // bytes, not characters
	begin("b", 400)
	same(1111)
	if got := begin("c", 2); got.Created != 0 || got.Refused != 1 {
		t.Errorf("without room: %+v", got.EffectCounts)
	}
	if got := begin("a", 300); got.Kept != 1 || got.Refused != 0 {
		t.Errorf("a pending job: %+v", got.EffectCounts)
	}
	same(1111)
	play("a", futurejobs.End{Outcome: "resolved"})
	same(400)
	if got := begin("c", 10); got.Created != 1 {
		t.Errorf("with room again: %+v", got.EffectCounts)
	}
	same(410)
	if none := must[map[string]int64](t)(w.PendingBytesOf(w.ctx(), "", func(string) bool { return false })); len(none) != 0 {
		t.Errorf("of no rule: %v", none)
	}
}

// withQuota bounds the pending jobs of the fixture's rule, as a node does.
func withQuota(w *fixture, q *access.Quotas, limit int64) {
	w.t.Helper()
	q.Set([]access.Quota{{Prefix: w.rule.Name, Set: map[access.Limited]int64{access.LimitJobs: limit}}}, 0)
	q.CountJobs("")
	q.Learn(access.Learned{Jobs: must[map[string]int64](w.t)(w.PendingOf(w.ctx(), "", q.Covers))})
}

// jobsAtOnceAreBounded checks that concurrent requests create as many jobs as a quota allows, while the jobs are
// counted and some of the requests fail.
func jobsAtOnceAreBounded(t *testing.T, w *fixture) {
	const limit, clients = 12, 8
	var q access.Quotas
	w.BoundBy(&q)
	withQuota(w, &q, limit)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for i := range 12 {
				begins := w.starting(w.rule, fmt.Sprintf("%d-%d", client, i), w.slot())
				if i%4 == 1 { // a request that was not begun fails once its job is written
					b := futurejobs.EffectBatch{RuleSet: w.set, RequestID: begins.Ref.Key, Effects: []futurejobs.Effect{begins}}
					if _, err := w.Apply(w.ctx(), b); !errors.Is(err, access.ErrRunning) {
						t.Errorf("a request that is not under way: %v", err)
					}
					continue
				}
				if _, err := w.Apply(w.ctx(), futurejobs.EffectBatch{RuleSet: w.set, Effects: []futurejobs.Effect{begins}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			withQuota(w, &q, limit)
		}
	})
	all.Wait()
	if n := len(w.all()); n > limit {
		t.Errorf("%d jobs began at a time, the quota is %d", n, limit)
	}
	for i := range limit + 2 { // the failed requests freed their capacity
		w.applyManually(w.starting(w.rule, fmt.Sprintf("later-%d", i), w.slot()))
	}
	if n := len(w.all()); n != limit {
		t.Errorf("%d jobs are pending, want %d", n, limit)
	}
	for _, j := range w.all() {
		w.applyManually(w.ending(w.rule, j.Key))
	}
	if room := q.OfJobs(w.rule.Name)[0].Room(); room != limit {
		t.Errorf("once all ended there is room for %d, want %d", room, limit)
	}
}

// refuseJob publishes a trigger that a quota refuses, and returns its dead letter.
func refuseJob(w *fixture, seq uint64, begins futurejobs.Effect) futurejobs.DeadLetter {
	w.t.Helper()
	begins.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: seq, At: w.at, Data: []byte(`{}`)}
	got := must[futurejobs.ApplyResult](w.t)(w.Apply(w.ctx(), batch(w, seq-1, seq, begins)))
	if got.Refused != 1 || got.Created != 0 {
		w.t.Fatalf("without room: %+v", got.EffectCounts)
	}
	return must[futurejobs.Page[futurejobs.DeadLetter]](w.t)(w.DeadLetters(w.ctx(), futurejobs.Filter{Limit: 1})).Items[0]
}

// retry applies the event of a dead letter, late.
func retry(w *fixture, l futurejobs.DeadLetter, begins futurejobs.Effect) (futurejobs.ApplyResult, error) {
	event := l.Event
	begins.Event, begins.OutOfOrder = &event, true
	return w.Apply(w.ctx(), retryDeadLetter(w, l, begins))
}

// refusedJobCase has the events between the refusal of a trigger and the retry of its dead letters, and the results of
// the retry.
type refusedJobCase struct {
	begins       func(key string) futurejobs.Effect
	meanwhile    func(key string)
	letters      int
	begun, ended int
	left         bool
}

// run refuses the trigger, from a sequence on, and retries it.
func (c refusedJobCase) run(t *testing.T, w *fixture, q *access.Quotas, key string, seq uint64) {
	t.Helper()
	withQuota(w, q, 0)
	var letters []futurejobs.DeadLetter
	for range c.letters {
		letters = append(letters, refuseJob(w, seq, c.begins(key)))
		seq++
	}
	c.meanwhile(key)
	withQuota(w, q, 1000)
	var begun, ended int
	for _, l := range letters {
		got, err := retry(w, l, c.begins(key))
		w.must(err)
		begun, ended = begun+got.Created, ended+got.Ended
	}
	left := slices.ContainsFunc(w.all(), func(j futurejobs.Job) bool { return j.Key == key })
	if begun != c.begun || ended != c.ended || left != c.left {
		t.Errorf("%q: %d began, %d ended, one is left: %v; want %d, %d, %v", key, begun, ended, left, c.begun, c.ended, c.left)
	}
}

// endsOfRefusedJobsAreRemembered checks that an end after the refusal of a job ends the job that a retry of the dead
// letter creates.
func endsOfRefusedJobsAreRemembered(t *testing.T, w *fixture) {
	var q access.Quotas
	w.BoundBy(&q)
	at, resolved := w.at, checks.Outcome("resolved")
	end := func(key string, after time.Duration) futurejobs.Effect {
		return actionEffect(w, w.rule, key, at.Add(after), futurejobs.End{Outcome: resolved})
	}
	member := func(key, member string) futurejobs.Effect {
		return actionEffect(w, w.rule, key, at.Add(time.Second), addMember(member, 0))
	}
	begins := func(key string) futurejobs.Effect {
		j := w.job(w.rule, key, w.slot())
		j.Since = at
		return begins(w.rule, j)
	}
	set := func(key string) futurejobs.Effect {
		e := begins(key)
		start := e.Action.(futurejobs.Start)
		start.Sets = []futurejobs.AddMember{addMember("", 0)}
		e.Action = start
		return e
	}
	seq := uint64(8)
	for key, c := range map[string]refusedJobCase{
		"ended":  {begins, func(key string) { w.applyManually(end(key, time.Second)) }, 1, 1, 1, false},
		"open":   {begins, func(string) {}, 1, 1, 0, true},
		"before": {begins, func(key string) { w.applyManually(end(key, -time.Second)) }, 1, 1, 0, true},
		"twice":  {begins, func(key string) { w.applyManually(end(key, time.Second)) }, 2, 2, 2, false},
		"nul\x00": {begins, func(key string) {
			w.applyManually(end(key, time.Second), end(key, 2*time.Second))
		}, 1, 1, 1, false},
		"again": {begins, func(key string) { // the quota allowed another trigger, and its job ended
			withQuota(w, &q, 1000)
			w.applyManually(begins(key))
			w.applyManually(end(key, time.Second))
		}, 1, 1, 1, false},
		"set": {set, func(key string) {
			w.applyManually(member(key, "x"), member(key, "y"))
			w.applyManually(member(key, "z"))
		}, 1, 1, 1, false},
		"part": {set, func(key string) { w.applyManually(member(key, "x")) }, 1, 1, 0, true},
	} {
		c.run(t, w, &q, key, seq)
		seq += uint64(c.letters)
	}
	// A later trigger creates a job as usual.
	later := begins("ended")
	later.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: seq, At: at.Add(time.Minute)}
	if got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, seq-1, seq, later))); got.Created != 1 || got.Ended != 0 {
		t.Errorf("a later trigger: %+v", got.EffectCounts)
	}
}

// retriesApplyRememberedEnds checks that a retry and a concurrent end do not miss each other.
func retriesApplyRememberedEnds(t *testing.T, w *fixture) {
	var q access.Quotas
	w.BoundBy(&q)
	for i := range 20 {
		key := fmt.Sprint(i)
		withQuota(w, &q, 0)
		l := refuseJob(w, uint64(8+i), w.starting(w.rule, key, w.slot()))
		withQuota(w, &q, 1000)
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := retry(w, l, w.starting(w.rule, key, w.slot())); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			e := actionEffect(w, w.rule, key, w.at, futurejobs.End{Outcome: "resolved"})
			if _, err := w.Apply(w.ctx(), futurejobs.EffectBatch{RuleSet: w.set, Effects: []futurejobs.Effect{e}}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
	}
	var left []string
	for _, j := range w.all() {
		left = append(left, j.Key)
	}
	if diff := cmp.Diff([]string(nil), left); diff != "" {
		t.Errorf("jobs that ended are pending (-want +got):\n%s", diff)
	}
}
