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

// retentionKeepsOpenAlerts checks that the first and the newest alerts of a pending job stay whatever the period is, and go once
// the job has ended.
func retentionKeepsOpenAlerts(t *testing.T, w *fixture) {
	const repeats, ends = 105, 100
	short := saveKept(w, "short", &document.Retention{Alerts: keptDay})
	open := func(rule *futurejobs.Rule, key string, raised int) {
		w.applyManually(w.starting(rule, key, w.slot()))
		own := w.rule
		w.rule = rule
		d := w.reschedule(w.one(key), w.slot().Add(time.Hour))
		for range raised - 1 {
			d = w.withAlert(d, w.slot())
		}
		w.settle(d)
		w.rule = own
	}
	open(w.rule, "a", 2)
	open(w.rule, "c", repeats)
	open(short, "b", 2)
	all := w.one("c").Alerts
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	pruneAfter(w, settingsOfRetention, 4*futurejobs.Day)
	pruneAfter(w, settingsOfRetention, 1000*futurejobs.Day, store.RetentionCount{Kind: "alerts", Rule: w.rule.Name, Rows: repeats - ends})
	left := pages(t, futurejobs.Filter{}, w.Alerts)
	isLeft := func(id alerts.ID) bool {
		return slices.ContainsFunc(left, func(a futurejobs.ListedAlert) bool { return a.ID == id })
	}
	if len(left) != 4+ends || !isLeft(all[0]) || !isLeft(all[repeats-1]) || isLeft(all[repeats/2]) {
		t.Errorf("left: %d alerts, want the first and the newest %d of each job", len(left), ends)
	}
	w.applyManually(w.ending(short, "b"), w.ending(w.rule, "a"))
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	pruneAfter(w, settingsOfRetention, 4*futurejobs.Day+2*time.Hour, store.RetentionCount{Kind: "alerts", Rule: "short", Rows: 3})
}

// openConditions raises alerts that belong to no job, also of a monitoring gap and of the schedules of a rule, and of a rule that
// does not exist. It returns the last three.
func openConditions(w *fixture) (gap, ticks, gone alerts.SystemAlert) {
	w.t.Helper()
	seen := store.Progress{Topic: "ingest/ORDERS", Through: w.slot()}
	for _, moved := range []func() (bool, error){
		func() (bool, error) { return w.Advance(w.ctx(), store.Progress{Topic: seen.Topic}, seen.Through) },
		func() (ok bool, err error) {
			seen, ok, err = w.MarkStalled(w.ctx(), seen, 3)
			return ok, err
		},
	} {
		if ok := must[bool](w.t)(moved()); !ok {
			w.t.Fatal("the position of the stream moved")
		}
	}
	gap = alerts.SystemAlert{Topic: seen.Topic, Step: alerts.GapStep, Status: alerts.Firing, Severity: alerts.Error, Since: seen.Through, Text: "not read"}
	ticks = alerts.SystemAlert{
		Topic: "rule/" + w.rule.Name, Step: "ticks", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot(), Text: "not applied", UntilResolved: true,
	}
	gone = ticks
	gone.Topic = "rule/gone"
	for _, r := range []alerts.SystemAlert{gap, ticks, gone} {
		if _, raised, err := w.WriteSystemAlert(w.ctx(), r); err != nil || !raised {
			w.t.Fatalf("%s: raised %v: %v", r.Topic, raised, err)
		}
	}
	return gap, ticks, gone
}

// isOpen reports whether a page has an open alert of a key.
func isOpen(page []alerts.DeliveredAlert, key string) bool {
	return slices.ContainsFunc(page, func(a alerts.DeliveredAlert) bool { return a.Key == key && a.Open })
}

