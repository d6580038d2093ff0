package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

func alertsAreFiltered(t *testing.T, w *fixture) {
	createJobs(w, 24)
	at := w.slot()
	var decisions []futurejobs.Decision
	for i, j := range w.all() {
		d := w.exhausted(j)
		raised := &d.Alerts[0]
		raised.Status = []alerts.Status{alerts.Firing, alerts.GaveUp, alerts.Undetermined}[i%3]
		raised.Severity = []alerts.Severity{alerts.Info, alerts.Warning}[i%2]
		raised.Labels = map[string]string{"a": "b", "severity": "info", "status": "expired"} // labels that must not match
		raised.DecidedAt = at.Add(time.Duration(i) * time.Second)
		decisions = append(decisions, d)
	}
	w.settle(decisions...)
	whole := pages(t, futurejobs.Filter{Limit: 500}, w.Alerts)
	for _, f := range []futurejobs.Filter{
		{Status: alerts.Firing},
		{Status: alerts.GaveUp},
		{Severity: alerts.Info},
		{Severity: alerts.Warning, Status: alerts.Undetermined},
		{Status: alerts.Expired},
		{Status: "none"},
		{Status: "Firing"},
		{Severity: "inf"},
		{Severity: "critical"},
		{After: at.Add(3 * time.Second)},
		{Before: at.Add(3 * time.Second)},
		{After: at.Add(time.Second), Before: at.Add(9 * time.Second), Severity: alerts.Info},
		{RulePrefix: "order", Status: alerts.Firing},
		{RulePrefix: "payment"},
		{PartID: whole[3].ID.String()[28:]},
		{PartID: strings.ToUpper(whole[3].ID.String()[:20]), Status: whole[3].Status},
		{PartID: whole[0].ID.String()[:9]}, // of all alerts of the slot
		{PartID: "00000000"},
	} {
		for _, f.Key = range []string{"", whole[0].Key} {
			want := slices.DeleteFunc(slices.Clone(whole), func(a futurejobs.ListedAlert) bool {
				return f.Key != "" && a.Key != f.Key || f.Status != "" && a.Status != f.Status || f.Severity != "" && a.Severity != f.Severity ||
					!strings.HasPrefix(a.Rule, f.RulePrefix) || outside(a.DecidedAt, f) || f.PartID != "" && !alerts.MatchesPartialID(a.ID, f.PartID)
			})
			for _, f.Limit = range []int{1, 500} {
				if diff := cmp.Diff(want, pages(t, f, w.Alerts), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", f, diff)
				}
			}
		}
	}
}

func alertsAreListed(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	createJobs(w, 20)
	w.applyManually(w.starting(other, "p", w.slot()))
	var decisions []futurejobs.Decision
	for i, j := range w.all() {
		d := w.exhausted(j)
		if i%2 == 0 {
			d = w.reschedule(j, j.NextCheckAt.Add(time.Hour))
		}
		decisions = append(decisions, d)
	}
	w.settle(decisions...)
	whole := pages(t, futurejobs.Filter{Limit: 500}, w.Alerts)
	if len(whole) != 21 {
		t.Fatalf("%d alerts, want 21", len(whole))
	}
	if !slices.IsSortedFunc(whole, func(a, b futurejobs.ListedAlert) int { return b.Slot.Compare(a.Slot) }) {
		t.Error("not newest first")
	}
	if diff := cmp.Diff(whole, pages(t, futurejobs.Filter{Limit: 4}, w.Alerts)); diff != "" {
		t.Errorf("in pages of 4 (-whole +pages):\n%s", diff)
	}
	if got := pages(t, futurejobs.Filter{Rule: "payment-missing"}, w.Alerts); len(got) != 1 || got[0].Key != "p" {
		t.Errorf("of one rule: %v", got)
	}
	w.settle(w.exhausted(w.one(w.all()[0].Key)))
	for _, d := range decisions {
		want := 1
		if d.Job.ID == decisions[0].Job.ID {
			want = 2 // one from its move, one from its end
		}
		got := pages(t, futurejobs.Filter{Key: d.Job.Key, Limit: 1}, w.Alerts)
		if len(got) != want || got[0].Key != d.Job.Key {
			t.Errorf("of %s: %d alerts, want %d", d.Job.Key, len(got), want)
		}
	}
	listed := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), whole[3].ID))
	if diff := cmp.Diff(whole[3], listed); diff != "" {
		t.Errorf("one alert (-listed +got):\n%s", diff)
	}
	if _, err := w.Alert(w.ctx(), alerts.ID{0x7f}); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("no such alert: %v, want ErrNotFound", err)
	}
}
