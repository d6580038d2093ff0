package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// writeDeadLetter stores a dead letter of a rule, or of none, and returns it as stored.
func writeDeadLetter(w *fixture, rule string, seq uint64) futurejobs.DeadLetter {
	w.t.Helper()
	must[futurejobs.ApplyResult](w.t)(w.Apply(w.ctx(), futurejobs.EffectBatch{RuleSet: w.set, DeadLetters: []futurejobs.DeadLetter{{
		Event: futurejobs.Event{Stream: "ORDERS", Subject: fmt.Sprintf("orders.%d", seq), Seq: seq}, Rule: rule, Reason: "bad",
	}}}))
	return must[futurejobs.Page[futurejobs.DeadLetter]](w.t)(w.DeadLetters(w.ctx(), futurejobs.Filter{Limit: 1})).Items[0]
}

// retryDeadLetter returns the batch that retries a dead letter.
func retryDeadLetter(w *fixture, l futurejobs.DeadLetter, effects ...futurejobs.Effect) futurejobs.EffectBatch {
	return futurejobs.EffectBatch{RuleSet: w.set, Letter: &l, AuditAction: "dead-letter.retry", Effects: effects}
}

func deadLettersAreRetriedOnce(t *testing.T, w *fixture) {
	l := writeDeadLetter(w, w.rule.Name, 8)
	const people = 6
	var done atomic.Int32
	var all sync.WaitGroup
	for range people {
		all.Go(func() {
			_, err := w.Apply(w.ctx(), retryDeadLetter(w, l, w.starting(w.rule, "a", w.slot())))
			switch {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, futurejobs.ErrNotFound):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 || len(w.all()) != 1 {
		t.Errorf("taken in %d times, %d jobs", done.Load(), len(w.all()))
	}
	// After the job's end, the letter no longer exists and starts no other job.
	w.applyManually(w.ending(w.rule, "a"))
	if _, err := w.Apply(w.ctx(), retryDeadLetter(w, l, w.starting(w.rule, "a", w.slot()))); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a letter that is gone: %v, want ErrNotFound", err)
	}
	checkBalance(w, 1)
	object := fmt.Sprintf("dead-letter/%d", l.ID)
	if got := auditEntries(w, access.AuditFilter{Object: object}); len(got) != 1 || got[0].Detail != "ingested; jobs created: 1, ended: 0, changed: 0" {
		t.Errorf("the audit of %s: %+v", object, got)
	}
	if got := auditEntries(w, access.AuditFilter{Object: "job/" + w.rule.Name + "/a", Action: "dead-letter.retry"}); len(got) != 1 {
		t.Errorf("the audit of the job: %+v", got)
	}
}

func refusedRetriesKeepDeadLetter(t *testing.T, w *fixture) {
	l := writeDeadLetter(w, w.rule.Name, 8)
	w.start(w.slot(), "a")
	from := must[futurejobs.DeadLetter](t)(w.DeadLetter(w.ctx(), l.ID)).At
	for try, b := range []futurejobs.EffectBatch{
		{DeadLetters: []futurejobs.DeadLetter{{Event: l.Event, Rule: w.rule.Name, Reason: "no key"}, {Event: l.Event, Rule: w.rule.Name, Reason: "no text\x00"}}},
		{Effects: []futurejobs.Effect{actionEffect(w, w.rule, "a", w.slot(), futurejobs.Update{
			Merge: func(json.RawMessage) (json.RawMessage, error) { return nil, errors.New("too large") },
		})}},
	} {
		want := []string{"no key; no text\x00", "too large"}[try]
		b.RuleSet, b.Letter = w.set, &l
		got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
		kept := must[futurejobs.DeadLetter](t)(w.DeadLetter(w.ctx(), l.ID))
		if got.RefusedAgain != want || kept.Reason != want || kept.Tries != try+1 || kept.LastTriedAt.Before(from) || !kept.At.Equal(from) {
			t.Errorf("try %d: again %q, kept %+v", try+1, got.RefusedAgain, kept)
		}
	}
	if all := pages(t, futurejobs.Filter{}, w.DeadLetters); len(all) != 1 {
		t.Errorf("%d letters, want the one", len(all))
	}
}

// deadLettersOfSeveralRulesAreSplit checks that a letter without a rule is retried with all rules: each rule that refuses it
// gets a letter of its own, and the original is deleted.
func deadLettersOfSeveralRulesAreSplit(t *testing.T, w *fixture) {
	l := writeDeadLetter(w, "", 8)
	b := retryDeadLetter(w, l, w.starting(w.rule, "a", w.slot()))
	b.DeadLetters = []futurejobs.DeadLetter{{Event: l.Event, Rule: "other", Part: futurejobs.Triggers, Reason: "no key"}}
	got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	left := pages(t, futurejobs.Filter{}, w.DeadLetters)
	if got.RefusedAgain != "" || got.Created != 1 || len(left) != 1 || left[0].Rule != "other" || left[0].Part != futurejobs.Triggers || left[0].ID == l.ID {
		t.Errorf("applied %+v, left %+v", got, left)
	}
}

func lettersAreDropped(t *testing.T, w *fixture) {
	var kept []futurejobs.DeadLetter
	for seq := range uint64(6) {
		kept = append(kept, writeDeadLetter(w, fmt.Sprintf("r%d", seq%2), 8+seq))
	}
	after := must[[]futurejobs.DeadLetter](t)(w.LettersAfter(w.ctx(), futurejobs.Filter{Rule: "r1"}, kept[1].ID, 1))
	if len(after) != 1 || after[0].ID != kept[3].ID {
		t.Errorf("after letter %d comes %+v, want %d", kept[1].ID, after, kept[3].ID)
	}
	if err := w.DropLetter(w.ctx(), kept[0].ID); err != nil {
		t.Error(err)
	}
	if err := w.DropLetter(w.ctx(), kept[0].ID); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("dropped twice: %v, want ErrNotFound", err)
	}
	for _, step := range []struct {
		filter futurejobs.Filter
		want   int64
	}{{futurejobs.Filter{Rule: "r1", Subject: "orders.9"}, 1}, {futurejobs.Filter{Rule: "r0"}, 2}, {futurejobs.Filter{Subject: "orders.%"}, 0}, {futurejobs.Filter{}, 2}} {
		if n := must[int64](t)(w.DropLetters(w.ctx(), step.filter)); n != step.want {
			t.Errorf("%+v: %d dropped, want %d", step.filter, n, step.want)
		}
	}
	var texts []string
	for _, e := range auditEntries(w, access.AuditFilter{Action: "dead-letter.drop"}) {
		texts = append(texts, e.Object+" "+e.Detail)
	}
	want := fmt.Sprintf("[dead-letter 2 dropped dead-letter 2 dropped of rule r0 dead-letter 1 dropped of rule r1 on orders.9 dead-letter/%d ]", kept[0].ID)
	if got := fmt.Sprint(texts); got != want {
		t.Errorf("the audit has %s, want %s", got, want)
	}
}
