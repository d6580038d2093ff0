package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/rules"
)

// binding has two rules: one reads from a stream that was applied up to 30, and the other one is to move there.
type binding struct {
	stays, goes rules.RuleVersion
	created     time.Time
}

// stream sets the creation time of a stream in its cursor.
func stream(w *fixture, name string, created time.Time) {
	w.t.Helper()
	old := cursor(w, name)
	to := old
	to.StreamCreatedAt = created
	w.must(w.ResetCursor(w.ctx(), old, to))
}

// bindingsOf returns the reads of each version of a rule.
func bindingsOf(w *fixture, name string) map[int32][]rules.StreamBinding {
	w.t.Helper()
	reads := map[int32][]rules.StreamBinding{}
	for _, v := range must[[]rules.RuleVersion](w.t)(w.Named(w.ctx(), name)) {
		reads[v.Version] = v.Reads
	}
	return reads
}

// rebindRereadsNewSubjects checks that a stream moves back for new reads, and that no rule receives an event twice.
func rebindRereadsNewSubjects(t *testing.T, w *fixture) {
	b := w.binding()
	last := cursor(w, "ORDERS").LastAt
	revision := must[int64](t)(w.Revision(w.ctx()))
	fresh := rules.StreamBinding{
		Subject: "b", Stream: "ORDERS", From: 12, At: w.slot(), CreatedAt: b.created, Given: []rules.CopiedFrom{{Stream: "OLD", Through: 8}},
	}
	kept := rules.StreamBinding{Subject: "c", Stream: "ORDERS", From: 30}
	w.must(w.Rebind(w.ctx(), "goes", revision, map[int32][]rules.StreamBinding{2: {fresh, kept}}))

	c := cursor(w, "ORDERS")
	if c.LastSeq != 12 || !c.LastAt.IsZero() || !c.ReadThrough.IsZero() || !c.StreamCreatedAt.Equal(b.created) {
		t.Errorf("the stream is read from %+v, want from 12, and nothing known to be read through", c)
	}
	want := map[int32][]rules.StreamBinding{1: {{Subject: "b", Stream: "OLD", From: 3}}, 2: {fresh, kept}}
	if diff := cmp.Diff(want, bindingsOf(w, "goes")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int32][]rules.StreamBinding{1: b.stays.Reads}, bindingsOf(w, "stays")); diff != "" {
		t.Errorf("reads of the other rule (-want +got):\n%s", diff)
	}
	if now := must[int64](t)(w.Revision(w.ctx())); now != revision+1 {
		t.Errorf("the revision went from %d to %d", revision, now)
	}

	// Ingest advances to 20, and another subject is found at 10.
	apply := batch(w, 12, 20)
	apply.RuleSet = revision + 1
	_, err := w.Apply(w.ctx(), apply)
	w.must(err)
	again := rules.StreamBinding{Subject: "d", Stream: "ORDERS", From: 10, At: w.slot(), CreatedAt: b.created}
	w.must(w.Rebind(w.ctx(), "goes", revision+1, map[int32][]rules.StreamBinding{2: {fresh, kept, again}}))
	fresh.From, fresh.At = 20, later(last, fresh.At)
	if diff := cmp.Diff([]rules.StreamBinding{fresh, kept, again}, bindingsOf(w, "goes")[2]); diff != "" {
		t.Errorf("reads after the cursor moved back to 10 (-want +got):\n%s", diff)
	}
	if c := cursor(w, "ORDERS"); c.LastSeq != 10 {
		t.Errorf("the stream is read from %d, want 10", c.LastSeq)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// rebindStartsNewStreams checks that a stream without readers is read from the start of the rules' reads.
func rebindStartsNewStreams(t *testing.T, w *fixture) {
	b := w.binding()
	stream(w, "OLD", b.created.Add(-time.Hour)) // another stream of the same name
	for _, name := range []string{"stays", "goes"} {
		revision := must[int64](t)(w.Revision(w.ctx()))
		reads := map[int32][]rules.StreamBinding{b.goes.Version: {}}
		if name == "stays" {
			reads = map[int32][]rules.StreamBinding{1: {}}
		} else {
			reads[1] = []rules.StreamBinding{}
		}
		w.must(w.Rebind(w.ctx(), name, revision, reads))
	}
	revision := must[int64](t)(w.Revision(w.ctx()))
	w.must(w.Rebind(w.ctx(), "goes", revision, map[int32][]rules.StreamBinding{2: {
		{Subject: "b", Stream: "OLD", From: 40, At: w.slot(), CreatedAt: b.created},
		{Subject: "b", Stream: "NEW", From: 50, At: w.slot(), CreatedAt: b.created},
	}}))
	if c := cursor(w, "OLD"); c.LastSeq != 40 || !c.StreamCreatedAt.Equal(b.created) {
		t.Errorf("a stream that no rule reads any more: %+v", c)
	}
	if c := cursor(w, "NEW"); c.LastSeq != 50 {
		t.Errorf("a stream that no rule ever read: %+v", c)
	}
}

// rebindKeepsLaggingStreams checks that a cursor before the new read stays, and that its read-through time is
// cleared.
func rebindKeepsLaggingStreams(t *testing.T, w *fixture) {
	b := w.binding()
	w.must(w.Rebind(w.ctx(), "goes", must[int64](t)(w.Revision(w.ctx())), map[int32][]rules.StreamBinding{2: {
		{Subject: "b", Stream: "ORDERS", From: 40, At: w.slot(), CreatedAt: b.created},
	}}))
	if c := cursor(w, "ORDERS"); c.LastSeq != 30 || !c.ReadThrough.IsZero() {
		t.Errorf("the stream is read from %+v, want from 30, and nothing known to be read through", c)
	}
}

// rebindRefusesChangedRules checks that a rebind that was evaluated with other rules, or another stream of the name, changes
// nothing.
func rebindRefusesChangedRules(t *testing.T, w *fixture) {
	b := w.binding()
	revision := must[int64](t)(w.Revision(w.ctx()))
	rebind := func(revision int64, created time.Time) func() error {
		return func() error {
			return w.Rebind(w.ctx(), "goes", revision, map[int32][]rules.StreamBinding{2: {{Subject: "b", Stream: "ORDERS", From: 12, CreatedAt: created}}})
		}
	}
	w.set = revision
	checkRefused(w, rules.ErrConflict, rebind(revision, b.created.Add(time.Minute)))
	w.must(w.Pause(w.ctx(), "goes", true))
	w.set = must[int64](t)(w.Revision(w.ctx()))
	checkRefused(w, rules.ErrConflict, rebind(revision, b.created))
	if c := cursor(w, "ORDERS"); c.LastSeq != 30 {
		t.Errorf("the stream is read from %d", c.LastSeq)
	}
	revision = must[int64](t)(w.Revision(w.ctx()))
	w.must(w.Pause(w.ctx(), "stays", true)) // another rule
	w.must(rebind(revision, b.created)())
}

// concurrentRebindsConflict checks concurrent rebinds of a rule from the same revision: one succeeds, and the others
// return a conflict and change nothing.
func concurrentRebindsConflict(t *testing.T, w *fixture) {
	const clients = 3
	w.binding()
	for round := range 5 {
		revision := must[int64](t)(w.Revision(w.ctx()))
		var binding sync.WaitGroup
		var errs [clients]error
		begin := make(chan struct{})
		for n := range clients {
			binding.Go(func() {
				<-begin
				errs[n] = w.Rebind(w.ctx(), "goes", revision, map[int32][]rules.StreamBinding{2: {{Subject: "b", Stream: fmt.Sprintf("S%d-%d", round, n), From: 7}}})
			})
		}
		close(begin)
		binding.Wait()
		won := -1
		for n, err := range errs {
			switch {
			case err == nil && won < 0:
				won = n
			case !errors.Is(err, rules.ErrConflict):
				t.Errorf("round %d, client %d: %v, want a conflict for all but one", round, n, err)
			}
		}
		if won < 0 {
			t.Fatalf("round %d: no client succeeded: %v", round, errs)
		}
		if got := bindingsOf(w, "goes")[2]; len(got) != 1 || got[0].Stream != fmt.Sprintf("S%d-%d", round, won) {
			t.Errorf("round %d: the rule reads %v, and client %d has bound it", round, got, won)
		}
		if after := must[int64](t)(w.Revision(w.ctx())); after != revision+1 {
			t.Errorf("round %d: %d changes were made, want one", round, after-revision)
		}
	}
}
