package notify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

const oneHookFile = `
channels:
  hook: {kind: webhook, url: $URL/hook}
routes:
  - {to: hook}
`

func TestManyAlertsAreOneMessage(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		w.fire(alerts.Warning, nil, numberedKeys("k", 5000)...)
		w.advance(n, 0)
		if early := w.receiver.received(); len(early) != 0 {
			t.Fatalf("%d messages went out before group_wait was over", len(early))
		}
		w.advance(n, 10*time.Second)
		got := decodeMessages(t, w.receiver.received())
		if len(got) != 1 || got[0].Count != 5000 || len(got[0].Alerts) != 500 || got[0].Truncated != 4500 {
			t.Fatalf("%d messages: %+v", len(got), got)
		}
		if got[0].Title != "[WARNING] order-late: 5,000 warnings" {
			t.Error(got[0].Title)
		}
		w.advance(n, time.Hour)
		if again := w.receiver.received(); len(again) != 0 {
			t.Errorf("%d messages more", len(again))
		}
		if got := w.deliveryState("k4999"); got != "hook sent after 1" {
			t.Error(got)
		}
		if left := must[[]alerts.Alert](t)(batchOf(w.Unpublished(t.Context(), []int16{0, 1, 2, 3}, 10_000, nil))); len(left) != 5000 {
			t.Errorf("%d alerts go to the stream, want each", len(left))
		}
	})
}

func TestRoutes(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels:
  all: {kind: webhook, url: $URL/all}
  loud: {kind: webhook, url: $URL/loud}
  north: {kind: webhook, url: $URL/north}
  other: {kind: webhook, url: $URL/other}
routes:
  - {name: everything, to: all, continue: true, group_wait: 0s}
  - {name: loud, rule: "order-*", severity: [error, critical], to: [loud, all], group_wait: 0s}
  - {name: north, labels: {site: "north*"}, to: north, group_by: [site], group_wait: 0s}
  - {name: last, rule: nothing-like-it, to: other, group_wait: 0s}
`)
		w.fire(alerts.Critical, nil, "a")
		w.fire(alerts.Warning, map[string]string{"site": "north-1"}, "b", "c")
		w.fire(alerts.Warning, map[string]string{"site": "north-2"}, "d")
		w.fire(alerts.Warning, map[string]string{"site": "south"}, "e")
		for range 3 {
			w.advance(n, 0)
		}
		got := make(map[string]int)
		for _, p := range decodeMessages(t, w.receiver.received()) {
			got[p.Channel+" "+p.Topic] = p.Count
		}
		want := map[string]int{"all rule=order-late": 5, "loud rule=order-late": 1, "north site=north-1": 2, "north site=north-2": 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMaxPerHour(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels: {hook: {kind: webhook, url: $URL}}
routes: [{to: hook, group_by: key, group_wait: 0s, max_per_hour: 3}]
`)
		send := func() {
			for range 6 {
				w.advance(n, 0)
			}
		}
		w.fire(alerts.Error, nil, numberedKeys("k", 4815)...)
		send()
		if got := decodeMessages(t, w.receiver.received()); len(got) != 3 {
			t.Fatalf("%d messages within the hour, want 3", len(got))
		}
		w.fire(alerts.Error, nil, "late") // joins the pending alerts
		send()
		w.now = w.now.Add(time.Hour)
		send()
		got := decodeMessages(t, w.receiver.received())
		if len(got) != 1 || got[0].Count != 4813 {
			t.Fatalf("after the hour: %+v", got)
		}
		w.fire(alerts.Error, nil, "x", "y", "z")
		send()
		if got := decodeMessages(t, w.receiver.received()); len(got) != 2 { // including the collecting message
			t.Errorf("%d messages within the next hour, want 2", len(got))
		}
	})
}

