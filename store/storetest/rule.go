package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

func rulesAreSaved(t *testing.T, w *world) {
	before := must[int64](t)(w.Revision(w.ctx()))
	first := rules.Saved{
		Name: "payment", Entity: "payment", Document: []byte(`{"a":"☃"}`), Bundle: "shop",
		Reads: []rules.Read{{Subject: "p.a", Stream: "PAY", From: 9}, {Subject: "p.b", Stream: "PAY", From: 4}},
	}
	v1 := must[rules.Saved](t)(w.Save(w.ctx(), first))
	second := first
	second.Document, second.Reads = []byte(`{"a":2}`), nil
	v2 := must[rules.Saved](t)(w.Save(w.ctx(), second))
	if v1.Version != 1 || v2.Version != 2 || v1.RuleID != v2.RuleID || v1.SavedAt.IsZero() || v1.RuleID == w.rule.ID {
		t.Errorf("saved %+v, then %+v", v1, v2)
	}
	if c := w.cursor("PAY"); c.LastSeq != 4 {
		t.Errorf("the stream is read from %d, want the earliest", c.LastSeq)
	}
	revision, loaded, err := w.Load(w.ctx())
	w.must(err)
	if revision != before+2 {
		t.Errorf("revision %d, want %d", revision, before+2)
	}
	if len(loaded) != 3 {
		t.Fatalf("%d versions, want 3", len(loaded))
	}
	if diff := cmp.Diff([]rules.Saved{v1, v2}, loaded[1:]); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	got := must[rules.Saved](t)(w.Version(w.ctx(), v1.RuleID, 1))
	if diff := cmp.Diff(v1, got); diff != "" {
		t.Errorf("version 1 (-want +got):\n%s", diff)
	}
	if _, err := w.Version(w.ctx(), v1.RuleID, 3); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("version 3: %v, want ErrNotFound", err)
	}
}

func rulesKeepTheirEntity(t *testing.T, w *world) {
	before := must[int64](t)(w.Revision(w.ctx()))
	_, err := w.Save(w.ctx(), rules.Saved{Name: w.rule.Name, Entity: "parcel", Document: []byte(`{}`)})
	if !errors.Is(err, rules.ErrEntityChanged) {
		t.Fatalf("save: %v, want ErrEntityChanged", err)
	}
	if after := must[int64](t)(w.Revision(w.ctx())); after != before {
		t.Errorf("the revision went from %d to %d", before, after)
	}
	w.start(w.slot(), "a") // and nobody is kept waiting
}
