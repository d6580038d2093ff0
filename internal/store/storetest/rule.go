package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

func rulesAreSaved(t *testing.T, w *fixture) {
	before := must[int64](t)(w.Revision(w.ctx()))
	first := rules.RuleVersion{
		Name: "payment", Entity: "payment", Document: []byte(`{"a":"☃"}`), Bundle: "shop",
		Reads: []rules.StreamBinding{{Subject: "p.a", Stream: "PAY", From: 9}, {Subject: "p.b", Stream: "PAY", From: 4}},
	}
	first.Bounds = &access.Bounds{Token: "acme", Subjects: []string{"p.>"}, Publish: []string{}, Handlers: []string{"acme-*"}}
	v1 := must[rules.RuleVersion](t)(w.Save(w.ctx(), first, 0))
	second := first
	second.Document, second.Reads, second.Bounds, second.Sets = []byte(`{"a":2}`), nil, nil, []byte{1, 0, 2}
	v2 := must[rules.RuleVersion](t)(w.Save(access.As(w.ctx(), ada), second, 1))
	if v1.Version != 1 || v2.Version != 2 || v1.RuleID != v2.RuleID || v1.SavedAt.IsZero() || v1.RuleID == w.rule.ID {
		t.Errorf("saved %+v, then %+v", v1, v2)
	}
	if v1.SavedBy != access.NodeItself || v2.SavedBy != ada.Name {
		t.Errorf("saved by %q, then by %q", v1.SavedBy, v2.SavedBy)
	}
	if c := cursor(w, "PAY"); c.LastSeq != 4 {
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
	if diff := cmp.Diff([]rules.RuleVersion{v1, v2}, loaded[1:]); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	got := must[rules.RuleVersion](t)(w.Version(w.ctx(), v1.RuleID, 1))
	if diff := cmp.Diff(v1, got); diff != "" {
		t.Errorf("version 1 (-want +got):\n%s", diff)
	}
	if _, err := w.Version(w.ctx(), v1.RuleID, 3); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("version 3: %v, want ErrNotFound", err)
	}
}

// versionsArePruned checks that old versions are deleted once they are no longer needed: the newest, the first, one of
// a job or an open outage, and one that an unapplied event may concern all stay.
func versionsArePruned(t *testing.T, w *fixture) {
	prune := func() int64 { return must[int64](t)(w.PruneVersions(w.ctx(), func(string) bool { return false })) }
	first := *w.rule
	versions := map[int32]*futurejobs.Rule{1: w.rule}
	for range 105 {
		next := w.save(w.rule.Name, "order")
		versions[next.Version] = next
	}
	w.applyManually(w.starting(versions[3], "a", w.slot()))
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, versions[4], 1)))
	if n := prune(); n != 0 {
		t.Errorf("%d versions went that events may be for", n)
	}
	w.must(w.MarkRead(w.ctx(), "ORDERS", 7, must[time.Time](t)(w.Now(w.ctx())).Add(time.Hour)))
	before := must[int64](t)(w.Revision(w.ctx()))
	if n := prune(); n != 3 {
		t.Errorf("%d versions went, want 2, 5 and 6", n)
	}
	if n := prune(); n != 0 {
		t.Errorf("%d versions went after that", n)
	}
	changes := must[rules.Changes](t)(w.Changes(w.ctx(), before))
	if !changes.All || len(changes.Saved) != 103 {
		t.Fatalf("nodes read %d versions again, all: %t; want 103", len(changes.Saved), changes.All)
	}
	for i, want := range []int32{1, 3, 4, 7} {
		if got := changes.Saved[i]; got.Version != want || got.RuleID != first.ID {
			t.Errorf("version %d stays, want %d", got.Version, want)
		}
	}
	w.set = changes.Revision
	w.settle(w.exhausted(w.one("a")))
	if n := prune(); n != 1 {
		t.Errorf("%d versions went, want 3, whose job has ended", n)
	}
}

