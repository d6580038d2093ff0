package rules_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/rules/document"
)

// calendarTest is a database of two nodes.
type calendarTest struct {
	*testing.T
	store       *store.Store
	registry    *rules.CalendarRegistry // of the first node
	rescheduler *rules.Rescheduler      // likewise
	one, other  *rules.Catalog
}

func newCalendarTest(t *testing.T) *calendarTest {
	s := openStore(t)
	w := &calendarTest{T: t, store: s, one: newCatalog(t, s), other: newCatalog(t, s)}
	w.registry = &rules.CalendarRegistry{Store: s, Catalog: w.one}
	w.rescheduler = &rules.Rescheduler{
		Store: s, Catalog: w.one, Jobs: s, Log: discardLog(), Turn: func() func() bool { return func() bool { return true } }, Active: func() bool { return true },
		TenantOf: func(rule string) string { tenant, _, _ := strings.Cut(rule, "-"); return tenant },
	}
	return w
}

func (w *calendarTest) save(name, text string) {
	w.Helper()
	if _, _, err := w.registry.Save(w.Context(), name, text, rules.AnyVersion, false); err != nil {
		w.Fatal(err)
	}
}

const replyRule = `
name: reply
entity: ticket
trigger: {event: tickets.opened, key: event.id}
escalate: [{after: 4h, of: office, step: lead}, {after: 8h, of: office, step: page}]
`

// opened is a ticket of Thursday, 2026-01-01, at 10:05 UTC.
func (w *calendarTest) opened(seq uint64) futurejobs.Event {
	return event(seq, "tickets.opened", `{"id": "7"}`)
}

// A changed calendar is in force on each node after its refresh, for events and for pending jobs of all versions.
func TestCalendarIsInForceAfterRefresh(t *testing.T) {
	w := newCalendarTest(t)
	w.save("office", "zone: UTC\nhours: \"09:00-17:00\"\n")
	w.save("unused", "zone: UTC\n")
	saved := saveRule(t, w.store, 0, replyRule)
	other := saveRule(t, w.store, 0, strings.ReplaceAll(strings.ReplaceAll(replyRule, "reply", "other"), ", of: office", ""))
	for _, c := range []*rules.Catalog{w.one, w.other} {
		refresh(t, c)
		checkMatch(t, c, w.opened(1), "start reply@1 7 14:05", "start other@1 7 14:05")
	}
	begins := func(c *rules.Catalog) (*futurejobs.Rule, *futurejobs.Rule) {
		one, err := c.Rule(t.Context(), saved.RuleID, 1)
		two, err2 := c.Rule(t.Context(), other.RuleID, 1)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return one, two
	}
	reply, plain := begins(w.other)
	w.save("office", "zone: UTC\nhours: \"09:00-12:00\"\n")
	checkMatch(t, w.one, w.opened(2), "start reply@1 7 11:05", "start other@1 7 14:05") // two of the four hours on the next day
	refresh(t, w.other)
	checkMatch(t, w.other, w.opened(2), "start reply@1 7 11:05", "start other@1 7 14:05")
	if again, same := begins(w.other); again == reply || same != plain {
		t.Error("the rule that uses the calendar is compiled again, and the other is not")
	}
}

