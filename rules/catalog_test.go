package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

const shards = 16

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openStore returns a fresh SQLite store.
func openStore(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{DataDir: storetest.DataDir(t), Shards: shards, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// saveRule saves the rule of a text as one that reads the stream S after a sequence.
func saveRule(t testing.TB, s rules.Store, from uint64, text string) rules.RuleVersion {
	t.Helper()
	documents, err := rules.Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	d := documents[0]
	document, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	var reads []rules.StreamBinding
	for _, subject := range d.Subjects() {
		reads = append(reads, rules.StreamBinding{Subject: subject, Stream: "S", From: from})
	}
	v, err := s.Save(t.Context(), rules.RuleVersion{Name: d.Name, Entity: d.Entity, Document: document, Reads: reads}, rules.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newCatalog(t testing.TB, s rules.Store) *rules.Catalog {
	t.Helper()
	b := rules.NewCatalog(s, shards)
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func event(seq uint64, subject, body string) futurejobs.Event {
	return futurejobs.Event{Stream: "S", Subject: subject, Seq: seq, At: time.Date(2026, 1, 1, 10, 5, 0, 999, time.UTC), Data: []byte(body)}
}

// matchedRules returns the result of a match, a line for each effect and refusal.
func matchedRules(b *rules.Catalog, e futurejobs.Event) []string {
	effects, refusals := b.Match(e)
	var lines []string
	for _, f := range effects {
		on := fmt.Sprintf("%s@%d %s", f.Rule.Name, f.Rule.Version, f.Ref.Key)
		switch action := f.Action.(type) {
		case futurejobs.Start:
			lines = append(lines, "start "+on+" "+action.Job.FirstCheckAt.Format("15:04"))
		case futurejobs.End:
			lines = append(lines, "end "+on+" "+string(action.Outcome))
		case futurejobs.AddMember:
			lines = append(lines, fmt.Sprintf("gather %s %d:%s", on, action.Set, action.Member))
		case futurejobs.Update:
			lines = append(lines, "update "+on)
		case futurejobs.Pause:
			lines = append(lines, "pause "+on)
		case futurejobs.Resume:
			lines = append(lines, "resume "+on)
		}
	}
	for _, r := range refusals {
		lines = append(lines, "refuse "+r.Rule+": "+r.Reason)
	}
	return lines
}

func checkMatch(t *testing.T, b *rules.Catalog, e futurejobs.Event, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, matchedRules(b, e)); diff != "" {
		t.Errorf("%s %s (-want +got):\n%s", e.Subject, e.Data, diff)
	}
}

const orderRules = `
name: late
entity: order
trigger: {event: orders.created, key: event.id, if: event.total > 0, since: event.at ?? "2026-01-01T10:05:00Z"}
resolve:
  - {event: orders.shipped, key: event.id}
  - {event: orders.changed, key: event.id, if: event.status == "CANCELLED", as: cancelled}
escalate: [{after: 3h, severity: error}, {after: 4h, severity: warning}]
slot: 15m
labels: {team: x}
`

func TestMatch(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, orderRules)
	b := newCatalog(t, s)

	checkMatch(t, b, event(1, "orders.created", `{"id": 1234, "total": 5}`), "start late@1 1234 13:15")
	checkMatch(t, b, event(1, "orders.created", `{"id": 1234, "total": 0}`))
	checkMatch(t, b, event(1, "orders.created", `{"id": 1, "total": 5, "at": "2026-01-01T11:00:00Z"}`), "start late@1 1 14:00")
	checkMatch(t, b, event(1, "orders.shipped", `{"id": "a/b"}`), "end late@1 a/b resolved")
	checkMatch(t, b, event(1, "orders.changed", `{"id": 1, "status": "CANCELLED"}`), "end late@1 1 cancelled")
	checkMatch(t, b, event(1, "orders.changed", `{"id": 1, "status": "PAID"}`))
	checkMatch(t, b, event(1, "orders.changed", `{"id": 1}`))
	checkMatch(t, b, event(1, "orders.created.eu", `{"id": 1, "total": 5}`))
	checkMatch(t, b, event(1, "parcels.created", `{"id": 1, "total": 5}`))

	checkMatch(t, b, event(1, "orders.created", `{"id": 1}`), "refuse late: trigger: event.total > 0: invalid operation: a missing value > a number")
	checkMatch(t, b, event(1, "orders.created", `{"total": 5}`), "refuse late: trigger: key event.id: expected text or a number, not a missing value")
	checkMatch(t, b, event(1, "orders.created", `hello`), "refuse late: trigger: the body is not JSON")
	checkMatch(t, b, event(1, "orders.created", `[1]`), "refuse late: trigger: event.total > 0: the body is a list, not an object")
	checkMatch(t, b, event(1, "orders.created", `"total"`), "refuse late: trigger: event.total > 0: the body is text, not an object")
	checkMatch(t, b, event(1, "orders.created", `7`), "refuse late: trigger: event.total > 0: the body is a number, not an object")
	checkMatch(t, b, event(1, "orders.shipped", `[1]`), "refuse late: resolve[0]: event.id: the body is a list, not an object")
	checkMatch(t, b, event(1, "orders.shipped", ``), "refuse late: resolve[0]: the event has no body")
	checkMatch(t, b, event(1, "orders.changed", `{"status": 1}`), "refuse late: resolve[1]: event.status == \"CANCELLED\": a number and text are never equal; convert one with int(), float() or string()")
	checkMatch(t, b, event(1, "orders.created", `{"id": 1, "total": 5, "at": "2026-03-01"}`),
		"refuse late: trigger: since is 2026-03-01T00:00:00Z, further ahead of the event than the horizon, 30d")
	checkMatch(t, b, event(1, "orders.created", `{"id": 1, "total": 5, "at": 1767261600000}`),
		`refuse late: trigger: since event.at ?? "2026-01-01T10:05:00Z": expected an instant as text, not a number; for seconds since 1970 write date(…)`)
}

func TestStartedJob(t *testing.T) {
	s := openStore(t)
	v := saveRule(t, s, 0, strings.Replace(orderRules, `, since: event.at ?? "2026-01-01T10:05:00Z"`, "", 1))
	b := newCatalog(t, s)
	body := `{"id": "é 1", "total": 5}`
	effects, _ := b.Match(event(1, "orders.created", body))
	ref := futurejobs.Ref{Shard: futurejobs.ShardOf("order", "é 1", shards), RuleID: v.RuleID, Key: "é 1"}
	if diff := cmp.Diff(ref, effects[0].Ref); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := futurejobs.Job{
		Version: 1,
		Since:   time.Date(2026, 1, 1, 10, 5, 0, 0, time.UTC), FirstCheckAt: time.Date(2026, 1, 1, 13, 15, 0, 0, time.UTC),
		Event: json.RawMessage(body),
	}
	if diff := cmp.Diff(want, effects[0].Action.(futurejobs.Start).Job); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := effects[0].Rule
	if r.MaxSeverity != alerts.Error || !slices.Equal(r.Streams, []string{"S"}) || r.Limits.MaxChecks != 7 {
		t.Errorf("%+v", r)
	}
}

// TestBodyThatIsNotJSON checks that a job can begin with an invalid body, and then has none.
func TestBodyThatIsNotJSON(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, "name: any\nentity: thing\ntrigger: {event: things, key: '\"all\"'}\nescalate: [{after: 1h}]\n")
	b := newCatalog(t, s)
	for body, carried := range map[string]bool{`{"a": 1}`: true, `hello`: false, ``: false, "\"\xff\"": false, strings.Repeat("[", 70) + strings.Repeat("]", 70): false} {
		effects, refusals := b.Match(event(1, "things", body))
		if len(effects) != 1 || len(refusals) != 0 || (effects[0].Action.(futurejobs.Start).Job.Event != nil) != carried {
			t.Errorf("%q: %+v, %+v", body, effects, refusals)
		}
	}
}

func TestClose(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, orderRules)
	saveRule(t, s, 100, strings.Replace(orderRules, "escalate: [{after: 3h, severity: error}, {after: 4h, severity: warning}]", "escalate: [{after: 1h, severity: info}]", 1))
	b := newCatalog(t, s)
	effects, _ := b.Match(event(101, "orders.changed", `{"id": 1, "status": "CANCELLED"}`))
	if len(effects) != 1 || effects[0].Rule.Version != 2 {
		t.Fatalf("%+v", effects)
	}
	job := futurejobs.Job{Ref: futurejobs.Ref{Key: "1"}, Since: time.Date(2026, 1, 1, 7, 0, 0, 0, time.UTC), Step: 1, Version: 1}
	for step, want := range map[int]alerts.Draft{
		0: {Severity: alerts.Error},
		1: {Severity: alerts.Error, Step: "step-1"},
		2: {Severity: alerts.Warning, Step: "step-2", StepIndex: 1},
	} {
		job.Step = step
		want.Status, want.Text, want.Labels = alerts.Resolved, "order 1: cancelled after 3h5m", map[string]string{"team": "x"}
		if diff := cmp.Diff(want, effects[0].Action.(futurejobs.End).Close(job)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", step, diff)
		}
	}
}

func TestQuiet(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, orderRules+"quiet: true\n")
	effects, _ := newCatalog(t, s).Match(event(1, "orders.shipped", `{"id": 1}`))
	if len(effects) != 1 || effects[0].Action.(futurejobs.End).Close != nil {
		t.Errorf("%+v", effects)
	}
}

