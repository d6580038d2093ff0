package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// calendarChange returns a change as of now.
func calendarChange(w *fixture, version int32, users ...string) rules.CalendarChange {
	w.t.Helper()
	return rules.CalendarChange{Version: version, Revision: must[int64](w.t)(w.Revision(w.ctx())), Rules: users}
}

// saveCalendar saves a calendar over any version.
func saveCalendar(w *fixture, name, document string, users ...string) rules.CalendarVersion {
	w.t.Helper()
	return must[rules.CalendarVersion](w.t)(w.SaveCalendar(w.ctx(), rules.CalendarVersion{Name: name, Document: document}, calendarChange(w, rules.AnyVersion, users...)))
}

// calendarsAreSaved checks that versions of calendars are kept, listed by the revision of their change, and audited.
func calendarsAreSaved(t *testing.T, w *fixture) {
	before := must[int64](t)(w.Revision(w.ctx()))
	first := must[rules.CalendarVersion](t)(w.SaveCalendar(access.As(w.ctx(), ada), rules.CalendarVersion{Name: "office", Document: "zone: UTC # ☃\n"}, calendarChange(w, 0)))
	if first.Version != 1 || first.SavedBy != ada.Name || first.SavedAt.IsZero() {
		t.Errorf("saved %+v", first)
	}
	saveCalendar(w, "hotline", "zone: Europe/Paris\n")
	between := must[int64](t)(w.Revision(w.ctx()))
	second := saveCalendar(w, "office", "zone: Asia/Tokyo\n")
	if between != before+2 || second.Version != 2 {
		t.Errorf("revision %d after %d, version %d", between, before, second.Version)
	}
	all := must[[]rules.CalendarVersion](t)(w.Calendars(w.ctx(), -1))
	if len(all) != 2 || all[0].Name != "hotline" || cmp.Diff(second, all[1]) != "" {
		t.Errorf("all: %+v, want %+v at the end", all, second)
	}
	if changed := must[[]rules.CalendarVersion](t)(w.Calendars(w.ctx(), between)); len(changed) != 1 || changed[0].Version != 2 {
		t.Errorf("changed since %d: %+v", between, changed)
	}
	versions := must[[]rules.CalendarVersion](t)(w.CalendarVersions(w.ctx(), "office"))
	if len(versions) != 2 || versions[0].Version != 2 || versions[1].Document != first.Document {
		t.Errorf("versions: %+v", versions)
	}
	for want, version := range map[string]int32{"exists": 0, "is at version 2": 1} {
		_, err := w.SaveCalendar(w.ctx(), rules.CalendarVersion{Name: "office"}, calendarChange(w, version))
		if !errors.Is(err, rules.ErrConflict) {
			t.Errorf("a save that %s: %v", want, err)
		}
	}
	for range rules.KeptCalendarVersions {
		saveCalendar(w, "office", "zone: UTC\n")
	}
	versions = must[[]rules.CalendarVersion](t)(w.CalendarVersions(w.ctx(), "office"))
	if len(versions) != rules.KeptCalendarVersions || versions[0].Version != rules.KeptCalendarVersions+2 {
		t.Errorf("%d versions are kept, the newest is %d", len(versions), versions[0].Version)
	}
	entries, _, err := w.Audit(w.ctx(), access.AuditFilter{Object: "calendar/office"})
	w.must(err)
	if last := entries[len(entries)-1]; last.Action != string(access.CalendarSave) || last.Detail != "version 1" || last.Actor.Name != ada.Name {
		t.Errorf("audited: %+v", last)
	}
}

// calendarsAreDeleted checks that a deleted calendar keeps its last version until it is forgotten, and that its name can be
// used again.
func calendarsAreDeleted(t *testing.T, w *fixture) {
	saveCalendar(w, "office", "zone: UTC\n")
	if err := w.DeleteCalendar(w.ctx(), "office", calendarChange(w, 2)); !errors.Is(err, rules.ErrConflict) {
		t.Errorf("another version is deleted: %v", err)
	}
	w.must(w.ForgetCalendar(w.ctx(), "office")) // it is in force
	before := must[int64](t)(w.Revision(w.ctx()))
	w.must(w.DeleteCalendar(w.ctx(), "office", calendarChange(w, rules.AnyExisting)))
	if err := w.DeleteCalendar(w.ctx(), "office", calendarChange(w, rules.AnyVersion)); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("it is deleted again: %v", err)
	}
	changed := must[[]rules.CalendarVersion](t)(w.Calendars(w.ctx(), before))
	if len(changed) != 1 || changed[0].DeletedAt.IsZero() || changed[0].Document != "zone: UTC\n" {
		t.Errorf("after the deletion: %+v", changed)
	}
	if _, err := w.SaveCalendar(w.ctx(), rules.CalendarVersion{Name: "office", Document: "zone: UTC\n"}, calendarChange(w, rules.AnyExisting)); !errors.Is(err, rules.ErrConflict) {
		t.Errorf("a deleted calendar is saved as an existing one: %v", err)
	}
	again := must[rules.CalendarVersion](t)(w.SaveCalendar(w.ctx(), rules.CalendarVersion{Name: "office", Document: "zone: Asia/Tokyo\n"}, calendarChange(w, 0)))
	if again.Version != 2 {
		t.Errorf("the next version is %d", again.Version)
	}
	if all := must[[]rules.CalendarVersion](t)(w.Calendars(w.ctx(), -1)); len(all) != 1 || !all[0].DeletedAt.IsZero() {
		t.Errorf("after it is saved again: %+v", all)
	}
	w.must(w.DeleteCalendar(w.ctx(), "office", calendarChange(w, 2)))
	w.must(w.ForgetCalendar(w.ctx(), "office"))
	if left := must[[]rules.CalendarVersion](t)(w.CalendarVersions(w.ctx(), "office")); len(left) != 0 {
		t.Errorf("versions of a forgotten calendar: %+v", left)
	}
}