// A rule with many messages does not delay other rules for long, and the hourly limit holds.
func TestMaxPerHourLeavesRoomForOthers(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels: {hook: {kind: webhook, url: $URL}}
routes: [{to: hook, group_by: key, group_wait: 0s, max_per_hour: 10}]
`)
		send := func() []message {
			for range 12 {
				w.advance(n, 0)
			}
			return decodeMessages(t, w.receiver.received())
		}
		w.fire(alerts.Error, nil, numberedKeys("flood", 150)...)
		first := len(send())
		if first != 8 {
			t.Fatalf("%d messages at once, want 8", first)
		}
		w.fire(alerts.Critical, nil, "innocent")
		if got := send(); len(got) != 0 {
			t.Fatalf("%d messages more", len(got))
		}
		w.now = w.now.Add(20 * time.Minute)
		got := send()
		if len(got) != 1 || got[0].Count != 143 || got[0].Alerts[0].Key != "innocent" { // the highest severity comes first
			t.Fatalf("after 20 minutes: %+v", got)
		}
		// The flood continues: the hourly limit holds.
		var at []time.Time
		for i := range 60 {
			w.fire(alerts.Error, nil, numberedKeys(fmt.Sprintf("flood-%d-", i), 2)...)
			w.now = w.now.Add(3 * time.Minute)
			for range send() {
				at = append(at, w.now)
			}
		}
		for i := range at {
			if i >= 10 && at[i].Sub(at[i-10]) < time.Hour {
				t.Errorf("11 messages from %s to %s", at[i-10], at[i])
			}
			if i > 0 && at[i].Sub(at[i-1]) > 25*time.Minute {
				t.Errorf("no message from %s to %s", at[i-1], at[i])
			}
		}
		if len(at) < 20 {
			t.Errorf("%d messages in three hours", len(at))
		}
	})
}

func TestResolvedAlertUsesChannelsOfItsAlert(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels:
  loud: {kind: webhook, url: $URL}
  calm: {kind: webhook, url: $URL}
routes:
  - {severity: critical, to: loud, group_wait: 0s}
  - {to: calm, group_wait: 0s}
`)
		w.fire(alerts.Critical, nil, "a")
		w.advance(n, 0)
		w.resolve("a") // with the severity info
		w.advance(n, 0)
		got := decodeMessages(t, w.receiver.received())
		if len(got) != 2 || got[1].Channel != "loud" || got[1].Alerts[0].Status != alerts.Resolved {
			t.Fatalf("%+v", got)
		}
		w.resolve("a")
		w.advance(n, 0)
		if again := w.receiver.received(); len(again) > 0 {
			t.Errorf("%d more", len(again))
		}
	})
}

func TestMutes(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		mute := must[alerts.Mute](t)(w.CreateMute(t.Context(), alerts.Mute{
			Match: alerts.Match{"rule": "order-*", "site": "north"}, Reason: "the belt is being mended", EndsAt: w.now.Add(time.Hour),
		}))
		w.fire(alerts.Error, map[string]string{"site": "north"}, "muted")
		w.fire(alerts.Error, map[string]string{"site": "south"}, "told")
		w.advance(n, 0)
		w.advance(n, time.Minute)
		if got := decodeMessages(t, w.receiver.received()); len(got) != 1 || got[0].Count != 1 || got[0].Alerts[0].Key != "told" {
			t.Fatalf("%+v", got)
		}
		if got := w.deliveryState("muted"); got != "hook muted after 0" {
			t.Error(got)
		}
		w.resolve("muted") // its firing alert was muted
		w.advance(n, 0)
		w.advance(n, time.Minute)
		if got := w.receiver.received(); len(got) != 0 {
			t.Errorf("%+v", got)
		}
		w.must(w.EndMute(t.Context(), mute.ID))
		if err := w.EndMute(t.Context(), mute.ID); err == nil {
			t.Error("a mute was ended twice")
		}
		if live := must[[]alerts.Mute](t)(w.LiveMutes(t.Context(), must[time.Time](t)(w.Now(t.Context())))); len(live) != 0 {
			t.Errorf("%+v", live)
		}
	})
}