// TestVersions checks that of a rule's versions the one saved last before the event decides.
func TestVersions(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 100, orderRules)
	saveRule(t, s, 200, strings.Replace(orderRules, "after: 3h", "after: 1h", 1))
	saveRule(t, s, 300, strings.Replace(strings.Replace(orderRules, "orders.created", "orders.placed", 1), "trigger:", "enabled: false\ntrigger:", 1))
	b := newCatalog(t, s)
	order := `{"id": 1, "total": 5}`
	checkMatch(t, b, event(100, "orders.created", order))
	checkMatch(t, b, event(101, "orders.created", order), "start late@1 1 13:15")
	checkMatch(t, b, event(200, "orders.created", order), "start late@1 1 13:15")
	checkMatch(t, b, event(201, "orders.created", order), "start late@2 1 11:15")
	checkMatch(t, b, event(301, "orders.created", order))
	checkMatch(t, b, event(301, "orders.placed", order)) // not enabled
	checkMatch(t, b, event(250, "orders.placed", order))
	checkMatch(t, b, event(301, "orders.shipped", order), "end late@3 1 resolved")
	checkMatch(t, b, event(100, "orders.shipped", order))

	if diff := cmp.Diff(map[string][]string{"S": {"orders.changed", "orders.created", "orders.placed", "orders.shipped"}}, b.SubjectsByStream()); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// TestAnotherStream checks that an event of a stream that a version does not read belongs to an older version or not by
