package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/rules"
)

// A schedule that is over when the rule is saved is a warning, once, and no reason to refuse it.
func TestSaveWarnsOfExpiredSchedule(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	r.Now = func() time.Time { return clockTime(12, 0) }
	for _, c := range []struct {
		name, schedule string
		want           []string
	}{
		{"past", "@at 2026-01-01T00:00:00Z", []string{"schedule: @at 2026-01-01T00:00:00Z is over, so the rule never ticks; write a time to come, or a crontab"}},
		{"past", "@at 2026-01-01T00:00:00Z", nil}, // a change of nothing
		{"to-come", "@at 2126-01-01T00:00:00Z", nil},
		{"again", "@daily", nil},
	} {
		text := "name: " + c.name + "\nentity: import\ntrigger: {schedule: '" + c.schedule + "'}\nescalate: [{after: 1h}]\n"
		change, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion})
		if err != nil || !slices.Equal(change.Warnings, c.want) {
			t.Errorf("%s: %q, %v", c.schedule, change.Warnings, err)
		}
	}
}

// TestSaveWarnsOfOvertaking checks the warning of a resolve in another stream than its trigger, unless the trigger has a
// time of its own.
func TestSaveWarnsOfOvertaking(t *testing.T) {
	server, b := newBroker(t)
	js := bustest.JetStream(t, "", nats.InProcessServer(server))
	for name, subject := range map[string]string{"ORDERS": "orders.>", "SHIPPING": "shipping.>"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	r := newRegistry(b, openStore(t))
	const warning = "resolve[1]: shipping.done is in stream SHIPPING and the trigger orders.created in ORDERS, so a resolve that is stored before its trigger does not count"
	resolves := "\nresolve: [{event: orders.cancelled, key: event.id}, {event: shipping.done, key: event.id}]"
	for text, want := range map[string]string{
		"trigger: {event: orders.created, key: event.id}" + resolves:                                       warning,
		"trigger: {event: orders.created, key: event.id, since: event.at}" + resolves:                      "",
		"trigger: {event: orders.created, key: event.id}\nresolve: {event: orders.shipped, key: event.id}": "",
	} {
		rule := "name: order\nentity: order\n" + text + "\nescalate: [{after: 1h}]\n"
		for _, isDry := range []bool{true, false} {
			change, err := r.Save(t.Context(), []byte(rule), "", rules.SaveOptions{Version: rules.AnyVersion, DryRun: isDry})
			if err != nil || (want == "") != (len(change.Warnings) == 0) || !strings.HasPrefix(strings.Join(change.Warnings, "\n"), want) {
				t.Errorf("%s: %q, %v", text, change.Warnings, err)
			}
		}
	}
}
