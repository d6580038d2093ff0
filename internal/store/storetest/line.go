package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// lineRules has two rules on the lines of ORDERS: one on the operator's line, applied up to 30, and one on the tenants'
// line, applied up to ahead.
type lineRules struct {
	*fixture
	created time.Time
}

const tenantsLine = "ORDERS/tenants"

func (w *fixture) lineRules(ahead uint64) lineRules {
	w.t.Helper()
	l := lineRules{w, w.slot().Add(-time.Hour)}
	_, err := w.Apply(w.ctx(), batch(w, 7, 30))
	w.must(err)
	stream(w, "ORDERS", l.created)
	w.must(w.MarkRead(w.ctx(), "ORDERS", 30, w.slot()))
	l.save("operator", l.read("ORDERS", 30))
	if ahead == 0 {
		return l
	}
	l.save("tenant", l.read(tenantsLine, 10))
	stream(w, tenantsLine, l.created)
	b := batch(w, 10, ahead)
	b.Stream, b.RuleSet = tenantsLine, must[int64](w.t)(w.Revision(w.ctx()))
	_, err = w.Apply(w.ctx(), b)
	w.must(err)
	w.must(w.MarkRead(w.ctx(), tenantsLine, ahead, w.slot()))
	return l
}

func (l lineRules) read(line string, from uint64) rules.StreamBinding {
	return rules.StreamBinding{Subject: "a", Stream: line, From: from, At: l.slot(), CreatedAt: l.created}
}

func (l lineRules) save(name string, reads ...rules.StreamBinding) rules.RuleVersion {
	l.t.Helper()
	return must[rules.RuleVersion](l.t)(l.Save(l.ctx(), rules.RuleVersion{Name: name, Entity: "e", Document: []byte(`{}`), Reads: reads}, rules.AnyVersion))
}

// moveLine moves a rule with one version to a line.
func (l lineRules) moveLine(rule rules.RuleVersion, line string) {
	l.t.Helper()
	reads := slices.Clone(rule.Reads)
	for i := range reads {
		reads[i].Stream = line
	}
	revision := must[int64](l.t)(l.Revision(l.ctx()))
	l.must(l.Rebind(l.ctx(), rule.Name, revision, map[int32][]rules.StreamBinding{rule.Version: reads}))
}

func (l lineRules) checkBinding(name string, want rules.StreamBinding) {
	l.t.Helper()
	for version, reads := range bindingsOf(l.fixture, name) {
		if diff := cmp.Diff([]rules.StreamBinding{want}, reads); diff != "" {
			l.t.Errorf("version %d of %s (-want +got):\n%s", version, name, diff)
		}
	}
}

// newLineContinuesOldOne checks that a line without rules gets the cursor of the line that its first rule leaves.
func newLineContinuesOldOne(t *testing.T, w *fixture) {
	l := w.lineRules(0)
	w.must(w.RecordGap(w.ctx(), "ORDERS", w.slot()))
	goes := l.save("goes", l.read("ORDERS", 30))
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: tenantsLine, LastSeq: 3})) // of rules that are gone
	if _, err := w.Apply(w.ctx(), futurejobs.EffectBatch{
		Stream: "ORDERS", After: 30, Last: 40, LastAt: w.slot().Add(time.Minute), RuleSet: must[int64](t)(w.Revision(w.ctx())),
	}); err != nil {
		t.Fatal(err)
	}
	l.moveLine(goes, tenantsLine)
	want := l.read(tenantsLine, 40)
	want.At = w.slot().Add(time.Minute)
	l.checkBinding("goes", want)
	l.checkBinding("operator", l.read("ORDERS", 30))
	left, joined := cursor(w, "ORDERS"), cursor(w, tenantsLine)
	joined.Stream, joined.Created = left.Stream, left.Created
	if diff := cmp.Diff(left, joined); diff != "" || left.LastSeq != 40 || left.ReadThrough.IsZero() || left.ReceivingSince.IsZero() {
		t.Errorf("the line that is left and the one that is joined (-left +joined):\n%s", diff)
	}
	if all := must[map[string]futurejobs.Cursor](t)(w.Cursors(w.ctx())); all[tenantsLine].LastSeq != 40 {
		t.Errorf("the cursor is not listed: %+v", all)
	}
}

// linesMoveBack checks that a line that is ahead moves back for a rule that joins it, and that its own rules receive no
// event twice.
func linesMoveBack(t *testing.T, w *fixture) {
	l := w.lineRules(90)
	goes := l.save("goes", l.read("ORDERS", 35))
	l.moveLine(goes, tenantsLine)
	l.checkBinding("goes", l.read(tenantsLine, 35)) // after 30, where the line is that it left
	l.checkBinding("tenant", l.read(tenantsLine, 90))
	if c := cursor(w, tenantsLine); c.LastSeq != 30 || !c.ReadThrough.IsZero() {
		t.Errorf("the line is at %d, marked through %s", c.LastSeq, c.ReadThrough)
	}
}

// laggingLinesKeepPosition checks that a line that is behind stays there, and that a rule that joins it skips what it had.
func laggingLinesKeepPosition(t *testing.T, w *fixture) {
	l := w.lineRules(20)
	goes := l.save("goes", l.read("ORDERS", 8))
	l.moveLine(goes, tenantsLine)
	l.checkBinding("goes", l.read(tenantsLine, 30))
	l.checkBinding("tenant", l.read(tenantsLine, 10))
	if c := cursor(w, tenantsLine); c.LastSeq != 20 || !c.ReadThrough.IsZero() {
		t.Errorf("the line is at %d, marked through %s", c.LastSeq, c.ReadThrough)
	}
}

// rulesAreSavedOnLine checks that a version continues on the line of the versions before it: only a rebind changes
// the line of all at once.
func rulesAreSavedOnLine(t *testing.T, w *fixture) {
	l := w.lineRules(90)
	saved := l.save("operator", l.read(tenantsLine, 33))
	if diff := cmp.Diff([]rules.StreamBinding{l.read("ORDERS", 33)}, saved.Reads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if saved := l.save("new", l.read(tenantsLine, 95)); saved.Reads[0].Stream != tenantsLine {
		t.Errorf("a new rule reads %+v", saved.Reads)
	}
}

// batchesOfLineFollowItsRules checks that a batch of the tenants' line is refused if a rule of the line changed since it
// was matched: the rule may match one of its events.
func batchesOfLineFollowItsRules(t *testing.T, w *fixture) {
	l := w.lineRules(50)
	b := futurejobs.EffectBatch{Stream: tenantsLine, After: 50, Last: 60, LastAt: w.slot(), RuleSet: must[int64](t)(w.Revision(w.ctx()))}
	l.save("joins", l.read(tenantsLine, 55))
	if _, err := w.Apply(w.ctx(), b); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("a batch of former rules: %v", err)
	}
	b.RuleSet = must[int64](t)(w.Revision(w.ctx()))
	if _, err := w.Apply(w.ctx(), b); err != nil {
		t.Error(err)
	}
}