// calendarsAreFollowed checks the list of calendars that pending jobs do not follow yet.
func calendarsAreFollowed(t *testing.T, w *fixture) {
	changed := func(want ...string) {
		t.Helper()
		var names []string
		for _, c := range must[[]rules.CalendarVersion](t)(w.ChangedCalendars(w.ctx())) {
			names = append(names, fmt.Sprintf("%s%d%t", c.Name, c.Version, c.Rescheduled))
		}
		if !slices.Equal(names, want) {
			t.Errorf("changed calendars are %v, want %v", names, want)
		}
	}
	saveCalendar(w, "a", "zone: UTC\n")
	saveCalendar(w, "b", "zone: UTC\n")
	changed("a1false", "b1false")
	w.must(w.MarkRescheduled(w.ctx(), "a", 1))
	changed("b1false")
	saveCalendar(w, "a", "zone: Asia/Tokyo\n")
	w.must(w.MarkRescheduled(w.ctx(), "b", 1))
	w.must(w.MarkRescheduled(w.ctx(), "a", 1)) // a slower node
	changed("a2false")
	w.must(w.DeleteCalendar(w.ctx(), "b", calendarChange(w, 1)))
	changed("b1true", "a2false") // the first change comes first
}

// calendarsFenceTheirRules checks that no decision and no batch by the calendar before is committed after its change, only
// for the rules that use it, and that a change as of another revision is refused.
func calendarsFenceTheirRules(t *testing.T, w *fixture) {
	other := w.save("order-unpaid", "order")
	w.start(w.slot(), "a")
	w.applyManually(w.starting(other, "b", w.slot()))
	w.set = must[int64](t)(w.Revision(w.ctx()))
	var decisions []futurejobs.Decision
	for _, j := range w.all() {
		decisions = append(decisions, w.exhausted(j))
	}
	st := w.settlement(decisions...)
	stale := calendarChange(w, rules.AnyVersion, w.rule.Name)
	last := cursor(w, "ORDERS").LastSeq
	b := batch(w, last, last+1, w.starting(w.rule, "c", w.slot()))
	saveCalendar(w, "office", "zone: UTC\n", w.rule.Name)
	settled := must[futurejobs.Settled](t)(w.Settle(w.ctx(), st))
	if len(settled.Jobs) != 1 || !slices.Equal(settled.ChangedRules, []int32{w.rule.ID}) {
		t.Errorf("settled %+v, want the job of the other rule", settled)
	}
	if _, err := w.Apply(w.ctx(), b); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("a batch by the calendar before: %v", err)
	}
	if _, err := w.SaveCalendar(w.ctx(), rules.CalendarVersion{Name: "office"}, stale); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("a save as of an older revision: %v", err)
	}
	since := must[int64](t)(w.Revision(w.ctx()))
	w.must(w.DeleteCalendar(w.ctx(), "office", calendarChange(w, 1, w.rule.Name)))
	if changes := must[rules.Changes](t)(w.Changes(w.ctx(), since)); changes.All || len(changes.Saved) != 1 || changes.Saved[0].RuleID != w.rule.ID {
		t.Errorf("nodes read %+v again", changes)
	}
}

// calendarsHaveRoom checks the limit of the calendars of a prefix.
func calendarsHaveRoom(t *testing.T, w *fixture) {
	ctx := access.Within(w.ctx(), &access.Bounds{Prefix: "acme-"})
	save := func(name string) error {
		_, err := w.SaveCalendar(ctx, rules.CalendarVersion{Name: name, Document: "zone: UTC\n"}, calendarChange(w, rules.AnyVersion))
		return err
	}
	saveCalendar(w, "office", "zone: UTC\n")
	saveCalendar(w, "acme-of-operator", "zone: UTC\n") // does not count
	for i := range rules.MaxTenantCalendars {
		w.must(save(fmt.Sprintf("acme-%d", i)))
	}
	w.must(w.DeleteCalendar(ctx, "acme-7", calendarChange(w, 1)))
	if err := save("acme-more"); !errors.Is(err, access.ErrQuota) {
		t.Errorf("one more: %v", err)
	}
	w.must(save("acme-7"))
	w.must(save("acme-8"))
	if all := must[[]rules.CalendarVersion](t)(w.Calendars(w.ctx(), -1)); len(all) != rules.MaxTenantCalendars+2 || all[0].SavedAt.After(time.Now().Add(time.Hour)) {
		t.Errorf("%d calendars", len(all))
	}
}
