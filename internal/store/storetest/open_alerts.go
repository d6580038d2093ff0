package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// alertsAreOpen checks that exactly the newest alert of each pending job with alerts is open.
func alertsAreOpen(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	createJobs(w, 20) // k000 to k019
	w.applyManually(w.starting(other, "p", w.slot()))
	newest := make(map[string]alerts.Alert) // of each key with an open alert
	check := func(key string, severity alerts.Severity, slot time.Time) {
		j := w.one(key)
		d := w.reschedule(j, j.NextCheckAt.Add(time.Hour))
		d.Alerts, d.Job.Alerts = nil, j.Alerts
		d = w.withAlert(d, slot)
		d.Alerts[0].Severity = severity
		w.settle(d)
		newest[key] = d.Alerts[0]
	}
	for i := range 12 {
		check(fmt.Sprintf("k%03d", i), []alerts.Severity{alerts.Info, alerts.Critical, alerts.Warning}[i%3], w.slot().Add(time.Duration(7*i%5)*time.Minute))
	}
	check("p", alerts.Error, w.slot().Add(90*time.Second))
	check("k003", alerts.Critical, w.slot().Add(time.Hour)) // its second one, the newest of all
	w.settle(w.exhausted(w.one("k004")))
	delete(newest, "k004")
	w.applyManually(acknowledges(w, "k003", newest["k003"].ID, checks.Forever))

	name := func(s futurejobs.ListedAlert) string { return s.Key }
	wanted := func(is func(alerts.Alert) bool) (keys []string) {
		all := make([]alerts.Alert, 0, len(newest))
		for _, a := range newest {
			if is(a) {
				all = append(all, a)
			}
		}
		slices.SortFunc(all, func(a, b alerts.Alert) int { return bytes.Compare(b.ID[:], a.ID[:]) })
		return keysOf(all, func(a alerts.Alert) string { return a.Key })
	}
	everything := func(alerts.Alert) bool { return true }
	for _, c := range []struct {
		f  futurejobs.Filter
		is func(alerts.Alert) bool
	}{
		{futurejobs.Filter{}, everything},
		{futurejobs.Filter{Rule: other.Name}, func(a alerts.Alert) bool { return a.Key == "p" }},
		{futurejobs.Filter{RulePrefix: "order"}, func(a alerts.Alert) bool { return a.Key != "p" }},
		{futurejobs.Filter{Rule: "none"}, func(alerts.Alert) bool { return false }},
		{futurejobs.Filter{Entity: "payment"}, func(a alerts.Alert) bool { return a.Key == "p" }},
		{futurejobs.Filter{Key: "k003"}, func(a alerts.Alert) bool { return a.Key == "k003" }},
		{futurejobs.Filter{Key: "k004"}, func(alerts.Alert) bool { return false }},
		{futurejobs.Filter{Key: "k015"}, func(alerts.Alert) bool { return false }},
		{futurejobs.Filter{Severity: alerts.Critical}, func(a alerts.Alert) bool { return a.Severity == alerts.Critical }},
		{futurejobs.Filter{Status: alerts.Resolved}, func(alerts.Alert) bool { return false }},
	} {
		for _, limit := range []int{1, 5, 500} {
			f := c.f
			f.Open, f.Limit = true, limit
			if diff := cmp.Diff(wanted(c.is), keysOf(pages(t, f, w.Alerts), name), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("open with %+v (-want +got):\n%s", f, diff)
			}
		}
	}
	newestHasJob(t, w, newest["k003"])
}

// newestHasJob checks the open alert that is listed first: with the acknowledgement, the next check and the snooze of its
// job.
func newestHasJob(t *testing.T, w *fixture, want alerts.Alert) {
	t.Helper()
	until := w.slot().Add(5 * time.Hour)
	w.applyManually(actionEffect(w, w.rule, want.Key, time.Time{}, futurejobs.Snooze{Until: until}))
	open := pages(t, futurejobs.Filter{Open: true}, w.Alerts)
	first := open[0]
	if job := w.one(want.Key); !first.SnoozedUntil.Equal(until) || !first.NextCheckAt.Equal(job.NextCheckAt) {
		t.Errorf("it is snoozed until %s, and checked at %s, want %s and %s", first.SnoozedUntil, first.NextCheckAt, until, job.NextCheckAt)
	}
	if next := open[1]; !next.SnoozedUntil.IsZero() || !next.NextCheckAt.Equal(w.one(next.Key).NextCheckAt) {
		t.Errorf("the next one is snoozed until %s, and checked at %s", next.SnoozedUntil, next.NextCheckAt)
	}
	if diff := cmp.Diff(want, first.Alert); diff != "" {
		t.Errorf("the newest (-said +listed):\n%s", diff)
	}
	if first.Ack == nil || first.Ack.By != "ada\x00" || !first.Ack.IsUntilResolved() {
		t.Errorf("it is acknowledged: %+v", first.Ack)
	}
	page := must[futurejobs.Page[futurejobs.ListedAlert]](t)(w.Alerts(w.ctx(), futurejobs.Filter{Limit: 1}))
	if _, err := w.Alerts(w.ctx(), futurejobs.Filter{Open: true, Cursor: page.Next}); !errors.Is(err, futurejobs.ErrBadCursor) {
		t.Errorf("from where the list of all alerts stood: %v, want ErrBadCursor", err)
	}
}

// outagesAreOpenAlerts checks that the alert of an outage is open as long as the outage is.
func outagesAreOpenAlerts(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	w.start(w.slot(), "a")
	w.settle(w.reschedule(w.one("a"), w.slot().Add(time.Hour)))
	for _, rule := range []*futurejobs.Rule{w.rule, other} {
		if raised := must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, rule, 1))); len(raised) != 1 {
			t.Fatalf("%d alerts", len(raised))
		}
	}
	keys := func(f futurejobs.Filter) []string {
		f.Open = true
		got := keysOf(pages(t, f, w.Alerts), func(s futurejobs.ListedAlert) string { return s.Rule + " " + s.Key })
		slices.Sort(got)
		return got
	}
	want := func(what string, f futurejobs.Filter, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, keys(f), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	const mine, others = "order-unshipped outage/shop", "payment-missing outage/shop"
	want("all", futurejobs.Filter{Limit: 1}, "order-unshipped a", mine, others)
	want("of a rule", futurejobs.Filter{Rule: other.Name}, others)
	want("of a prefix", futurejobs.Filter{RulePrefix: "order-"}, "order-unshipped a", mine)
	want("of an entity", futurejobs.Filter{Entity: "payment"}, others)
	want("of a key", futurejobs.Filter{Key: "outage/shop"}, mine, others)
	want("of a severity", futurejobs.Filter{Severity: alerts.Error}, mine, others)
	first := must[[]futurejobs.Outage](t)(w.Outages(w.ctx()))[0]
	_, ended, err := w.CloseOutage(w.ctx(), first, func(o futurejobs.Outage) alerts.Alert { return outageAlert(w.rule, o, alerts.Resolved) })
	if w.must(err); !ended {
		t.Fatal("the outage is still open")
	}
	want("once one ended", futurejobs.Filter{}, "order-unshipped a", others)
}
