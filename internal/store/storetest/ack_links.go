package storetest

import (
	"bytes"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/internal/acklinks"
)

// ackKeysAreReplaced checks that the key of links is created once, and replaced when the links are revoked.
func ackKeysAreReplaced(t *testing.T, w *fixture) {
	key := func() []byte { return must[[]byte](t)(w.AckKey(w.ctx())) }
	first := key()
	if len(first) != acklinks.KeySize || !bytes.Equal(first, key()) {
		t.Fatalf("the keys are %x and %x", first, key())
	}
	for range 2 {
		w.must(w.RevokeAckLinks(access.As(w.ctx(), access.Actor{Name: "root"})))
	}
	if second := key(); len(second) != acklinks.KeySize || bytes.Equal(first, second) || !bytes.Equal(second, key()) {
		t.Errorf("the key is %x after %x", second, first)
	}
	entries, _, err := w.Audit(w.ctx(), access.AuditFilter{Action: string(access.AckLinkRevoke)})
	if err != nil || len(entries) != 2 || entries[0].Object != "ack-links" || entries[0].Actor.Name != "root" {
		t.Errorf("%+v, %v", entries, err)
	}
}

// alertsOfMessageAreListed checks that the newest alert of each pending key of a message is listed in pages, with the
// acknowledgement, and no alert of another message.
func alertsOfMessageAreListed(t *testing.T, w *fixture) {
	now := w.slot()
	w.must(w.Notify(w.ctx(), true))
	w.start(now, "a", "b", "c", "d", "other")
	for _, key := range []string{"a", "b", "c", "d", "other"} {
		w.settle(w.reschedule(w.one(key), now.Add(time.Hour)))
	}
	w.settle(w.reschedule(w.one("a"), now.Add(2*time.Hour))) // a second alert
	var ours []alerts.Alert
	for _, a := range must[[]alerts.Alert](t)(batchOf(w.UnroutedAlerts(w.ctx(), 100))) {
		if a.Key != "other" {
			ours = append(ours, a)
		}
	}
	if len(ours) != 5 {
		t.Fatalf("%d alerts", len(ours))
	}
	w.must(w.ApplyPlan(w.ctx(), notifyPlan(alerts.Notification{PlannedAt: now}, ours...)))
	w.applyManually(acknowledges(w, "b", w.one("b").Alerts[0], now.Add(time.Hour)))
	w.settle(w.exhausted(w.one("c")))
	w.start(now, "c") // another job, which did not raise the alert
	message := w.ready(now).ID
	var keys []string
	for after, size := (alerts.ID{}), 2; size == 2; {
		page, err := w.MessageAlerts(w.ctx(), message, after, 2)
		w.must(err)
		for _, a := range page {
			if all := w.one(a.Key).Alerts; a.ID != all[len(all)-1] || (a.Ack != nil) != (a.Key == "b") || bytes.Compare(a.ID[:], after[:]) <= 0 {
				t.Errorf("%+v", a)
			}
			after, keys = a.ID, append(keys, a.Key)
		}
		size = len(page)
	}
	if len(keys) != 3 {
		t.Errorf("the keys are %v, want a, b and d", keys)
	}
	if none, err := w.MessageAlerts(w.ctx(), message+1, alerts.ID{}, 10); len(none) != 0 || err != nil {
		t.Errorf("%+v, %v", none, err)
	}
}