func refresh(t *testing.T, c *rules.Catalog) {
	t.Helper()
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The next checks of pending jobs follow a changed calendar, earlier or later, also those of older versions of a rule. The
// change is recorded once.
func TestPendingJobsFollowCalendar(t *testing.T) {
	w := newCalendarTest(t)
	now, err := w.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.save("office", "zone: UTC\n")
	rule := saveRule(t, w.store, 0, replyRule)
	refresh(t, w.one)
	since := now.Truncate(time.Minute).Add(time.Hour)
	effects, refusals := w.one.Match(futurejobs.Event{Stream: "S", Subject: "tickets.opened", Seq: 1, At: since, Data: []byte(`{"id": "7"}`)})
	if len(effects) != 1 || len(refusals) != 0 {
		t.Fatalf("%+v %+v", effects, refusals)
	}
	if _, err := w.store.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: w.one.Revision(), Effects: effects}); err != nil {
		t.Fatal(err)
	}
	saveRule(t, w.store, 0, strings.ReplaceAll(replyRule, "step: page", "step: manager"))
	next := func() time.Duration {
		t.Helper()
		jobs, err := w.store.JobsOf(t.Context(), rule.RuleID, futurejobs.Ref{}, 10)
		if err != nil || len(jobs) != 1 || jobs[0].Version != 1 {
			t.Fatalf("%+v %v", jobs, err)
		}
		return jobs[0].NextCheckAt.Sub(since)
	}
	reschedule := func(want int) {
		t.Helper()
		if n, err := w.rescheduler.Run(t.Context(), now); err != nil || n != want {
			t.Errorf("%d jobs moved, want %d: %v", n, want, err)
		}
	}
	reschedule(0)
	if got := next(); got != 4*time.Hour {
		t.Fatalf("the first check is after %s", got)
	}
	for _, c := range []struct {
		from, to time.Duration // from the beginning of the job
		want     time.Duration
	}{{2 * time.Hour, 8 * time.Hour, 6 * time.Hour}, {0, 8 * time.Hour, 4 * time.Hour}} {
		at := func(d time.Duration) string { return since.Add(d).UTC().Format("15:04") }
		w.save("office", "zone: UTC\nhours: \""+at(c.from)+"-"+at(c.to)+"\"\n")
		reschedule(1)
		if got := next(); got != c.want {
			t.Errorf("open after %s: the next check is after %s, want %s", c.from, got, c.want)
		}
		reschedule(0)
	}
}

