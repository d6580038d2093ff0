package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/rules/document"
)

const keptDay = document.Duration(futurejobs.Day)

// settingsOfRetention are the settings of a node.
var settingsOfRetention = store.Retention{History: 90 * futurejobs.Day, Alerts: 30 * futurejobs.Day, DeadLetters: 7 * futurejobs.Day}

// saveKept saves a rule with its own retention.
func saveKept(w *fixture, name string, keep *document.Retention) *futurejobs.Rule {
	w.t.Helper()
	saved := must[rules.RuleVersion](w.t)(w.Save(w.ctx(), rules.RuleVersion{
		Name: name, Entity: "order", Document: []byte(`{"name":"` + name + `"}`), Keep: keep,
	}, rules.AnyVersion))
	w.set = must[int64](w.t)(w.Revision(w.ctx()))
	return &futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: name, Entity: "order", Grid: futurejobs.Grid(time.Minute), MaxSeverity: alerts.Critical,
	}
}

// exhaust starts a job of a rule and ends it as exhausted, with an alert that is published and delivered.
func exhaust(w *fixture, rule *futurejobs.Rule, key string) {
	w.t.Helper()
	w.applyManually(w.starting(rule, key, w.slot()))
	own := w.rule
	w.rule = rule
	w.settle(w.exhausted(w.one(key)))
	w.rule = own
	deliver(w)
}

// resolve starts a job of a rule and ends it as resolved, without an alert.
func resolve(w *fixture, rule *futurejobs.Rule, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.applyManually(w.starting(rule, key, w.slot()))
		w.applyManually(futurejobs.Effect{Rule: rule, Ref: w.ref(rule, key), Action: futurejobs.End{Outcome: "resolved"}})
	}
}

// pruneAfter counts the rows that retention deletes after a time, deletes it, and compares both with the wanted rows.
func pruneAfter(w *fixture, keep store.Retention, after time.Duration, want ...store.RetentionCount) {
	w.t.Helper()
	now := must[time.Time](w.t)(w.Now(w.ctx())).Add(after)
	w.GoBy(func(time.Time) time.Time { return now })
	defer w.GoBy(func(reported time.Time) time.Time { return reported })
	counted := must[[]store.RetentionCount](w.t)(w.CountRetention(w.ctx(), store.RetentionQuery{Retention: keep, At: now}))
	var sum store.Pruned
	for i := range counted {
		switch counted[i].Kind {
		case "history":
			sum.History += counted[i].Rows
		case "ticks":
			sum.Ticks += counted[i].Rows
		case "alerts":
			sum.Alerts += counted[i].Rows
		default:
			sum.DeadLetters += counted[i].Rows
		}
		if counted[i].Oldest.IsZero() {
			w.t.Errorf("%s of %s: no oldest time", counted[i].Kind, counted[i].Rule)
		}
		counted[i].Oldest = time.Time{}
	}
	byRule := func(a, b store.RetentionCount) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Outcome, b.Outcome))
	}
	slices.SortFunc(want, byRule)
	if diff := gocmp.Diff(append([]store.RetentionCount{}, want...), counted); diff != "" {
		w.t.Errorf("counted for %s later (-want +got):\n%s", after, diff)
	}
	pruned := must[store.Pruned](w.t)(w.Prune(w.ctx(), keep))
	pruned.Audit, pruned.Pings, pruned.PingAddresses = 0, 0, 0
	if pruned != sum {
		w.t.Errorf("%s later: pruned %+v, counted %+v", after, pruned, sum)
	}
	if again := must[store.Pruned](w.t)(w.Prune(w.ctx(), keep)); again.History+again.Alerts != 0 {
		w.t.Errorf("%s later: pruned %+v once more", after, again)
	}
}

// retentionByRuleAndOutcome checks the rows that are deleted, and counted before, as periods end.
func retentionByRuleAndOutcome(t *testing.T, w *fixture) {
	w.must(w.Notify(w.ctx(), true))
	long := saveKept(w, "long", &document.Retention{
		History: 400 * keptDay, Alerts: 120 * keptDay, Outcomes: map[string]document.Duration{"resolved": 7 * keptDay, "exhausted": 500 * keptDay},
	})
	short := saveKept(w, "short", &document.Retention{Alerts: 2 * keptDay, Outcomes: map[string]document.Duration{"exhausted": keptDay}})
	shortest := func(rule string, all bool, want store.KeptPeriods) {
		t.Helper()
		got := must[store.KeptPeriods](t)(w.ShortestPeriods(w.ctx(), settingsOfRetention, rule, func(string) bool { return all }))
		if got != want {
			t.Errorf("the shortest periods of %q: %+v, want %+v", rule, got, want)
		}
	}
	shortest("long", true, store.KeptPeriods{History: 7 * futurejobs.Day, Alerts: 120 * futurejobs.Day})
	shortest("long", false, store.KeptPeriods{History: settingsOfRetention.History, Alerts: settingsOfRetention.Alerts})
	shortest("", true, store.KeptPeriods{History: futurejobs.Day, Alerts: 2 * futurejobs.Day})
	shortest(w.rule.Name, true, store.KeptPeriods{History: settingsOfRetention.History, Alerts: settingsOfRetention.Alerts})
	exhaust(w, w.rule, "a")
	resolve(w, w.rule, "b", "b2", "b3")
	exhaust(w, long, "c")
	resolve(w, long, "d", "d2")
	exhaust(w, short, "e")
	resolve(w, short, "f")
	count := func(kind string, rule *futurejobs.Rule, outcome string, rows int64) store.RetentionCount {
		return store.RetentionCount{Kind: kind, Rule: rule.Name, Outcome: outcome, Rows: rows}
	}
	day := futurejobs.Day
	pruneAfter(w, settingsOfRetention, 0)
	pruneAfter(w, settingsOfRetention, 2*day)
	pruneAfter(w, settingsOfRetention, 5*day, // the alerts' ids are of tomorrow; the history stays as long as the alerts
		count("history", short, "exhausted", 1), count("alerts", short, "", 1))
	shortest("long", true, store.KeptPeriods{History: 7 * futurejobs.Day, Alerts: 120 * futurejobs.Day, HistoryDeleted: true, AlertsDeleted: true})
	pruneAfter(w, settingsOfRetention, 9*day, count("history", long, "resolved", 2))
	pruneAfter(w, settingsOfRetention, 33*day, count("alerts", w.rule, "", 1))
	pruneAfter(w, settingsOfRetention, 92*day,
		count("history", w.rule, "exhausted", 1), count("history", w.rule, "resolved", 3), count("history", short, "resolved", 1))
	pruneAfter(w, settingsOfRetention, 123*day, count("alerts", long, "", 1))
	pruneAfter(w, settingsOfRetention, 402*day)
	if len(w.ended()) != 1 {
		t.Errorf("ended jobs: %v", w.ended())
	}
	checkBalance(w, 9)
	pruneAfter(w, settingsOfRetention, 502*day, count("history", long, "exhausted", 1))
	checkBalance(w, 9)
}

