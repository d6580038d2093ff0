package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"deadman/checks"
	"deadman/server"
)

// A guard that ends jobs of a rule is counted under the rule and the guard.
func TestGuardsAreCountedByRule(t *testing.T) {
	t.Parallel()
	var handlers checks.Handlers
	for name, answer := range map[string]func(checks.Check) time.Time{
		"backwards": func(c checks.Check) time.Time { return c.Slot.Add(-time.Minute) },
		"far":       func(c checks.Check) time.Time { return c.Slot.AddDate(10, 0, 0) },
		"restless":  func(c checks.Check) time.Time { return c.Slot.Add(time.Second) },
	} {
		err := handlers.Register(name, checks.HandlerFunc(func(_ context.Context, c checks.Check) (checks.Answer, error) {
			return checks.Answer{Next: answer(c)}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	n := startReadyNode(t, server.Config{Handlers: &handlers, Rules: ruleFolder(t, map[string]string{
		"a.yaml": "name: a\nentity: order\nslot: 1s\ntrigger: {event: orders.created, key: event.id}\nhandler: backwards\n",
		"b.yaml": "name: b\nentity: order\nslot: 1s\ntrigger: {event: orders.created, key: event.id}\nhandler: far\n",
		"c.yaml": "name: c\nentity: order\nslot: 1s\ntrigger: {event: orders.created, key: event.id}\nhandler: restless\nguards: {max_checks: 2}\n",
	})})
	for _, id := range []string{"1", "2"} {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.created", `{"id":"`+id+`"}`)
	}
	n.eventually("the guards are counted", func() bool {
		text := n.metrics()
		for _, line := range []string{
			`deadman_checks_total{outcome="guard_past",rule="a"} 2`, `deadman_checks_total{outcome="guard_horizon",rule="b"} 2`,
			`deadman_checks_total{outcome="guard_max_checks",rule="c"} 2`,
		} {
			if !strings.Contains(text, "\n"+line+"\n") {
				return false
			}
		}
		return true
	})
}

// A handler that ignores its timeout is abandoned, and counted.
func TestAbandonedHandlersAreCounted(t *testing.T) {
	t.Parallel()
	var handlers checks.Handlers
	hang := make(chan struct{})
	defer close(hang)
	err := handlers.Register("deaf", checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
		<-hang
		return checks.Answer{}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	n := startReadyNode(t, server.Config{Handlers: &handlers, Rules: ruleFolder(t, map[string]string{
		"a.yaml": "name: a\nentity: order\nslot: 1s\ntrigger: {event: orders.created, key: event.id}\nhandler: deaf\nguards: {timeout: 10ms, attempts: 1, end: true}\n",
	})})
	for _, id := range []string{"1", "2"} {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.created", `{"id":"`+id+`"}`)
	}
	n.eventually("two are given up", func() bool {
		var ended struct{ Items []struct{ Outcome string } }
		n.get("/api/v1/history", &ended)
		return len(ended.Items) == 2
	})
	n.eventually("they are counted", func() bool { return strings.Contains(n.metrics(), "\ndeadman_handlers_abandoned 2\n") })
}
