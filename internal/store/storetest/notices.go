package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// raiseUnrouted returns the alerts of ended jobs, not routed yet.
func raiseUnrouted(w *fixture, keys ...string) []alerts.Alert {
	w.t.Helper()
	w.must(w.Notify(w.ctx(), true))
	w.start(w.slot(), keys...)
	for _, key := range keys {
		w.settle(w.exhausted(w.one(key)))
	}
	unrouted := must[[]alerts.Alert](w.t)(batchOf(w.UnroutedAlerts(w.ctx(), 100)))
	if len(unrouted) != len(keys) {
		w.t.Fatalf("%d alerts are unrouted, want %d", len(unrouted), len(keys))
	}
	return unrouted
}

// hookRoute is the route and channel of these tests.
var hookRoute = alerts.RouteChannel{Channel: "hook", Route: "r"}

// notifyPlan returns the plan to send alerts in one notification, either new or open.
func notifyPlan(notice alerts.Notification, unrouted ...alerts.Alert) alerts.Plan {
	notice.Channel, notice.Route, notice.Topic, notice.Alerts = hookRoute.Channel, hookRoute.Route, "order/\x00", len(unrouted)
	p := alerts.Plan{Alerts: unrouted, Notifications: []alerts.Notification{notice}}
	for _, a := range unrouted {
		p.Assignments = append(p.Assignments, alerts.Assignment{Alert: a, Channel: hookRoute.Channel, Unclosed: true})
	}
	return p
}

// deliveryOf returns the only delivery of an alert.
func deliveryOf(w *fixture, a alerts.Alert) alerts.Delivery {
	w.t.Helper()
	found := must[[]alerts.Delivery](w.t)(w.Deliveries(w.ctx(), a))
	if len(found) != 1 {
		w.t.Fatalf("%d deliveries, want 1", len(found))
	}
	return found[0]
}

func alertsAreUnroutedWhileChannelsExist(t *testing.T, w *fixture) {
	listening := func(want bool) {
		t.Helper()
		if on := must[bool](t)(w.Notifying(w.ctx())); on != want {
			t.Errorf("notifying: %v", on)
		}
	}
	listening(false)
	raiseUnrouted(w, "a")
	listening(true)
	w.must(w.Notify(w.ctx(), false))
	listening(false)
	if left := must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 10))); len(left) != 0 {
		t.Errorf("%d alerts are not routed", len(left))
	}
}

// rulesAreRoutedFairly checks that a notification has one alert of each rule before more of any, and the most severe
// of each first.
func rulesAreRoutedFairly(t *testing.T, w *fixture) {
	mine := w.rule
	unrouted := raiseUnrouted(w, "a", "b", "c", "d", "e")
	w.rule = w.save("other", "order")
	w.start(w.slot(), "late")
	w.settle(w.exhausted(w.one("late")))
	all := must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 100)))
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: w.slot()}, all...)))
	claimed, _, err := w.ClaimNotification(w.ctx(), w.ready(w.slot()), w.slot().Add(time.Minute))
	w.must(err)
	raised := must[[]alerts.Alert](t)(w.Content(w.ctx(), claimed, 3))
	var rules []string
	for _, a := range raised {
		rules = append(rules, a.Rule)
	}
	slices.Sort(rules[:min(2, len(rules))])
	if diff := cmp.Diff([]string{mine.Name, "other", mine.Name}, rules); diff != "" || len(all) != len(unrouted)+1 {
		t.Errorf("%d alerts (-want +got):\n%s", len(all), diff)
	}
}