// its time.
func TestAnotherStream(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, orderRules)
	v2 := saveRule(t, s, 0, strings.Replace(orderRules, "after: 3h", "after: 1h", 1))
	document := v2.Document
	v3, err := s.Save(t.Context(), rules.RuleVersion{Name: "late", Entity: "order", Document: document, Reads: []rules.StreamBinding{{Subject: "orders.created", Stream: "T", From: 7}}}, rules.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	b := newCatalog(t, s)
	e := event(9, "orders.created", `{"id": 1, "total": 5}`)
	e.At = v3.SavedAt.Add(-time.Second)
	if got := matchedRules(b, e); len(got) != 1 || !strings.HasPrefix(got[0], "start late@2") {
		t.Errorf("before: %v", got)
	}
	e.At = v3.SavedAt.Add(time.Second)
	if got := matchedRules(b, e); got != nil {
		t.Errorf("after: %v", got)
	}
}

// TestTriggerAndResolve checks that an event that is both leaves nothing pending.
func TestTriggerAndResolve(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, `
name: late
entity: order
trigger: {event: orders.*, key: event.id}
resolve: {event: orders.*, key: event.id, if: event.status == "SHIPPED"}
escalate: [{after: 3h}]
`)
	b := newCatalog(t, s)
	e := event(1, "orders.x", `{"id": 1, "status": "SHIPPED"}`)
	checkMatch(t, b, e, "start late@1 1 13:05", "end late@1 1 resolved")
	effects, _ := b.Match(e)
	net := futurejobs.Fold(effects, futurejobs.FoldInput{}, e.At)
	if len(net.Create) != 0 || len(net.StartedAndEnded) != 1 {
		t.Errorf("%+v", net)
	}
}

func TestCatalogRule(t *testing.T) {
	s := openStore(t)
	v1 := saveRule(t, s, 0, orderRules)
	saveRule(t, s, 0, strings.Replace(orderRules, "15m", "1m", 1))
	b := newCatalog(t, s)
	for version, grid := range map[int32]time.Duration{1: 15 * time.Minute, 2: time.Minute} {
		r, err := b.Rule(t.Context(), v1.RuleID, version)
		if err != nil || r.Version != version || time.Duration(r.Grid) != grid {
			t.Errorf("version %d: %+v, %v", version, r, err)
		}
		again, _ := b.Rule(t.Context(), v1.RuleID, version)
		if again != r {
			t.Errorf("version %d was compiled twice", version)
		}
	}
	if _, err := b.Rule(t.Context(), v1.RuleID, 9); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("an unknown version: %v", err)
	}
	if got := b.FinestGrids()["S"]; time.Duration(got) != time.Minute {
		t.Errorf("finest %v", time.Duration(got))
	}
	if got := b.NextSlot(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)); !got.Equal(time.Date(2026, 1, 1, 10, 1, 0, 0, time.UTC)) {
		t.Errorf("next slot %v", got)
	}
}

