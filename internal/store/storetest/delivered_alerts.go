package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// pager is a channel that fails.
const pager = "pager"

// situations are alerts with every state, delivered to the channel of hookRoute in one notification.
type situations struct {
	message alerts.Notification
	outage  futurejobs.Outage
	opened  alerts.SystemAlert
}

// raiseSituations raises an alert of each state.
func raiseSituations(w *fixture) (s situations) {
	w.t.Helper()
	w.must(w.Notify(w.ctx(), true))
	w.start(w.slot(), "pending", "exhausted", "resolved", "undetermined")
	for _, key := range []string{"pending", "resolved"} {
		w.settle(w.reschedule(w.one(key), w.slot().Add(time.Hour)))
	}
	undetermined := w.reschedule(w.one("undetermined"), w.slot().Add(time.Hour))
	undetermined.Alerts[0].Status = alerts.Undetermined
	w.settle(undetermined)
	w.settle(w.exhausted(w.one("exhausted")))
	w.applyManually(w.ending(w.rule, "resolved"))

	must[[]alerts.Alert](w.t)(w.RecordOutage(w.ctx(), outageHit(w, w.rule, 1)))
	s.outage = must[[]futurejobs.Outage](w.t)(w.Outages(w.ctx()))[0]
	s.opened = alerts.SystemAlert{Topic: "clock", Step: "step", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot(), Text: "it stepped"}
	_, _, err := w.OpenSystemAlert(w.ctx(), s.opened)
	w.must(err)
	state := failPager(w)
	for _, r := range []alerts.SystemAlert{
		alerts.StreamLoss("ORDERS", w.slot(), w.slot().Add(time.Hour), "lost events"),
		alerts.ChannelAlert(pager, alerts.Firing, state.FailingSince),
		{Topic: "rule/a", Step: "ticks", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot(), Text: "nothing records it"},
	} {
		_, _, err := w.WriteSystemAlert(w.ctx(), r)
		w.must(err)
	}
	deliverUnrouted(w, hookRoute.Channel)
	s.message = w.ready(w.slot())
	return s
}

// failPager makes the channel pager fail without a notification, until it raises an alert.
func failPager(w *fixture) (state alerts.ChannelState) {
	w.t.Helper()
	for range alerts.FailingAfter {
		state = must[alerts.ChannelState](w.t)(w.MarkFailed(w.ctx(), alerts.Notification{Channel: pager}, "away", w.slot(), w.slot()))
	}
	return state
}

// deliverUnrouted plans a notification of all unrouted alerts to a channel.
func deliverUnrouted(w *fixture, channel string) {
	w.t.Helper()
	unrouted := must[[]alerts.Alert](w.t)(batchOf(w.UnroutedAlerts(w.ctx(), 1000)))
	p := notifyPlan(alerts.Notification{PlannedAt: w.slot()}, unrouted...)
	p.Notifications[0].Channel = channel
	for i, a := range unrouted {
		p.Assignments[i].Channel, p.Assignments[i].Unclosed = channel, a.Status == alerts.Firing
	}
	w.must(w.ApplyPlan(w.ctx(), p))
}

// deliveredAlertsHaveStates checks the states of the alerts of a notification, and the closed alerts of its resolved ones.
func deliveredAlertsHaveStates(t *testing.T, w *fixture) {
	s := raiseSituations(w)
	states := make(map[string]string)
	var resolved []alerts.Alert
	after := alerts.ID{}
	for {
		page := must[[]alerts.DeliveredAlert](t)(w.MessagePage(w.ctx(), s.message.ID, after, 3))
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].ID
		for _, a := range page {
			if a.Status == alerts.Resolved {
				resolved = append(resolved, a.Alert)
				continue
			}
			states[a.Key] = map[[2]bool]string{{}: "ended", {true, false}: "open", {false, true}: "closed"}[[2]bool{a.Open, a.Closed}]
			if a.Key == "pending" && a.Text == "" {
				t.Errorf("the alert about %s has no text", a.Key)
			}
		}
	}
	want := map[string]string{
		"pending": "open", "undetermined": "open", "exhausted": "ended", "resolved": "closed", "outage/shop": "open",
		"clock": "open", "stream/ORDERS": "open", "channel/" + pager: "open", "rule/a": "ended",
	}
	if diff := cmp.Diff(want, states); diff != "" || len(resolved) != 1 {
		t.Errorf("%d resolved (-want +got):\n%s", len(resolved), diff)
	}
	if fired := must[[]alerts.Alert](t)(w.DeliveredClosed(w.ctx(), hookRoute.Channel, resolved)); len(fired) != 1 || fired[0].Key != "resolved" || fired[0].Text != "it waits" {
		t.Errorf("it closes %+v", fired)
	}
	if none := must[[]alerts.Alert](t)(w.DeliveredClosed(w.ctx(), "other", resolved)); len(none) != 0 {
		t.Errorf("a channel that received none has %+v", none)
	}
}