// messagesAreSummarized checks that a summary has the newest alert of each key once: the most severe of each rule, then the
// next of each, and resolved keys last.
func messagesAreSummarized(t *testing.T, w *fixture) {
	w.must(w.Notify(w.ctx(), true))
	order, payment := w.rule, w.save("payment", "order")
	raise := func(rule *futurejobs.Rule, key string, status alerts.Status, severity alerts.Severity, ends bool) {
		w.rule = rule
		d := w.reschedule(w.one(key), w.slot().Add(time.Hour))
		if ends {
			d = w.exhausted(w.one(key))
		}
		d.Alerts[0].Status, d.Alerts[0].Severity = status, severity
		w.settle(d)
	}
	w.start(w.slot(), "a", "b", "c")
	w.rule = payment
	w.start(w.slot(), "d")
	raise(order, "a", alerts.Firing, alerts.Warning, false)
	raise(order, "b", alerts.Firing, alerts.Warning, true)
	raise(order, "c", alerts.Firing, alerts.Warning, false)
	raise(payment, "d", alerts.Undetermined, alerts.Error, true)
	raise(order, "a", alerts.Firing, alerts.Critical, true)
	raise(order, "c", alerts.Resolved, alerts.Info, true)
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: w.slot()}, must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 100)))...)))
	claimed, _, err := w.ClaimNotification(w.ctx(), w.ready(w.slot()), w.slot().Add(time.Minute))
	w.must(err)

	check := func(limit int, want ...string) {
		t.Helper()
		m := must[alerts.Summary](t)(w.Summary(w.ctx(), claimed, limit))
		var keys []string
		for _, k := range m.Keys {
			keys = append(keys, k.Rule+"/"+k.Key+" "+string(k.Severity))
			if k.IsResolved() != (k.Key == "c") {
				t.Errorf("%s is resolved: %t", k.Key, k.IsResolved())
			}
		}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("the first %d keys (-want +got):\n%s", limit, diff)
		}
		counts := []alerts.KeyCount{
			{Rule: order.Name, Severity: alerts.Critical, Count: 1},
			{Rule: order.Name, Severity: alerts.Warning, Count: 1},
			{Rule: order.Name, Resolved: true, Severity: alerts.Info, Count: 1},
			{Rule: "payment", Severity: alerts.Error, Count: 1},
		}
		if diff := cmp.Diff(counts, m.Counts); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	}
	all := []string{order.Name + "/a critical", "payment/d error", order.Name + "/b warning", order.Name + "/c info"}
	check(10, all...)
	check(3, all[:3]...)
}

// messagesAreSent checks that a notification collects alerts until it is first tried, and is retried until the channel
// accepts it.
func messagesAreSent(t *testing.T, w *fixture) {
	unrouted, now := raiseUnrouted(w, "a", "b"), w.slot()
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: now}, unrouted[0])))
	checkRefused(w, futurejobs.ErrCursorMoved, func() error {
		return w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: now}, unrouted[0]))
	})
	open := w.ready(now)
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(open, unrouted[1])))

	claimed, ok, err := w.ClaimNotification(w.ctx(), open, now.Add(time.Minute))
	if err != nil || !ok || claimed.Alerts != 2 || claimed.Tries != 1 || claimed.Topic != "order/\x00" {
		t.Fatalf("claimed %+v, %v, %v", claimed, ok, err)
	}
	if _, again, err := w.ClaimNotification(w.ctx(), open, now); again || err != nil {
		t.Errorf("claimed by two: %v", err)
	}
	checkRefused(w, futurejobs.ErrCursorMoved, func() error { return w.ApplyPlan(w.ctx(), notifyPlan(open)) })
	if raised := must[[]alerts.Alert](t)(w.Content(w.ctx(), claimed, 10)); len(raised) != 2 {
		t.Errorf("it has %d alerts", len(raised))
	}

	state := must[alerts.ChannelState](t)(w.MarkFailed(w.ctx(), claimed, "away\x00", now, now.Add(2*time.Minute)))
	if state.Waiting != 1 || state.Tries != 1 || state.Error != "away\x00" || !state.FailingSince.Equal(now) {
		t.Errorf("a channel that is away: %+v", state)
	}
	if d := deliveryOf(w, unrouted[0]); d.State != alerts.Waiting || !d.At.Equal(now.Add(2*time.Minute)) || d.Error != "away\x00" {
		t.Errorf("not taken: %+v", d)
	}
	w.must(w.Sent(w.ctx(), claimed, now.Add(3*time.Minute), "not b\x00"))
	if d := deliveryOf(w, unrouted[1]); d.State != alerts.Sent || !d.At.Equal(now.Add(3*time.Minute)) || d.Error != "not b\x00" {
		t.Errorf("taken: %+v", d)
	}
	want := []alerts.ChannelState{{Name: hookRoute.Channel, Sent: 1, SentAt: now.Add(3 * time.Minute), Error: "not b\x00"}}
	if diff := cmp.Diff(want, must[[]alerts.ChannelState](t)(w.Channels(w.ctx())), cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
	if newest := must[[]alerts.Notification](t)(w.Lane(w.ctx(), hookRoute, 5)); len(newest) != 1 || newest[0].ID != open.ID {
		t.Errorf("the lane has %+v", newest)
	}
	w.must(w.Sent(w.ctx(), alerts.Notification{Channel: hookRoute.Channel}, now, ""))
	if state := must[[]alerts.ChannelState](t)(w.Channels(w.ctx()))[0]; state.Error != "" || state.Sent != 2 {
		t.Errorf("a channel that took the next message for all: %+v", state)
	}
}