// changesAreLoadedAlone checks that exactly the changes since a revision are loaded.
func changesAreLoadedAlone(t *testing.T, w *fixture) {
	other := w.save("other", "order")
	since := w.set
	changes := func() rules.Changes { return must[rules.Changes](t)(w.Changes(w.ctx(), since)) }
	if got := changes(); got.All || got.Revision != since || len(got.Saved) != 0 {
		t.Errorf("nothing changed: %+v", got)
	}
	w.must(w.Pause(w.ctx(), other.Name, true))
	if got := changes(); got.All || len(got.Saved) != 1 || got.Saved[0].RuleID != other.ID || got.Saved[0].Version != 0 || got.Saved[0].PausedAt.IsZero() {
		t.Errorf("a pause: %+v", got)
	}
	w.save(w.rule.Name, "order")
	if got := changes(); len(got.Saved) != 2 || got.Saved[0].RuleID != w.rule.ID || got.Saved[0].Version != 2 || got.Saved[1].Version != 0 {
		t.Errorf("a version: %+v", got)
	}
	since = w.set
	must[int32](t)(w.Delete(w.ctx(), other.Name, rules.AnyVersion))
	if got := changes(); got.All || len(got.Saved) != 1 || got.Saved[0].DeletedAt.IsZero() {
		t.Errorf("a deletion: %+v", got)
	}
	if got := must[rules.Changes](t)(w.Changes(w.ctx(), -1)); !got.All || len(got.Saved) != 2 {
		t.Errorf("all: %+v", got)
	}
}

// textsOfVersionsAreKept checks that the text of an author is kept beside each version, and that lists leave it out.
func textsOfVersionsAreKept(t *testing.T, w *fixture) {
	r := rules.RuleVersion{Name: "payment", Entity: "payment", Document: []byte(`{"a":1}`), Text: "# why ☃\na: 1\n"}
	v1 := must[rules.RuleVersion](t)(w.Save(w.ctx(), r, 0))
	r.Document, r.Text = []byte(`{"a":2}`), ""
	v2 := must[rules.RuleVersion](t)(w.Save(w.ctx(), r, 1))
	check := func(v rules.RuleVersion, want string) {
		t.Helper()
		if got := must[string](t)(w.Text(w.ctx(), v.RuleID, v.Version)); got != want {
			t.Errorf("version %d has the text %q, want %q", v.Version, got, want)
		}
	}
	check(v1, "# why ☃\na: 1\n")
	check(v2, "")
	before := must[int64](t)(w.Revision(w.ctx()))
	w.must(w.SetText(w.ctx(), v2.RuleID, v2.Version, "# two\na: 2\n"))
	check(v1, "# why ☃\na: 1\n")
	check(v2, "# two\na: 2\n")
	w.must(w.SetText(w.ctx(), v2.RuleID, v2.Version, ""))
	check(v2, "")
	if after := must[int64](t)(w.Revision(w.ctx())); after != before {
		t.Errorf("the revision went from %d to %d", before, after)
	}
	for n := range int32(9) {
		r.Text = "# again\n"
		must[rules.RuleVersion](t)(w.Save(w.ctx(), r, 2+n))
	}
	check(v1, "")
	check(rules.RuleVersion{RuleID: v1.RuleID, Version: 11}, "# again\n")
	check(rules.RuleVersion{RuleID: v1.RuleID, Version: 3}, "# again\n")
	for _, v := range must[[]rules.RuleVersion](t)(w.Named(w.ctx(), "payment")) {
		if v.Text != "" {
			t.Errorf("version %d is listed with its text", v.Version)
		}
	}
	if _, err := w.Text(w.ctx(), v2.RuleID, 99); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a version that does not exist: %v", err)
	}
	if err := w.SetText(w.ctx(), v2.RuleID, 99, "# three\n"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a version that does not exist: %v", err)
	}
}

func rulesKeepTheirEntity(_ *testing.T, w *fixture) {
	checkRefused(w, rules.ErrEntityChanged, func() error {
		_, err := w.Save(w.ctx(), rules.RuleVersion{Name: w.rule.Name, Entity: "parcel", Document: []byte(`{}`)}, rules.AnyVersion)
		return err
	})
}

// checkRefused fails the test unless a change of the rules fails with the given error and changes nothing.
func checkRefused(w *fixture, reason error, change func() error) {
	w.t.Helper()
	before, were, err := w.Load(w.ctx())
	w.must(err)
	if err := change(); !errors.Is(err, reason) {
		w.t.Fatalf("%v, want %v", err, reason)
	}
	after, are, err := w.Load(w.ctx())
	w.must(err)
	if after != before {
		w.t.Errorf("the revision went from %d to %d", before, after)
	}
	if diff := cmp.Diff(were, are); diff != "" {
		w.t.Errorf("rules (-before +after):\n%s", diff)
	}
	w.applyManually(w.starting(w.rule, "x", w.slot())) // and no gate is left closed
}