// A calendar that a rule uses is not deleted. Pending jobs of an older version keep a deleted calendar, and new rules
// cannot use it.
func TestDeletedCalendar(t *testing.T) {
	w := newCalendarTest(t)
	w.save("office", "zone: UTC\n")
	rule := saveRule(t, w.store, 0, replyRule)
	if err := w.registry.Delete(t.Context(), "office", rules.AnyVersion); !errors.Is(err, rules.ErrCalendarUsed) || !strings.Contains(err.Error(), "reply") {
		t.Errorf("a used calendar: %v", err)
	}
	saveRule(t, w.store, 0, strings.ReplaceAll(replyRule, ", of: office", ""))
	if err := w.registry.Delete(t.Context(), "office", rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	refresh(t, w.other)
	if _, err := w.other.Rule(t.Context(), rule.RuleID, 1); err != nil {
		t.Errorf("version 1 of the rule: %v", err)
	}
	registry := &rules.Registry{Store: w.store, Catalog: w.one, Jobs: w.store, Log: discardLog()}
	_, err := registry.Save(t.Context(), []byte(strings.ReplaceAll(replyRule, "reply", "late")), "", rules.SaveOptions{DryRun: true})
	var wrong document.Problems
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "office") {
		t.Errorf("a rule with a deleted calendar: %v", err)
	}
	for _, days := range []int{0, rules.KeptCalendarDays + 1} {
		if _, err := w.rescheduler.Run(t.Context(), time.Now().AddDate(0, 0, days)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.registry.Versions(t.Context(), "office"); err != nil {
			t.Errorf("after %d days it is forgotten, and version 1 of the rule uses it: %v", days, err)
		}
	}
}

// A calendar of the node's file takes precedence over one of the database, and is read-only.
func TestCalendarOfFile(t *testing.T) {
	w := newCalendarTest(t)
	w.save("office", "zone: UTC\n")
	file, err := calendars.Parse([]byte("calendars: {office: {zone: Asia/Tokyo, days: mon-fri, hours: \"22:00-06:00\", holidays: [2026-12-25, 05-01]}}"), "")
	if err != nil {
		t.Fatal(err)
	}
	c := rules.NewCatalog(w.store, shards)
	c.Calendars = file
	r := &rules.CalendarRegistry{Store: w.store, Catalog: c}
	got, err := r.Get(t.Context(), "office")
	if err != nil || !got.IsOfFile() || got.Calendar.Zone().String() != "Asia/Tokyo" {
		t.Errorf("%+v %v", got, err)
	}
	again, err := calendars.ParseOne([]byte(got.Document), "office")
	if err != nil || again.Document() != got.Document || again.Zone().String() != got.Calendar.Zone().String() {
		t.Errorf("its document %q: %v", got.Document, err)
	}
	if _, _, err := r.Save(t.Context(), "office", "zone: UTC\n", rules.AnyVersion, false); !errors.Is(err, rules.ErrCalendarFile) {
		t.Errorf("a save: %v", err)
	}
	if err := r.Delete(t.Context(), "office", rules.AnyVersion); !errors.Is(err, rules.ErrCalendarFile) {
		t.Errorf("a deletion: %v", err)
	}
}

// Rules of a token with a prefix use calendars with its prefix and those of no tenant, and see no others.
func TestCalendarsOfTenants(t *testing.T) {
	w := newCalendarTest(t)
	within := func(prefix string) context.Context {
		return access.Within(t.Context(), &access.Bounds{Prefix: prefix})
	}
	save := func(ctx context.Context, name string) error {
		_, _, err := w.registry.Save(ctx, name, "zone: UTC\n", rules.AnyVersion, false)
		return err
	}
	for name, prefix := range map[string]string{"office": "", "acme-office": "acme-", "zenith-office": "zenith-"} {
		if err := save(within(prefix), name); err != nil {
			t.Fatal(err)
		}
	}
	registry := &rules.Registry{Store: w.store, Catalog: w.one, Jobs: w.store, Log: discardLog()}
	ctx := within("acme-")
	all, err := w.registry.List(ctx)
	if err != nil || len(all) != 2 || all[0].Name != "acme-office" || all[1].Name != "office" {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := w.registry.Versions(ctx, "zenith-office"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("versions of another tenant's calendar: %v", err)
	}
	for name, allowed := range map[string]bool{"office": true, "acme-office": true, "zenith-office": false} {
		for as, ctx := range map[string]context.Context{"acme": ctx, "admin": t.Context()} {
			text := strings.ReplaceAll(strings.ReplaceAll(replyRule, "of: office", "of: "+name), "reply", "acme-reply")
			_, err := registry.VerifyText(ctx, []byte(text), "")
			if want := allowed || as == "admin"; (err == nil) != want {
				t.Errorf("%s uses %s: %v", as, name, err)
			}
			if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), `"zenith-office"`, ""), "zenith") {
				t.Errorf("it names calendars of others: %v", err)
			}
		}
	}
	own := strings.NewReplacer("of: office", "of: zenith-office", "reply", "acme-reply").Replace(replyRule) + "calendars: {zenith-office: {zone: Europe/Berlin}}\n"
	if _, err := registry.VerifyText(ctx, []byte(own), ""); err != nil {
		t.Errorf("a rule defines a calendar with the name of another tenant's: %v", err)
	}
	if _, err := registry.VerifyText(ctx, []byte(own+"---"+strings.ReplaceAll(replyRule, "of: office", "of: zenith-office")), ""); err == nil || !strings.Contains(err.Error(), `unknown calendar "zenith-office"; defined are acme-office, office`) {
		t.Errorf("another rule uses it: %v", err)
	}
	saveRule(t, w.store, 0, strings.ReplaceAll(replyRule, "of: office", "of: acme-office"))
	if err := w.registry.Delete(ctx, "acme-office", rules.AnyVersion); err == nil || !strings.Contains(err.Error(), ": 1 outside of the prefix") {
		t.Errorf("a calendar of another's rule: %v", err)
	}

	// The owner stays: a later tenant with a prefix that matches changes nothing of others, and a tenant that is gone keeps
	// its calendars to itself.
	for _, name := range []string{"office", "acme-office"} {
		if err := save(within("off"), name); !errors.Is(err, rules.ErrCalendarOwner) {
			t.Errorf("a later tenant saves %s: %v", name, err)
		}
		if err := w.registry.Delete(within("off"), name, rules.AnyVersion); !errors.Is(err, rules.ErrCalendarOwner) {
			t.Errorf("a later tenant deletes %s: %v", name, err)
		}
	}
	if c, err := w.registry.Get(ctx, "zenith-office"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a calendar of a tenant that is gone: %+v, %v", c, err)
	}
	if err := save(t.Context(), "zenith-office"); err != nil {
		t.Errorf("the operator saves a calendar of a tenant: %v", err)
	}
	if all, err := w.registry.List(ctx); err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
}