// resolutionsFollowDeliveries checks that a closing alert goes to the channels of the alert that it closes, and that a closed alert
// no longer fires.
func resolutionsFollowDeliveries(t *testing.T, w *fixture) {
	now := w.slot()
	w.must(w.Notify(w.ctx(), true))
	w.start(now, "a")
	w.settle(w.reschedule(w.one("a"), now.Add(time.Minute)))
	w.settle(w.exhausted(w.one("a")))
	unrouted := must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 10)))
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: now}, unrouted[0])))
	closing := unrouted[1]
	closing.Closes = []alerts.ID{unrouted[0].ID}
	received := must[[]alerts.PriorDelivery](t)(w.PriorDeliveries(w.ctx(), []alerts.Alert{closing}))
	want := []alerts.PriorDelivery{{Alert: unrouted[0].ID, Channel: hookRoute.Channel, Route: hookRoute.Route, Topic: "order/\x00"}}
	if diff := cmp.Diff(want, received); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	if kept := must[[]alerts.Alert](t)(w.Closed(w.ctx(), []alerts.Alert{closing})); len(kept) != 1 || kept[0].ID != unrouted[0].ID {
		t.Errorf("it closes %v", kept)
	}
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(w.ready(now), closing)))
}

func messagesExpire(t *testing.T, w *fixture) {
	now := w.slot()
	unrouted := raiseUnrouted(w, "a")
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: now}, unrouted...)))
	lost := func(channel string, messages int) alerts.SystemAlert {
		return alerts.SystemAlert{Topic: "channel/" + channel, Step: "given-up", Status: alerts.Expired, Severity: alerts.Error, Since: now, Count: messages}
	}
	if given, raised, err := w.GiveUp(w.ctx(), now, now, lost); len(given)+len(raised) != 0 || err != nil {
		t.Errorf("gave up messages that are young: %v, %v, %v", given, raised, err)
	}
	given, raised, err := w.GiveUp(w.ctx(), now.Add(time.Second), now.Add(time.Minute), lost)
	if err != nil || len(given) != 1 || given[hookRoute.Channel] != 1 || len(raised) != 1 {
		t.Fatalf("gave up %v with the alerts %v, want one message of %s: %v", given, raised, hookRoute.Channel, err)
	}
	if a := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), raised[0].ID)); a.Key != "channel/"+hookRoute.Channel || a.Count != 1 || a.Shard != raised[0].Shard {
		t.Errorf("the alert is %+v", a)
	}
	if d := deliveryOf(w, unrouted[0]); d.State != alerts.Failed || d.Error == "" {
		t.Errorf("given up: %+v", d)
	}
	if left := must[[]alerts.Notification](t)(w.Lane(w.ctx(), hookRoute, 5)); len(left) != 0 {
		t.Errorf("the lane has %+v", left)
	}
}