// The newest version ends the jobs of older ones: they wait for its streams, too, or they would be checked before those
// are read.
func TestOlderVersionsWaitForStreamsOfNewest(t *testing.T) {
	s := openStore(t)
	v1 := saveRule(t, s, 0, orderRules)
	v2 := saveRule(t, s, 0, strings.Replace(orderRules, "15m", "1h", 1))
	v2.Reads = []rules.StreamBinding{{Subject: "orders.created", Stream: "S"}, {Subject: "orders.shipped", Stream: "T"}, {Subject: "orders.changed", Stream: "T"}}
	if _, err := s.Save(t.Context(), v2, rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	b := newCatalog(t, s)
	for version, want := range map[int32][]string{1: {"S", "T"}, 2: {"S", "T"}, 3: {"T"}} {
		r, err := b.Rule(t.Context(), v1.RuleID, version)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Streams, want) {
			t.Errorf("version %d waits for %q, want %q", version, r.Streams, want)
		}
		if again, _ := b.Rule(t.Context(), v1.RuleID, version); again != r {
			t.Errorf("version %d was put together twice", version)
		}
	}
	if got := time.Duration(b.FinestGrids()["T"]); got != 15*time.Minute {
		t.Errorf("T is marked each %s, want as often as the jobs are due", got)
	}
}

// TestLazyVersion checks that an empty catalog still finds the versions of jobs.
func TestLazyVersion(t *testing.T) {
	s := openStore(t)
	v := saveRule(t, s, 0, orderRules)
	b := rules.NewCatalog(s, shards) // never refreshed
	if !b.NextSlot(time.Now()).IsZero() || len(b.SubjectsByStream()) != 0 || b.Revision() >= 0 {
		t.Error("an empty catalog is not empty")
	}
	r, err := b.Rule(t.Context(), v.RuleID, v.Version)
	if err != nil || r.Name != "late" {
		t.Fatalf("%+v, %v", r, err)
	}
	again, _ := b.Rule(t.Context(), v.RuleID, v.Version)
	if again != r {
		t.Error("it was compiled twice")
	}
}

// TestBrokenVersion checks that an unreadable version stops no other rule, and that its events are refused, not lost.
func TestBrokenVersion(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, orderRules)
	broken, err := s.Save(t.Context(), rules.RuleVersion{
		Name: "newer", Entity: "order", Document: []byte(`{"name": "newer", "telepathy": true}`),
		Reads: []rules.StreamBinding{{Subject: "orders.>", Stream: "S"}},
	}, rules.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	b := newCatalog(t, s)
	checkMatch(t, b, event(1, "orders.shipped", `{"id": 1}`), "end late@1 1 resolved",
		`refuse newer: rule newer version 1: read document: json: unknown field "telepathy"`)
	if _, err := b.Rule(t.Context(), broken.RuleID, 1); err == nil {
		t.Error("it can be read")
	}
}

func TestRefresh(t *testing.T) {
	s := openStore(t)
	b := newCatalog(t, s)
	before := b.Revision()
	v := saveRule(t, s, 0, orderRules)
	checkMatch(t, b, event(1, "orders.shipped", `{"id": 1}`))
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.Revision() <= before {
		t.Errorf("revision %d after %d", b.Revision(), before)
	}
	r, _ := b.Rule(t.Context(), v.RuleID, 1)
	saveRule(t, s, 0, strings.Replace(orderRules, "15m", "1m", 1))
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, _ := b.Rule(t.Context(), v.RuleID, 1); again != r {
		t.Error("a version that did not change was compiled again")
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	s := openStore(t)
	v := saveRule(t, s, 0, orderRules)
	b := newCatalog(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if got := matchedRules(b, event(1, "orders.created", `{"id": 1, "total": 5}`)); len(got) != 1 {
					t.Errorf("%v", got)
					return
				}
				r, err := b.Rule(t.Context(), v.RuleID, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := r.Handler.Check(t.Context(), checks.Check{Key: "1", Slot: time.Unix(1e9, 0)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		saveRule(t, s, 1000, strings.Replace(orderRules, "15m", fmt.Sprintf("%ds", []int{1, 2, 3, 4, 5}[i%5]), 1))
		if err := b.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
}
