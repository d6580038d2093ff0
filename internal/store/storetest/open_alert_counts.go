package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// teams are values of the label team of open alerts, with characters that JSON escapes.
var teams = []string{"", "shop", "a \"b\"\\", "nul\x00", "é<&>"}

// raiseOpenAlerts raises alerts of twelve jobs, three of which are acknowledged, of an outage of other, and about lost
// data.
func raiseOpenAlerts(t *testing.T, w *fixture, other *futurejobs.Rule) {
	createJobs(w, 20) // k000 to k019
	for i := range 12 {
		key := fmt.Sprintf("k%03d", i)
		j := w.one(key)
		d := w.reschedule(j, j.NextCheckAt.Add(time.Hour))
		d.Alerts, d.Job.Alerts = nil, j.Alerts
		d = w.withAlert(d, w.slot().Add(time.Duration(i)*time.Minute))
		d.Alerts[0].Severity = []alerts.Severity{alerts.Critical, alerts.Warning}[i%2]
		if team := teams[i%len(teams)]; team != "" {
			d.Alerts[0].Labels = map[string]string{"team": team, "o'clock": "x"}
		}
		w.settle(d)
	}
	for i, until := range []time.Time{checks.Forever, checks.Forever, must[time.Time](t)(w.Now(w.ctx())).Add(-time.Hour)} { // the last one ended
		key := fmt.Sprintf("k%03d", i)
		w.applyManually(acknowledges(w, key, w.one(key).Alerts[0], until))
	}
	if raised := must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, other, 1))); len(raised) != 1 {
		t.Fatalf("an outage raises %d alerts", len(raised))
	}
	for _, loss := range []alerts.SystemAlert{
		alerts.StreamLoss("ORDERS", w.slot(), w.slot().Add(time.Minute), "was deleted"),
		{Topic: "k003", Step: "lost", Status: alerts.Firing, Severity: alerts.Critical, Since: w.slot().Add(time.Hour), Labels: map[string]string{"team": "shop"}, UntilClosed: true},
	} {
		if _, raised, err := w.WriteSystemAlert(w.ctx(), loss); !raised || err != nil {
			t.Fatalf("a loss of data is not alerted: %v", err)
		}
	}
}

// openAlertsAreCounted checks that the counts of open alerts agree with their list, for each filter.
func openAlertsAreCounted(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	raiseOpenAlerts(t, w, other)
	now := must[time.Time](t)(w.Now(w.ctx()))
	all := pages(t, futurejobs.Filter{Open: true}, w.Alerts)
	yes, no := true, false
	for _, f := range []futurejobs.Filter{
		{},
		{Rule: other.Name},
		{RulePrefix: "order"},
		{Rule: "none"},
		{Rule: alerts.SystemRule},
		{RulePrefix: "dead"},
		{Entity: alerts.SystemEntity},
		{Entity: "order"},
		{Key: "k003"},
		{Severity: alerts.Critical},
		{Status: alerts.Undetermined},
		{Acknowledged: &yes},
		{Acknowledged: &no},
		{Severity: alerts.Warning, Acknowledged: &no},
		{Label: "team", LabelValue: "shop"},
		{Label: "team"},
		{Label: "team", LabelValue: teams[2]},
		{Label: "team", LabelValue: teams[4]},
		{Label: "o'clock", LabelValue: "x"},
		{Label: "none"},
		{Through: all[len(all)/2].ID},
		{Through: all[3].ID, Acknowledged: &no},
	} {
		f.Open, f.Now = true, now
		listed := pages(t, f, w.Alerts)
		for _, label := range []string{"", "team", "o'clock"} {
			counts := must[[]futurejobs.OpenAlerts](t)(w.CountOpenAlerts(w.ctx(), f, label))
			slices.SortFunc(counts, compareOpenAlerts)
			if diff := gocmp.Diff(countsOf(listed, label, now), counts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("counts by the label %q with %+v (-list +counts):\n%s", label, f, diff)
			}
		}
		if f.Label == "" && f.Acknowledged == nil && f.Through == (alerts.ID{}) {
			continue // their lists are checked elsewhere
		}
		want := keysOf(slices.DeleteFunc(slices.Clone(all), func(a futurejobs.ListedAlert) bool { return !openMatches(f, a, now) }), listedKey)
		if diff := gocmp.Diff(want, keysOf(listed, listedKey), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("list with %+v (-want +got):\n%s", f, diff)
		}
	}
}

func listedKey(a futurejobs.ListedAlert) string { return a.Key }

// openMatches reports whether the conditions that only open alerts have accept an alert.
func openMatches(f futurejobs.Filter, a futurejobs.ListedAlert, now time.Time) bool {
	switch {
	case f.Acknowledged != nil && *f.Acknowledged != (a.Ack != nil && a.Ack.Holds(now)),
		f.Severity != "" && a.Severity != f.Severity,
		f.Label != "" && a.Labels[f.Label] != f.LabelValue,
		f.Through != (alerts.ID{}) && a.ID.String() > f.Through.String():
		return false
	}
	return true
}

// countsOf counts listed alerts as CountOpenAlerts does, in the order of compareOpenAlerts.
func countsOf(listed []futurejobs.ListedAlert, label string, now time.Time) []futurejobs.OpenAlerts {
	var counts []futurejobs.OpenAlerts
	for _, a := range listed {
		c := futurejobs.OpenAlerts{
			Rule: a.Rule, Entity: a.Entity, Severity: a.Severity, Status: a.Status, LabelValue: a.Labels[label],
			Acknowledged: a.Ack != nil && a.Ack.Holds(now), Outage: futurejobs.IsOutage(a.Alert), Loss: a.Rule == alerts.SystemRule,
		}
		i := slices.IndexFunc(counts, func(k futurejobs.OpenAlerts) bool { k.Count, k.Oldest = 0, time.Time{}; return k == c })
		if i < 0 {
			i, counts = len(counts), append(counts, c)
		}
		counts[i].Count++
		if counts[i].Oldest.IsZero() || a.DecidedAt.Before(counts[i].Oldest) {
			counts[i].Oldest = a.DecidedAt
		}
	}
	slices.SortFunc(counts, compareOpenAlerts)
	return counts
}

func compareOpenAlerts(a, b futurejobs.OpenAlerts) int {
	return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Status, b.Status), cmp.Compare(a.LabelValue, b.LabelValue),
		cmp.Compare(fmt.Sprint(a.Acknowledged, a.Outage), fmt.Sprint(b.Acknowledged, b.Outage)))
}