func rulesAreSavedOverExpectedVersion(t *testing.T, w *fixture) {
	save := func(name string, version int32) func() error {
		return func() error {
			_, err := w.Save(w.ctx(), rules.RuleVersion{Name: name, Entity: "order", Document: []byte(`{}`)}, version)
			return err
		}
	}
	remove := func(name string, version int32) func() error {
		return func() error { _, err := w.Delete(w.ctx(), name, version); return err }
	}
	for _, change := range []func() error{
		save(w.rule.Name, 0), save(w.rule.Name, 2), save("new", 1), save("new", 2), save("new", rules.AnyExisting), remove(w.rule.Name, 2), remove(w.rule.Name, 0),
	} {
		checkRefused(w, rules.ErrConflict, change)
	}
	checkRefused(w, futurejobs.ErrNotFound, remove("new", rules.AnyVersion))
	checkRefused(w, futurejobs.ErrNotFound, remove("new", rules.AnyExisting))
	checkRefused(w, futurejobs.ErrNotFound, remove("new", 1))
	checkRefused(w, futurejobs.ErrNotFound, func() error { return w.Pause(w.ctx(), "new", true) })

	// Of concurrent changes of the same version, one succeeds.
	var wins atomic.Int32
	var people sync.WaitGroup
	for range 6 {
		people.Go(func() {
			switch err := save(w.rule.Name, 1)(); {
			case err == nil:
				wins.Add(1)
			case !errors.Is(err, rules.ErrConflict):
				t.Error(err)
			}
		})
	}
	people.Wait()
	if wins.Load() != 1 {
		t.Errorf("%d saved over the same version", wins.Load())
	}
	w.must(save(w.rule.Name, rules.AnyVersion)())
	w.must(save(w.rule.Name, rules.AnyExisting)())
	w.must(save("new", 0)())
	w.must(remove("new", rules.AnyExisting)())
}

func rulesArePaused(t *testing.T, w *fixture) {
	before := must[int64](t)(w.Revision(w.ctx()))
	w.must(w.Pause(access.As(w.ctx(), ada), w.rule.Name, true))
	paused := must[rules.RuleVersion](t)(w.Version(w.ctx(), w.rule.ID, 1))
	if paused.PausedAt.IsZero() || paused.PausedBy != ada.Name {
		t.Errorf("paused: %+v", paused)
	}
	w.must(w.Pause(w.ctx(), w.rule.Name, true)) // already paused: the actor stays
	revision, loaded, err := w.Load(w.ctx())
	w.must(err)
	if diff := cmp.Diff([]rules.RuleVersion{paused}, loaded); diff != "" || revision != before+1 {
		t.Errorf("revision %d, was %d; loaded (-want +got):\n%s", revision, before, diff)
	}
	next := must[rules.RuleVersion](t)(w.Save(w.ctx(), rules.RuleVersion{Name: w.rule.Name, Entity: "order", Document: []byte(`{"v":2}`)}, 1))
	if !next.PausedAt.Equal(paused.PausedAt) || next.PausedBy != ada.Name {
		t.Errorf("a save undid the pause: %+v", next)
	}
	w.must(w.Pause(w.ctx(), w.rule.Name, false))
	if got := must[rules.RuleVersion](t)(w.Version(w.ctx(), w.rule.ID, 2)); !got.PausedAt.IsZero() || got.PausedBy != "" {
		t.Errorf("resumed: %+v", got)
	}
}

// rulesAreHalted checks that Halt pauses rules that exceed their cost limit, even those that a person paused.
func rulesAreHalted(t *testing.T, w *fixture) {
	w.must(w.Pause(access.As(w.ctx(), ada), w.rule.Name, true))
	w.must(w.Halt(w.ctx(), w.rule.Name, 1, "it costs too much"))
	halted := must[rules.RuleVersion](t)(w.Version(w.ctx(), w.rule.ID, 1))
	if halted.PausedAt.IsZero() || halted.PausedBy != rules.HaltedBy {
		t.Errorf("halted: %+v", halted)
	}
	before := must[int64](t)(w.Revision(w.ctx()))
	w.must(w.Halt(w.ctx(), w.rule.Name, 1, "once more"))
	w.must(w.Pause(access.As(w.ctx(), ada), w.rule.Name, true))
	if again := must[rules.RuleVersion](t)(w.Version(w.ctx(), w.rule.ID, 1)); !cmp.Equal(halted, again) || must[int64](t)(w.Revision(w.ctx())) != before {
		t.Errorf("halted again: %+v", again)
	}
	w.must(w.Pause(w.ctx(), w.rule.Name, false))
	if err := w.Halt(w.ctx(), w.rule.Name, 2, "another version"); !errors.Is(err, rules.ErrConflict) {
		t.Errorf("of another version: %v", err)
	}
	checkNotFound(w, func() error { return w.Halt(w.ctx(), "new", 1, "no such rule") })
	if resumed := must[rules.RuleVersion](t)(w.Version(w.ctx(), w.rule.ID, 1)); !resumed.PausedAt.IsZero() {
		t.Errorf("resumed: %+v", resumed)
	}
	entries, _, err := w.Audit(w.ctx(), access.AuditFilter{Action: "rule.pause", Actor: access.NodeItself})
	if err != nil || len(entries) != 1 || entries[0].Object != "rule/"+w.rule.Name || entries[0].Detail != "it costs too much" {
		t.Errorf("the audit has %+v, %v", entries, err)
	}
}