// retentionKeepsOpenAlerts checks that the newest alert of a pending job stays whatever the period is, and goes once the job
// has ended.
func retentionKeepsOpenAlerts(t *testing.T, w *fixture) {
	short := saveKept(w, "short", &document.Retention{Alerts: keptDay})
	open := func(rule *futurejobs.Rule, key string) {
		w.applyManually(w.starting(rule, key, w.slot()))
		own := w.rule
		w.rule = rule
		w.settle(w.reschedule(w.one(key), w.slot().Add(time.Minute)))
		w.settle(w.reschedule(w.one(key), w.slot().Add(time.Hour)))
		w.rule = own
	}
	open(w.rule, "a")
	open(short, "b")
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	pruneAfter(w, settingsOfRetention, 4*futurejobs.Day, store.RetentionCount{Kind: "alerts", Rule: "short", Rows: 1})
	pruneAfter(w, settingsOfRetention, 1000*futurejobs.Day, store.RetentionCount{Kind: "alerts", Rule: w.rule.Name, Rows: 1})
	if left := pages(t, futurejobs.Filter{}, w.Alerts); len(left) != 2 {
		t.Errorf("left: %v, want the open alert of each job", left)
	}
	w.applyManually(
		futurejobs.Effect{Rule: short, Ref: w.ref(short, "b"), Action: futurejobs.End{Outcome: "resolved"}},
		futurejobs.Effect{Rule: w.rule, Ref: w.ref(w.rule, "a"), Action: futurejobs.End{Outcome: "resolved"}},
	)
	pruneAfter(w, settingsOfRetention, 4*futurejobs.Day+2*time.Hour, store.RetentionCount{Kind: "alerts", Rule: "short", Rows: 1})
}

// retentionOfDeletedRules checks that the period of a rule stays when the rule is deleted, and that a new rule of the name
// has its own.
func retentionOfDeletedRules(t *testing.T, w *fixture) {
	gone := saveKept(w, "gone", &document.Retention{History: 200 * keptDay})
	resolve(w, gone, "a")
	must[int32](t)(w.Delete(w.ctx(), "gone", gone.Version))
	resolve(w, saveKept(w, "gone", nil), "b", "c")
	pruneAfter(w, settingsOfRetention, 92*futurejobs.Day, store.RetentionCount{Kind: "history", Rule: "gone", Outcome: "resolved", Rows: 2})
	if left := w.ended(); len(left) != 1 || left[0].Key != "a" {
		t.Errorf("left: %v", left)
	}
	pruneAfter(w, settingsOfRetention, 202*futurejobs.Day, store.RetentionCount{Kind: "history", Rule: "gone", Outcome: "resolved", Rows: 1})
}

// retentionBetweenPages checks that a list, such as an export, has each kept job once if retention deletes the last row of a page
// before the next page is read.
func retentionBetweenPages(t *testing.T, w *fixture) {
	long := saveKept(w, "long", &document.Retention{History: 400 * keptDay})
	for _, i := range []string{"1", "2", "3"} {
		resolve(w, long, "kept"+i)
		resolve(w, w.rule, "gone"+i)
	}
	first := must[futurejobs.Page[futurejobs.EndedJob]](t)(w.History(w.ctx(), futurejobs.Filter{Limit: 3}))
	if len(first.Items) != 3 || first.Items[2].Key != "gone2" || first.Next == "" {
		t.Fatalf("the first page ends with %+v", first.Items)
	}
	pruneAfter(w, settingsOfRetention, 92*futurejobs.Day, store.RetentionCount{Kind: "history", Rule: w.rule.Name, Outcome: "resolved", Rows: 3})
	second := must[futurejobs.Page[futurejobs.EndedJob]](t)(w.History(w.ctx(), futurejobs.Filter{Limit: 3, Cursor: first.Next}))
	var keys []string
	for _, e := range slices.Concat(first.Items, second.Items) {
		keys = append(keys, e.Key)
	}
	if want := []string{"gone3", "kept3", "gone2", "kept2", "kept1"}; !slices.Equal(keys, want) || second.Next != "" {
		t.Errorf("listed %v and then more: %q, want %v", keys, second.Next, want)
	}
}