func TestFailingChannel(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels:
  hook: {kind: webhook, url: $URL/hook}
  spare: {kind: webhook, url: http://127.0.0.1:1/closed}
routes:
  - {to: hook, rule: order-late, group_wait: 0s}
`)
		w.receiver.setStatus(503)
		w.fire(alerts.Error, nil, "a")
		for range 3 {
			w.advance(n, time.Minute)
		}
		tries := w.receiver.received()
		if len(tries) != 3 {
			t.Fatalf("%d tries", len(tries))
		}
		for _, p := range tries {
			if p.header.Get("Webhook-Id") != tries[0].header.Get("Webhook-Id") {
				t.Error("tries of one message have different keys")
			}
		}
		if got := w.deliveryState("a"); got != "hook waiting after 3" {
			t.Error(got)
		}
		failing := must[[]alerts.ChannelState](t)(n.Channels(t.Context()))
		if len(failing) != 2 || failing[0].Tries != 3 || failing[0].Waiting != 1 || !strings.Contains(failing[0].Error, "503") {
			t.Errorf("%+v", failing)
		}
		w.advance(n, time.Hour) // another failure is not reported again
		if raised := w.systemAlerts(); len(raised) != 1 || raised[0].Key != "channel/hook" || !strings.HasPrefix(raised[0].Subject(), "deadman.alerts.deadman.error.") {
			t.Fatalf("%+v", raised)
		}
		w.receiver.setStatus(200)
		w.advance(n, time.Hour)
		raised := w.systemAlerts()
		if len(raised) != 2 || raised[1].Status != alerts.Resolved || raised[1].Closes[0] != raised[0].ID {
			t.Fatalf("%+v", raised)
		}
		if got := fmt.Sprint(w.attempts); got != "map[hook failed:4 hook given up:0 hook sent:1 spare failed:0 spare given up:0 spare sent:0]" {
			t.Errorf("counted: %s", got)
		}
		if got := w.deliveryState("a"); got != "hook sent after 5" {
			t.Error(got)
		}
	})
}

// systemAlerts returns the alerts of the rule deadman.
func (w *fixture) systemAlerts() (all []alerts.Alert) {
	w.t.Helper()
	for _, a := range must[[]alerts.Alert](w.t)(batchOf(w.Unpublished(w.t.Context(), []int16{0, 1, 2, 3}, 100, nil))) {
		if a.Rule == alerts.SystemRule {
			all = append(all, a)
		}
	}
	return all
}

// A message that no channel accepts delays no other for long.
func TestBadMessageDoesNotBlockOthers(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels: {hook: {kind: webhook, url: $URL}}
routes: [{to: hook, group_by: key, group_wait: 0s}]
`)
		w.receiver.setStatus(400)
		w.fire(alerts.Error, nil, "bad")
		w.advance(n, 0)
		w.receiver.setStatus(200)
		w.fire(alerts.Error, nil, "good")
		w.advance(n, retryRest)
		w.advance(n, retryRest)
		if got := w.deliveryState("good"); got != "hook sent after 1" {
			t.Error(got)
		}
		w.receiver.setStatus(400)
		w.fire(alerts.Error, nil, "worse")
		for range 100 {
			w.advance(n, time.Hour)
		}
		if got := w.deliveryState("worse"); !strings.HasPrefix(got, "hook failed after ") {
			t.Error(got)
		}
	})
}

// Messages for a channel that is no longer configured raise an alert, are given up with another one, also if the node ends or
// fails right after it, and do not block the channel after its return.
func TestDeletedChannel(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		with, without := w.notifier(oneHookFile), w.notifier("channels: {other: {kind: webhook, url: $URL}}\n")
		w.fire(alerts.Error, nil, "a")
		w.advance(with, 0)
		for range 3 {
			w.advance(without, time.Hour)
		}
		if raised := w.systemAlerts(); len(raised) != 1 || raised[0].Key != "channel/hook" || raised[0].Status != alerts.Firing || !strings.Contains(raised[0].Text, "no channel of this name") {
			t.Errorf("while the message waits: %+v", raised)
		}
		w.announced = errors.New("the database is away")
		w.now = w.now.Add(72 * time.Hour)
		if err := without.Step(t.Context()); !errors.Is(err, w.announced) {
			t.Errorf("the alert about the channel is not resolved, and the error is %v", err)
		}
		w.announced = nil
		w.advance(without, 0)
		if got := w.deliveryState("a"); got != "hook failed after 3" {
			t.Error(got)
		}
		raised := w.systemAlerts()
		if len(raised) != 3 || raised[1].Status != alerts.Expired || !strings.Contains(raised[1].Text, "did not take 1 message within 72h0m0s") || raised[2].Status != alerts.Resolved || raised[2].Closes[0] != raised[0].ID {
			t.Errorf("after it was given up: %+v", raised)
		}
		if got := w.attempts["hook given up"]; got != 1 {
			t.Errorf("%d messages of the channel are counted as given up, want 1: %v", got, w.attempts)
		}
		w.fire(alerts.Error, nil, "b")
		w.advance(with, 0)
		w.advance(with, time.Minute)
		if got := w.deliveryState("b"); got != "hook sent after 1" {
			t.Error(got)
		}
	})
}