// retentionKeepsDeliveriesOfOpenAlerts checks that the deliveries and notifications of open alerts stay as long as the alerts, so
// that their ends find their channels, and that both go with the alerts. Channels have the alerts as open for that time, also
// those about ticks.
func retentionKeepsDeliveriesOfOpenAlerts(t *testing.T, w *fixture) {
	w.must(w.Notify(w.ctx(), true))
	gap, ticks, gone := openConditions(w)
	s := raiseSituations(w)
	w.start(w.slot(), "steps")
	w.settle(w.reschedule(w.one("steps"), w.slot().Add(time.Minute)))
	deliverUnrouted(w, "first") // of the first step
	w.settle(w.reschedule(w.one("steps"), w.slot().Add(time.Hour)))
	deliver(w)
	open, jobs := openOf(w, hookRoute.Channel, 10), []string{"pending", "steps", "undetermined"}
	if !slices.Contains(open, gap.Topic) || !slices.Contains(open, ticks.Topic) || len(open) != 10 {
		t.Fatalf("open: %v", open)
	}
	prune(w, -3*futurejobs.Day)
	open = slices.DeleteFunc(open, func(key string) bool { return key == gone.Topic }) // its rule does not exist
	if diff := gocmp.Diff(open, openOf(w, hookRoute.Channel, 10)); diff != "" {
		t.Errorf("open alerts of the channel after the retention (-before +after):\n%s", diff)
	}
	for _, key := range jobs {
		closing := alerts.Alert{Shard: w.one(key).Shard, Detail: alerts.Detail{Closes: w.one(key).Alerts}}
		prior := must[[]alerts.PriorDelivery](t)(w.PriorDeliveries(w.ctx(), []alerts.Alert{closing}))
		raised := must[[]alerts.Alert](t)(w.Closed(w.ctx(), []alerts.Alert{closing}))
		if len(prior) != len(closing.Closes) || len(raised) != len(prior) {
			t.Errorf("the end of %s closes %d of %d alerts, and finds %d deliveries", key, len(raised), len(closing.Closes), len(prior))
		}
	}
	if page := must[[]alerts.DeliveredAlert](t)(w.MessagePage(w.ctx(), s.message.ID, alerts.ID{}, 100)); len(page) != 8 || !isOpen(page, ticks.Topic) {
		t.Errorf("%d alerts of the first message are left, want the open ones, 8, with the one about ticks", len(page))
	}
	for _, r := range []alerts.SystemAlert{gap, ticks} {
		if _, raised, err := w.WriteSystemAlert(w.ctx(), r); raised || err != nil {
			t.Errorf("%s is raised once more: %v", r.Topic, err)
		}
	}
	for r, want := range map[*alerts.SystemAlert]bool{&ticks: true, &gone: false} {
		r.Status = alerts.Resolved
		if _, raised, err := w.ResolveSystemAlert(w.ctx(), *r); raised != want || err != nil {
			t.Errorf("%s is resolved: %v, want %v: %v", r.Topic, raised, want, err)
		}
	}
	if page := must[[]alerts.DeliveredAlert](t)(w.MessagePage(w.ctx(), s.message.ID, alerts.ID{}, 100)); isOpen(page, ticks.Topic) {
		t.Error("the resolved alert about ticks is open")
	}
	open = slices.DeleteFunc(open, func(key string) bool { return key == ticks.Topic })
	for _, key := range jobs {
		w.applyManually(w.ending(w.rule, key))
	}
	deliver(w)
	prune(w, -3*futurejobs.Day)
	if left := openOf(w, hookRoute.Channel, 10); len(left) != len(open)-len(jobs) {
		t.Errorf("open after the ends of the jobs: %v", left)
	}
	if left := must[[]alerts.Notification](t)(w.Lane(w.ctx(), alerts.RouteChannel{Channel: "first", Route: hookRoute.Route}, 5)); len(left) != 0 {
		t.Errorf("notifications without an alert are left: %+v", left)
	}
	if _, raised, err := w.WriteSystemAlert(w.ctx(), alerts.SystemAlert{Topic: ticks.Topic, Step: ticks.Step, Status: alerts.Firing, Severity: ticks.Severity, Since: ticks.Since, Text: ticks.Text}); !raised || err != nil {
		t.Errorf("the resolved alert about ticks is still kept: %v", err)
	}
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