// topicsAreOpenWhileAnAlertIs checks that a topic is open while one of its alerts can still be closed, and not because of an alert
// whose job ended without a resolution.
func topicsAreOpenWhileAnAlertIs(t *testing.T, w *fixture) {
	w.must(w.Notify(w.ctx(), true))
	w.start(w.slot(), "pending", "lost")
	w.settle(w.reschedule(w.one("pending"), w.slot().Add(time.Hour)))
	w.settle(w.exhausted(w.one("lost")))
	deliverUnrouted(w, hookRoute.Channel)
	message := w.ready(w.slot())
	check := func(when string, want bool) {
		t.Helper()
		if is := must[bool](t)(w.IsTopicOpen(w.ctx(), message)); is != want {
			t.Errorf("%s: the topic is open: %t, want %t", when, is, want)
		}
	}
	check("with a pending job", true)
	w.applyManually(w.ending(w.rule, "pending"))
	deliverUnrouted(w, hookRoute.Channel)
	check("with an alert that nothing can close", false)
	w.start(w.slot(), "undetermined")
	undetermined := w.reschedule(w.one("undetermined"), w.slot().Add(time.Hour))
	undetermined.Alerts[0].Status = alerts.Undetermined
	w.settle(undetermined)
	deliverUnrouted(w, hookRoute.Channel)
	check("with an undetermined job", true)
	w.applyManually(w.ending(w.rule, "undetermined"))
	deliverUnrouted(w, hookRoute.Channel)
	check("without pending jobs", false)
	_, _, err := w.OpenSystemAlert(w.ctx(), alerts.SystemAlert{Topic: "clock", Step: "step", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot(), Text: "it stepped"})
	w.must(err)
	check("with an alert of another channel", false)
	deliverUnrouted(w, "other")
	check("with an alert of another channel", false)
	must[[]alerts.Alert](t)(w.RecordOutage(w.ctx(), outageHit(w, w.rule, 1)))
	deliverUnrouted(w, hookRoute.Channel)
	check("with an outage", true)
}

// openOf returns the keys of the open alerts of a channel, sorted.
func openOf(w *fixture, channel string, limit int) []string {
	w.t.Helper()
	var keys []string
	w.must(w.EachOpen(w.ctx(), channel, limit, func(page []alerts.Alert) error {
		if len(page) == 0 || len(page) > limit {
			w.t.Errorf("a page has %d alerts, at most %d are allowed", len(page), limit)
		}
		for _, a := range page {
			keys = append(keys, a.Key)
		}
		return nil
	}))
	slices.Sort(keys)
	return keys
}

// openDeliveredAlertsAreRead checks that exactly the open alerts that a channel received are read, until they end.
func openDeliveredAlertsAreRead(t *testing.T, w *fixture) {
	s := raiseSituations(w)
	all := []string{"channel/" + pager, "clock", "outage/shop", "pending", "stream/ORDERS", "undetermined"}
	for _, limit := range []int{1, 4, 500} {
		if diff := cmp.Diff(all, openOf(w, hookRoute.Channel, limit)); diff != "" {
			t.Errorf("open, %d at a time (-want +got):\n%s", limit, diff)
		}
	}
	w.start(w.slot(), "other", "muted")
	w.settle(w.reschedule(w.one("other"), w.slot().Add(time.Hour)))
	deliverUnrouted(w, "other")
	if diff := cmp.Diff([]string{"other"}, openOf(w, "other", 10)); diff != "" {
		t.Errorf("open in the other channel (-want +got):\n%s", diff)
	}
	w.settle(w.reschedule(w.one("muted"), w.slot().Add(time.Hour)))
	muted := must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 10)))
	w.must(w.ApplyPlan(w.ctx(), alerts.Plan{Alerts: muted, Assignments: []alerts.Assignment{
		{Alert: muted[0], Channel: hookRoute.Channel, Notification: -1, Mute: 7, Unclosed: true},
	}}))

	w.settle(w.exhausted(w.one("pending")))
	w.applyManually(w.ending(w.rule, "undetermined"))
	_, _, err := w.CloseOutage(w.ctx(), s.outage, func(o futurejobs.Outage) alerts.Alert { return outageAlert(w.rule, o, alerts.Resolved) })
	w.must(err)
	s.opened.Status = alerts.Resolved
	_, _, err = w.CloseSystemAlert(w.ctx(), s.opened)
	w.must(err)
	w.must(w.ChannelWorks(w.ctx(), pager))
	if diff := cmp.Diff([]string{"stream/ORDERS"}, openOf(w, hookRoute.Channel, 10)); diff != "" {
		t.Errorf("open after the ends (-want +got):\n%s", diff)
	}
}

// repeatedAlertsAreBounded checks that of a job with many alerts the first and the newest are read.
func repeatedAlertsAreBounded(t *testing.T, w *fixture) {
	const repeats, read = 120, 100
	w.must(w.Notify(w.ctx(), true))
	w.start(w.slot(), "a")
	d := w.reschedule(w.one("a"), w.slot().Add(time.Hour))
	for range repeats - 1 {
		d = w.withAlert(d, w.slot())
	}
	w.settle(d)
	deliverUnrouted(w, hookRoute.Channel)
	var got []alerts.ID
	w.must(w.EachOpen(w.ctx(), hookRoute.Channel, 500, func(page []alerts.Alert) error {
		for _, a := range page {
			got = append(got, a.ID)
		}
		return nil
	}))
	ids := w.one("a").Alerts
	if len(got) != read || !slices.Contains(got, ids[0]) || !slices.Contains(got, ids[repeats-1]) || slices.Contains(got, ids[repeats/2]) {
		t.Errorf("%d alerts of %d are read, want the first and the newest, %d", len(got), len(ids), read)
	}
}

// channelsFailWithoutMessage checks that a channel can fail and recover without a notification.
func channelsFailWithoutMessage(t *testing.T, w *fixture) {
	failPager(w)
	state := must[[]alerts.ChannelState](t)(w.Channels(w.ctx()))[0]
	if state.Tries != alerts.FailingAfter || state.Error != "away" || !state.FailingSince.Equal(w.slot()) || state.Sent != 0 {
		t.Errorf("a failing channel: %+v", state)
	}
	w.must(w.ChannelWorks(w.ctx(), pager))
	if state = must[[]alerts.ChannelState](t)(w.Channels(w.ctx()))[0]; state != (alerts.ChannelState{Name: pager}) {
		t.Errorf("a channel that works: %+v", state)
	}
}