func mutesEnd(t *testing.T, w *fixture) {
	now := must[time.Time](t)(w.Now(w.ctx()))
	create := func(reason string, ends time.Time) alerts.Mute {
		return must[alerts.Mute](t)(w.CreateMute(w.ctx(), alerts.Mute{Match: alerts.Match{"rule": "order-*"}, Reason: reason, EndsAt: ends}))
	}
	over, first, second := create("over", now.Add(-time.Hour)), create("a", now.Add(time.Hour)), create("b", now.Add(time.Hour))
	live := func(want ...int64) {
		t.Helper()
		var got []int64
		for _, m := range must[[]alerts.Mute](t)(w.LiveMutes(w.ctx(), must[time.Time](t)(w.Now(w.ctx())))) {
			got = append(got, m.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("live mutes (-want +got):\n%s", diff)
		}
	}
	live(first.ID, second.ID)
	w.must(w.EndMute(w.ctx(), first.ID))
	live(second.ID)
	for _, id := range []int64{first.ID, over.ID, second.ID + 1} {
		checkRefused(w, futurejobs.ErrNotFound, func() error { return w.EndMute(w.ctx(), id) })
	}
	all := must[[]alerts.Mute](t)(w.Mutes(w.ctx()))
	if len(all) != 3 || all[0].ID != second.ID || all[0].Reason != "b" || all[1].EndedBy == "" || all[2].EndedBy != "" {
		t.Errorf("all mutes: %+v", all)
	}
}

// mutesAreCreatedOnce checks that a repeated request returns the mute of the first one.
func mutesAreCreatedOnce(t *testing.T, w *fixture) {
	now := must[time.Time](t)(w.Now(w.ctx()))
	once := access.WithOnce(w.ctx(), "k")
	mute := alerts.Mute{Match: alerts.Match{"rule": "order-*"}, Reason: "upgrade", StartsAt: now.Add(time.Hour), EndsAt: now.Add(2 * time.Hour)}
	if _, err := w.CreateMute(once, mute); !errors.Is(err, access.ErrRunning) {
		t.Errorf("without its claim: %v, want ErrRunning", err)
	}
	must[*access.StoredResponse](t)(w.Begin(w.ctx(), "k", [32]byte{1}))
	first := must[alerts.Mute](t)(w.CreateMute(once, mute))
	again := must[alerts.Mute](t)(w.CreateMute(once, mute))
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repeated (-first +again):\n%s", diff)
	}
	if all := must[[]alerts.Mute](t)(w.Mutes(w.ctx())); len(all) != 1 {
		t.Errorf("%d mutes, want 1", len(all))
	}
}