func jobsOfRuleAreListed(t *testing.T, w *fixture) {
	other := w.save("order-unpaid", "order")
	keys := []string{"plain", "nul\x00", `back\slash`, "\xff", "é", "a b", "1", "2", "3", "4", "5", "6"}
	var effects []futurejobs.Effect
	for _, key := range keys {
		effects = append(effects, w.starting(w.rule, key, w.slot()), w.starting(other, key, w.slot()))
	}
	w.applyManually(effects...)
	for _, limit := range []int{1, 5, 100} {
		seen := map[string]bool{}
		var after futurejobs.Ref
		for {
			jobs := must[[]futurejobs.Job](t)(w.JobsOf(w.ctx(), w.rule.ID, after, limit))
			if len(jobs) > limit {
				t.Fatalf("%d jobs of at most %d", len(jobs), limit)
			}
			for _, j := range jobs {
				if seen[j.Key] || j.RuleID != w.rule.ID || j.Shard < after.Shard || j.Event == nil {
					t.Fatalf("job %+v after %+v", j, after)
				}
				seen[j.Key], after = true, j.Ref
			}
			if len(jobs) == 0 {
				break
			}
		}
		if len(seen) != len(keys) {
			t.Errorf("in steps of %d: %d keys of %d", limit, len(seen), len(keys))
		}
	}

	const limit, size, large = 8 << 20, 1_000_000, 44 // bytes of a page and of a body, and a number of jobs
	for i := range large {
		e := w.starting(w.rule, fmt.Sprint("large", i), w.slot())
		start := e.Action.(futurejobs.Start) //nolint:forcetypeassert // it starts
		start.Job.Event = json.RawMessage(`"` + strings.Repeat("x", size/2) + `"`)
		start.Job.Order = &futurejobs.Order{Trace: strings.Repeat("t", size/2)} // Job.Size does not count it
		e.Action = start
		w.applyManually(e)
	}
	var after futurejobs.Ref
	n := 0
	for jobs := []futurejobs.Job{{}}; len(jobs) > 0; n += len(jobs) {
		jobs = must[[]futurejobs.Job](t)(w.JobsOf(w.ctx(), w.rule.ID, after, 500))
		bytes := 0
		for i := range jobs {
			bytes += jobs[i].Size()
			after = jobs[i].Ref
		}
		if bytes > limit+size+100 {
			t.Errorf("a page of %d jobs has %d bytes, want at most one job more than %d", len(jobs), bytes, limit)
		}
	}
	if n != len(keys)+large {
		t.Errorf("%d jobs in pages that are bounded by bytes, want %d", n, len(keys)+large)
	}
}

// rulesStartAfterAppliedEvents checks that a rule does not read events that were applied during its save.
func rulesStartAfterAppliedEvents(t *testing.T, w *fixture) {
	last := w.slot()
	_, err := w.Apply(w.ctx(), batch(w, 7, 30))
	w.must(err)
	for _, c := range []struct{ is, want rules.StreamBinding }{
		{rules.StreamBinding{Stream: "ORDERS", From: 20, At: last.Add(-time.Hour)}, rules.StreamBinding{Stream: "ORDERS", From: 30, At: last}},
		{rules.StreamBinding{Stream: "ORDERS", From: 40, At: last.Add(time.Hour)}, rules.StreamBinding{Stream: "ORDERS", From: 40, At: last.Add(time.Hour)}},
		{rules.StreamBinding{Stream: "ORDERS", From: 5, At: last.Add(time.Hour)}, rules.StreamBinding{Stream: "ORDERS", From: 5, At: last.Add(time.Hour)}}, // it was recreated
		{rules.StreamBinding{Stream: "OTHER", From: 3}, rules.StreamBinding{Stream: "OTHER", From: 3}},
	} {
		got, err := w.Save(w.ctx(), rules.RuleVersion{Name: "other", Entity: "e", Document: []byte(`{}`), Reads: []rules.StreamBinding{c.is}}, rules.AnyVersion)
		w.must(err)
		if diff := cmp.Diff([]rules.StreamBinding{c.want}, got.Reads); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	}
}