// TestFailingRoutesDoNotStopMessages checks that messages of alerts that were routed are sent while new alerts cannot be
// routed, and that new alerts are routed in smaller batches if one takes too long.
func TestFailingRoutesDoNotStopMessages(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	w := openFixture(t, store.Options{DatabaseURL: dsn})
	db, err := sql.Open("pgx", dsn)
	w.must(err)
	t.Cleanup(func() { _ = db.Close() })
	onDelivery := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), `CREATE OR REPLACE FUNCTION on_delivery() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+statement+`; RETURN new; END $$;
CREATE OR REPLACE TRIGGER on_delivery BEFORE INSERT ON delivery FOR EACH ROW EXECUTE FUNCTION on_delivery()`)
		w.must(err)
	}
	n := w.notifier("channels: {hook: {kind: webhook, url: $URL}}\nroutes: [{to: hook, group_by: key, group_wait: 0s}]\n")
	w.receiver.setStatus(503)
	w.fire(alerts.Error, nil, "a")
	w.advance(n, 0)
	w.receiver.setStatus(200)
	onDelivery(`RAISE EXCEPTION 'no delivery today'`)
	w.fire(alerts.Error, nil, "b", "c")
	w.now = w.now.Add(retryRest)
	if err := n.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "no delivery today") {
		t.Errorf("the error of routing is %v", err)
	}
	n.Finish()
	if got := w.deliveryState("a") + "; " + w.deliveryState("b"); got != "hook sent after 2; " {
		t.Error(got)
	}
	onDelivery("PERFORM pg_sleep(5)") // a transaction has 8 s
	w.advance(n, retryRest)
	w.advance(n, retryRest)
	if got := w.deliveryState("b") + "; " + w.deliveryState("c"); got != "hook sent after 1; hook sent after 1" {
		t.Error(got)
	}
}

// retryRest is longer than the pause of a failed channel.
const retryRest = 31 * time.Second

// The next node completes the work of a node that died.
func TestCrashes(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.fire(alerts.Error, nil, "a") // and the node dies before it routes
		w.advance(w.notifier(oneHookFile), 0)
		w.now = w.now.Add(time.Minute)
		ready := must[[]alerts.Notification](t)(w.Ready(t.Context(), w.now))
		if len(ready) != 1 {
			t.Fatalf("%+v", ready)
		}
		if _, ok, err := w.ClaimNotification(t.Context(), ready[0], w.now.Add(time.Minute)); !ok || err != nil {
			t.Fatal(ok, err)
		} // and the node dies before it sends, or before it records the result
		if _, ok, err := w.ClaimNotification(t.Context(), ready[0], w.now); ok || err != nil {
			t.Error("two nodes try one message", err)
		}
		w.fire(alerts.Error, nil, "b") // too late to join
		n := w.notifier(oneHookFile)
		w.advance(n, 0)
		w.advance(n, time.Minute)
		w.advance(n, time.Minute)
		if got := decodeMessages(t, w.receiver.received()); len(got) != 2 || got[0].Count != 1 || got[1].Count != 1 {
			t.Errorf("%+v", got)
		}
		if got := w.deliveryState("a") + "; " + w.deliveryState("b"); got != "hook sent after 2; hook sent after 1" {
			t.Error(got)
		}
	})
}

// A message accepted during a shutdown is recorded, and not sent again.
func TestMessageAcceptedDuringShutdownIsNotSentAgain(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		w.fire(alerts.Warning, nil, "k")
		w.advance(n, 0)
		ctx, stop := context.WithCancel(t.Context())
		w.receiver.during = stop
		w.now = w.now.Add(time.Minute)
		w.must(n.Step(ctx))
		n.Finish()
		if got := w.deliveryState("k"); got != "hook sent after 1" || len(w.receiver.received()) != 1 {
			t.Error(got)
		}
	})
}

// If two nodes both believe to be the notifying node, one of them routes.
func TestPlansAreCarriedOutOnce(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.fire(alerts.Error, nil, "a", "b")
		unrouted := must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(t.Context(), 10)))
		plan := alerts.Plan{Alerts: unrouted, Notifications: []alerts.Notification{{Channel: "hook", Route: "r", Topic: "t", Alerts: 2, PlannedAt: w.now}}}
		for _, a := range unrouted {
			plan.Assignments = append(plan.Assignments, alerts.Assignment{Alert: a, Channel: "hook"})
		}
		w.must(w.ApplyPlan(t.Context(), plan))
		if err := w.ApplyPlan(t.Context(), plan); err == nil || !strings.Contains(err.Error(), futurejobs.ErrCursorMoved.Error()) {
			t.Errorf("carried out twice: %v", err)
		}
		if ready := must[[]alerts.Notification](t)(w.Ready(t.Context(), w.now)); len(ready) != 1 || ready[0].Alerts != 2 {
			t.Errorf("%+v", ready)
		}
		// No alert joins a claimed message.
		open := must[[]alerts.Notification](t)(w.Lane(t.Context(), alerts.RouteChannel{Channel: "hook", Route: "r"}, 5))
		if _, ok, err := w.ClaimNotification(t.Context(), open[0], w.now); !ok || err != nil {
			t.Fatal(ok, err)
		}
		w.fire(alerts.Error, nil, "c")
		unrouted = must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(t.Context(), 10)))
		err := w.ApplyPlan(t.Context(), alerts.Plan{Alerts: unrouted, Notifications: open, Assignments: []alerts.Assignment{{Alert: unrouted[0], Channel: "hook"}}})
		if err == nil || len(must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(t.Context(), 10)))) != 1 {
			t.Errorf("an alert joined a message that was being sent: %v", err)
		}
	})
}

func TestUnroutedAlertsNeedSubscriber(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.fire(alerts.Error, nil, "a")
		w.must(w.Notify(t.Context(), false))
		w.fire(alerts.Error, nil, "b")
		if unrouted := must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(t.Context(), 10))); len(unrouted) != 0 {
			t.Errorf("%+v", unrouted)
		}
		if on := must[bool](t)(w.Notifying(t.Context())); on {
			t.Error("it is on")
		}
	})
}

func TestRetentionForgetsMessages(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		w.fire(alerts.Error, nil, "a")
		w.advance(n, 0)
		w.advance(n, time.Minute)
		a := w.alertOf("a")
		w.resolve("a")
		w.advance(n, 0)
		w.advance(n, time.Minute)
		w.must(w.MarkPublished(t.Context(), must[[]alerts.Alert](t)(batchOf(w.Unpublished(t.Context(), []int16{a.Shard}, 10, nil)))))
		w.must(prune(w, -2*futurejobs.Day))
		if left := must[[]alerts.Delivery](t)(w.Deliveries(t.Context(), a)); len(left) != 0 {
			t.Errorf("%+v", left)
		}
		if left := must[[]alerts.Notification](t)(w.Lane(t.Context(), alerts.RouteChannel{Channel: "hook", Route: "route 1"}, 5)); len(left) != 0 {
			t.Errorf("%+v", left)
		}
	})
}

// TestRetentionLeavesOpenAlertsResolvable checks that the end of an alert that was open for longer than keep_alerts goes to the
// channels of each of its steps.
func TestRetentionLeavesOpenAlertsResolvable(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels:
  calm: {kind: webhook, url: $URL}
  loud: {kind: webhook, url: $URL}
routes:
  - {severity: critical, to: loud, group_wait: 0s}
  - {to: calm, group_wait: 0s}
`)
		w.fire(alerts.Warning, nil, "a")
		w.advance(n, 0)
		w.raise(alerts.Critical, nil, "a")
		w.advance(n, 0)
		fired := decodeMessages(t, w.receiver.received())
		for _, l := range must[[]futurejobs.Lease](t)(w.Leases(t.Context())) {
			w.must(w.MarkPublished(t.Context(), must[[]alerts.Alert](t)(batchOf(w.Unpublished(t.Context(), []int16{l.Shard}, 10, nil)))))
		}
		w.must(prune(w, -2*futurejobs.Day)) // all rows are older than keep_alerts
		w.resolve("a")
		w.advance(n, 0)
		var ended []string
		for _, m := range decodeMessages(t, w.receiver.received()) {
			if len(m.Alerts) != 1 || m.Alerts[0].Status != alerts.Resolved || m.Alerts[0].Key != "a" {
				t.Errorf("%+v", m)
			}
			ended = append(ended, m.Channel)
		}
		slices.Sort(ended)
		if want := []string{"calm", "loud"}; len(fired) != 2 || !slices.Equal(ended, want) {
			t.Errorf("%d messages of the steps; the end goes to %v, want %v", len(fired), ended, want)
		}
	})
}