// mutesBeginLater checks that a mute with a start in the future is in effect from its start to its end, that it can be ended
// before, and that retention keeps it until its end.
func mutesBeginLater(t *testing.T, w *fixture) {
	now := must[time.Time](t)(w.Now(w.ctx()))
	create := func(starts, ends time.Duration) alerts.Mute {
		return must[alerts.Mute](t)(w.CreateMute(w.ctx(), alerts.Mute{
			Match: alerts.Match{"rule": "order-*"}, Reason: "upgrade", StartsAt: now.Add(starts), EndsAt: now.Add(ends),
		}))
	}
	begun, later, far, ended := create(-time.Hour, 3*time.Hour), create(time.Hour, 2*time.Hour), create(4*futurejobs.Day, 5*futurejobs.Day), create(time.Hour, 2*time.Hour)
	w.must(w.EndMute(w.ctx(), ended.ID))
	checkRefused(w, futurejobs.ErrNotFound, func() error { return w.EndMute(w.ctx(), ended.ID) })
	for _, c := range []struct {
		after time.Duration
		want  []int64
	}{
		{time.Minute, []int64{begun.ID}},
		{time.Hour - time.Second, []int64{begun.ID}},
		{time.Hour, []int64{begun.ID, later.ID}},
		{2 * time.Hour, []int64{begun.ID}},
		{3 * time.Hour, nil},
		{4 * futurejobs.Day, []int64{far.ID}},
		{5 * futurejobs.Day, nil},
	} {
		var got []int64
		for _, m := range must[[]alerts.Mute](t)(w.LiveMutes(w.ctx(), now.Add(c.after))) {
			got = append(got, m.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("mutes in effect after %v (-want +got):\n%s", c.after, diff)
		}
	}
	span := func(starts, ends time.Duration) string {
		return fmt.Sprintf("from %s until %s", now.Add(starts).Format(time.RFC3339), now.Add(ends).Format(time.RFC3339))
	}
	if lines, want := audited(w, access.AuditFilter{Object: fmt.Sprintf("mute/%d", far.ID)}), "rule=order-*; "+span(4*futurejobs.Day, 5*futurejobs.Day)+"; upgrade"; len(lines) != 1 || !strings.HasSuffix(lines[0], want) {
		t.Errorf("audit: %q, want %q", lines, want)
	}
	all := must[[]alerts.Mute](t)(w.Mutes(w.ctx()))
	if m := all[2]; m.ID != later.ID || !m.StartsAt.Equal(later.StartsAt) || !m.EndsAt.Equal(later.EndsAt) || m.State(now) != alerts.MutePending {
		t.Errorf("a mute that begins later: %+v", m)
	}
	if m := all[0]; m.EndedBy == "" || m.State(must[time.Time](t)(w.Now(w.ctx()))) != alerts.MuteEnded {
		t.Errorf("a mute that was ended before its start: %+v", m)
	}
	prune(w, -3*futurejobs.Day)
	if left := must[[]alerts.Mute](t)(w.Mutes(w.ctx())); len(left) != 1 || left[0].ID != far.ID {
		t.Errorf("after the retention: %+v, want mute %d alone", left, far.ID)
	}
}

func mutesHaveALimit(t *testing.T, w *fixture) {
	end := must[time.Time](t)(w.Now(w.ctx())).Add(time.Hour)
	mute := alerts.Mute{Match: alerts.Match{"rule": "order-*"}, Reason: "a", EndsAt: end}
	var last alerts.Mute
	for range alerts.MaxLiveMutes {
		last = must[alerts.Mute](t)(w.CreateMute(w.ctx(), mute))
	}
	later := mute
	later.StartsAt = end.Add(-time.Minute)
	for _, m := range []alerts.Mute{mute, later} {
		checkRefused(w, alerts.ErrTooManyMutes, func() error {
			_, err := w.CreateMute(w.ctx(), m)
			return err
		})
	}
	for range 10 {
		w.must(w.EndMute(w.ctx(), last.ID))
		last = oneMuteOf(w, 16, mute)
		mute, later = later, mute
	}
}

// oneMuteOf creates a mute on several nodes at once where the limit leaves one.
func oneMuteOf(w *fixture, nodes int, mute alerts.Mute) (created alerts.Mute) {
	w.t.Helper()
	var all sync.WaitGroup
	results := make(chan alerts.Mute, nodes)
	for range nodes {
		all.Go(func() {
			switch m, err := w.CreateMute(w.ctx(), mute); {
			case err == nil:
				results <- m
			case !errors.Is(err, alerts.ErrTooManyMutes):
				w.t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(results); n != 1 {
		w.t.Fatalf("%d of %d concurrent mutes are created, want the one that the limit leaves", n, nodes)
	}
	return <-results
}
