package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/internal/store"
)

// forgotten is the key to be forgotten. Another key and another entity with the same key stay.
const forgotten = `erika_%<&4711\`

// pastOf gives a key of the fixture's rule a past in each table.
func pastOf(w *fixture, key string) (letter int64) {
	w.t.Helper()
	ctx := access.As(w.ctx(), ada)
	w.must(w.Notify(ctx, true))
	create := futurejobs.EffectBatch{RuleSet: w.set, AuditAction: string(access.JobCreate), Effects: []futurejobs.Effect{w.starting(w.rule, key, w.slot())}}
	must[futurejobs.ApplyResult](w.t)(w.Apply(ctx, create))
	w.settle(w.reschedule(w.one(key), w.slot().Add(time.Hour)))
	w.must(beginCheckOf(w, key))
	ack := futurejobs.Ack{Alert: w.one(key).Alerts[0], By: ada.Name, Until: checks.Forever, Note: "I call " + key + "."}
	must[futurejobs.ApplyResult](w.t)(w.Apply(ctx, futurejobs.EffectBatch{
		RuleSet: w.set, AuditAction: string(access.AlertAck), Effects: []futurejobs.Effect{actionEffect(w, w.rule, key, time.Time{}, futurejobs.Acknowledge{Ack: ack})},
	}))
	w.settle(w.exhausted(w.one(key)))
	w.applyManually(eventEffect(w, key, w.slot(), futurejobs.Day))
	must[alerts.Mute](w.t)(w.CreateMute(ctx, alerts.Mute{Match: alerts.Match{"key": key}, Reason: "moved", EndsAt: w.slot()}))
	if _, _, err := address(w, key); err != nil {
		w.t.Fatal(err)
	}
	w.must(w.LogPings(ctx, []pings.Entry{{RuleID: w.rule.ID, Key: key, At: w.slot(), Agent: "curl", Body: key}}))
	must[*access.StoredResponse](w.t)(w.Begin(ctx, "POST "+key, [32]byte{}))
	w.must(w.Finish(ctx, "POST "+key, access.StoredResponse{Status: 201, Body: plainJSON(w, key)}))
	before := pages(w.t, futurejobs.Filter{}, w.DeadLetters)
	must[futurejobs.ApplyResult](w.t)(w.Apply(ctx, futurejobs.EffectBatch{RuleSet: w.set, DeadLetters: []futurejobs.DeadLetter{
		{Event: futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: 8, Data: []byte(`{"id":"` + key + `"}`)}, Rule: w.rule.Name, Reason: "no total"},
	}}))
	for _, l := range pages(w.t, futurejobs.Filter{}, w.DeadLetters) {
		if !slices.ContainsFunc(before, func(b futurejobs.DeadLetter) bool { return b.ID == l.ID }) {
			letter = l.ID
		}
	}
	return letter
}

// plainJSON returns a text as JSON without the escapes for HTML, as the API answers.
func plainJSON(w *fixture, text string) []byte {
	w.t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	w.must(e.Encode(map[string]string{"key": text}))
	return b.Bytes()
}

// beginCheckOf records the start of a check of a key's job.
func beginCheckOf(w *fixture, key string) error {
	j := w.one(key)
	i := slices.IndexFunc(w.held, func(h futurejobs.HeldShard) bool { return h.Shard == j.Shard })
	_, err := w.BeginCheck(w.ctx(), futurejobs.CheckStart{HeldShard: w.held[i], JobID: j.ID, CheckAttempts: 1})
	return err
}

// deliver publishes all alerts and sends the notifications about them.
func deliver(w *fixture) {
	w.t.Helper()
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	unrouted := must[[]alerts.Alert](w.t)(batchOf(w.UnroutedAlerts(w.ctx(), 100)))
	if len(unrouted) > 0 {
		w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: w.slot()}, unrouted...)))
	}
	now := must[time.Time](w.t)(w.Now(w.ctx()))
	for {
		ready := must[[]alerts.Notification](w.t)(w.Ready(w.ctx(), w.slot()))
		if len(ready) == 0 {
			return
		}
		claimed, ok, err := w.ClaimNotification(w.ctx(), ready[0], w.slot().Add(time.Hour))
		if err != nil || !ok {
			w.t.Fatalf("claim: %v, %v", ok, err)
		}
		w.must(w.Sent(w.ctx(), claimed, now, ""))
	}
}

// everythingAbout returns texts with all that lists show of a key.
func everythingAbout(w *fixture, entity, key string) (texts []string) {
	f := futurejobs.Filter{Entity: entity, Key: key}
	for _, j := range pages(w.t, f, w.History) {
		texts = append(texts, "job "+j.Key)
	}
	for _, a := range pages(w.t, futurejobs.Filter{}, w.Alerts) {
		if a.Entity == entity && a.Key == key {
			texts = append(texts, "alert "+a.Key)
			for _, d := range must[[]alerts.Delivery](w.t)(w.Deliveries(w.ctx(), a.Alert)) {
				texts = append(texts, fmt.Sprintf("delivery of %s: %s", a.Key, d.State))
			}
		}
	}
	for _, e := range auditEntries(w, access.AuditFilter{}) {
		if strings.Contains(e.Object+e.Detail, key) {
			texts = append(texts, e.Action+" "+e.Object+" "+e.Detail)
		}
	}
	return texts
}

func keyIsForgotten(t *testing.T, w *fixture) {
	letter := pastOf(w, forgotten)
	pastOf(w, "another")
	w.rule = w.save("invoice-unpaid", "invoice")
	w.start(w.slot(), forgotten)
	w.settle(w.exhausted(w.one(forgotten)))
	deliver(w)
	others := [][]string{everythingAbout(w, "order", "another"), everythingAbout(w, "invoice", forgotten)[:3]} // a job, an alert, its delivery
	ctx := access.As(w.ctx(), ada)
	r := store.ForgetRequest{Entity: "order", Key: forgotten, Letters: []int64{letter}, DryRun: true}
	if found := must[[]alerts.Alert](t)(w.AlertsOfKey(ctx, "order", forgotten)); len(found) != 2 || found[0].Subject() == found[1].Subject() {
		t.Errorf("alerts of the key: %+v", found)
	}

	want := store.Forgotten{Jobs: 1, Alerts: 2, Notifications: 2, EarlyResolves: 1, Pings: 1, PingAddresses: 1, Mutes: 1, DeadLetters: 1, Answers: 1, Audit: 4}
	counted := must[store.Forgotten](t)(w.ForgetKey(ctx, r))
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	if all := everythingAbout(w, "order", forgotten); len(all) != 9 {
		t.Errorf("after a dry run: %q", all)
	}
	r.DryRun = false
	done := must[store.Forgotten](t)(w.ForgetKey(ctx, r))
	if diff := cmp.Diff(want, done, cmpopts.IgnoreFields(store.Forgotten{}, "Pseudonym")); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
	if all := everythingAbout(w, "order", forgotten); len(all) != 0 {
		t.Errorf("left: %q", all)
	}
	var renamed []string
	for _, e := range auditEntries(w, access.AuditFilter{}) {
		if strings.Contains(e.Object+e.Detail, done.Pseudonym) {
			renamed = append(renamed, strings.ReplaceAll(e.Action+" "+e.Object+" "+e.Detail, done.Pseudonym, "P"))
		}
	}
	if len(renamed) != 5 || renamed[0] != "entity.forget entity/order/P jobs: 1, alerts: 2, dead letters: 1" ||
		!slices.ContainsFunc(renamed, func(s string) bool { return strings.HasSuffix(s, "order-unshipped/P; until resolved; I call P.") }) {
		t.Errorf("audit: %q", renamed)
	}
	if diff := cmp.Diff(others, [][]string{everythingAbout(w, "order", "another"), everythingAbout(w, "invoice", forgotten)}); diff != "" {
		t.Errorf("other keys (-want +got):\n%s", diff)
	}
	checkBalance(w, 3)
	if got := must[futurejobs.ApplyResult](t)(w.Apply(ctx, futurejobs.EffectBatch{RuleSet: w.set, Effects: []futurejobs.Effect{w.starting(w.rule, forgotten, w.slot())}})); got.Created != 1 {
		t.Errorf("a new job of the key: %+v", got)
	}
}

func keyInUseIsNotForgotten(t *testing.T, w *fixture) {
	refused := func(want string) {
		t.Helper()
		before := everythingAbout(w, "order", forgotten)
		_, err := w.ForgetKey(w.ctx(), store.ForgetRequest{Entity: "order", Key: forgotten})
		if !errors.Is(err, store.ErrKeyInUse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if diff := cmp.Diff(before, everythingAbout(w, "order", forgotten)); diff != "" {
			t.Errorf("a refused request changed (-before +after):\n%s", diff)
		}
	}
	w.must(w.Notify(w.ctx(), true))
	w.start(w.slot(), forgotten)
	w.settle(w.reschedule(w.one(forgotten), w.slot().Add(time.Hour)))
	w.applyManually(acknowledges(w, forgotten, w.one(forgotten).Alerts[0], checks.Forever))
	refused("1 pending jobs")
	w.settle(w.exhausted(w.one(forgotten)))
	refused("2 alerts about it are not published")
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	refused("2 alerts about it are not delivered")
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: w.slot()}, must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 100)))...)))
	refused("2 alerts about it are not delivered")
	deliver(w)
	acks := must[[]alerts.JobAck](t)(w.UnroutedAcks(w.ctx(), 10))
	w.must(w.ApplyPlan(w.ctx(), alerts.Plan{
		Acks: acks, Notifications: []alerts.Notification{{Channel: hookRoute.Channel, Route: hookRoute.Route, Topic: "key=" + forgotten, PlannedAt: w.slot()}},
		AckAssignments: []alerts.AckAssignment{{Ack: acks[0]}},
	}))
	refused("1 messages about its acknowledgements")
	deliver(w)
	if _, err := w.ForgetKey(w.ctx(), store.ForgetRequest{Entity: "order", Key: forgotten}); err != nil {
		t.Error(err)
	}
	if left := must[[]alerts.Notification](t)(w.Lane(w.ctx(), hookRoute, 10)); len(left) != 0 {
		t.Errorf("messages about the key are left: %+v", left)
	}
	if _, err := w.ForgetKey(w.ctx(), store.ForgetRequest{Entity: "parcel", Key: forgotten}); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("unknown entity: %v", err)
	}
	if done, err := w.ForgetKey(w.ctx(), store.ForgetRequest{Entity: "order", Key: uuid.NewString()}); err != nil || done.Jobs != 0 {
		t.Errorf("unknown key: %+v, %v", done, err)
	}
}