func TestWebhookIsSigned(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.secret("hook.secret", hookSecret)
		n := w.notifier(`
channels: {hook: {kind: webhook, url: $URL/signed, secret_file: hook.secret}}
routes: [{to: hook, group_wait: 0s}]
`)
		w.fire(alerts.Error, nil, "a")
		w.advance(n, 0)
		p := w.receiver.received()[0]
		if got, want := p.header.Get("Webhook-Signature"), signature(p, w.now); got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
		if link := "https://deadman.example.org/alerts/" + w.alertOf("a").ID.String(); !strings.Contains(p.body, link) {
			t.Errorf("no link %s in %s", link, p.body)
		}
	})
}

// Events of stored schedules are posted as CloudEvents, with the signature of messages and the headers of the channel.
func TestTicksArePosted(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.secret("hook.secret", hookSecret)
		n := w.notifier(`
channels:
  hook: {kind: webhook, url: $URL/ticks, secret_file: hook.secret}
  chat: {kind: alertmanager-webhook, url: $URL/chat}
routes: []
`)
		if names := n.TickWebhooks(); !slices.Equal(names, []string{"hook"}) {
			t.Errorf("channels that can post events: %v", names)
		}
		tick := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
		event := func(id string) futurejobs.Emission {
			return futurejobs.Emission{Rule: "due", ID: "due/" + id + "/1777885200", Schedule: id, Data: []byte(`{"n":1}`), At: tick, Missed: 2}
		}
		for i, err := range n.PostTicks(t.Context(), "hook", "deadman", []futurejobs.Emission{event("a"), event(`b"`)}) {
			if err != nil {
				t.Errorf("event %d: %v", i, err)
			}
		}
		got := w.receiver.received()
		slices.SortFunc(got, func(a, b post) int { return strings.Compare(a.header.Get("Ce-Id"), b.header.Get("Ce-Id")) })
		for i, id := range []string{"a", `b"`} {
			p := got[i]
			for name, want := range map[string]string{
				"Ce-Specversion": "1.0", "Ce-Id": event(id).ID, "Ce-Type": "dev.deadman.tick.v1", "Ce-Source": "deadman", "Ce-Subject": "due", "Ce-Schedule": strings.ReplaceAll(id, `"`, "%22"),
				"Ce-Time": "2026-05-04T09:00:00Z", "Ce-Missed": "2", "Content-Type": "application/json", "Webhook-Id": event(id).ID, "Webhook-Signature": signature(p, w.now),
			} {
				if p.header.Get(name) != want {
					t.Errorf("%s: %q, want %q", name, p.header.Get(name), want)
				}
			}
			if p.path != "/ticks" || p.body != `{"n":1}` {
				t.Errorf("posted to %s: %s", p.path, p.body)
			}
		}
		w.receiver.setStatus(500)
		for channel, want := range map[string]string{
			"hook": "webhook hook: it answers 500 Internal Server Error", "chat": "no channel of the kind webhook is named chat", "other": "no channel of the kind webhook is named other",
		} {
			if errs := n.PostTicks(t.Context(), channel, "deadman", []futurejobs.Emission{event("a")}); len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), want) {
				t.Errorf("%s: %v, want %s", channel, errs, want)
			}
		}
	})
}

// signature returns the signature of Standard Webhooks.
func signature(p post, at time.Time) string {
	mac := hmac.New(sha256.New, []byte("0123456789abcdef0123456789abcdef"))
	fmt.Fprintf(mac, "%s.%d.%s", p.header.Get("Webhook-Id"), at.Unix(), p.body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		w.receiver.setStatus(307)
		reason, err := n.Test(t.Context(), "hook")
		if err != nil || !strings.Contains(reason, "redirects are not followed") {
			t.Errorf("%q, %v", reason, err)
		}
		if got := w.receiver.received(); len(got) != 1 || got[0].path != "/hook" {
			t.Errorf("%+v", got)
		}
		if _, err := n.Test(t.Context(), "unknown"); err == nil {
			t.Error("a channel that is not there was tested")
		}
	})
}
