package rules_test

import (
	"strings"
	"testing"
	"time"

	"deadman/rules/document"
)

// The default text of a step names what is missing, the key and the time since the start.
func TestDefaultTexts(t *testing.T) {
	order := document.Trigger{Event: "orders.created"}
	paid, shipped := on("orders.paid"), on("orders.shipped")
	set, matching := shipped, paid
	set.Distinct, matching.If = "event.parcel", "event.ok"
	for name, c := range map[string]struct {
		document document.Document
		want     string
	}{
		"an event":              {document.Document{Trigger: order, Resolve: []document.Resolve{shipped}}, "no orders.shipped for order {{key}} within 3h of orders.created"},
		"one of two":            {document.Document{Trigger: order, Resolve: []document.Resolve{paid, shipped}}, "no orders.paid or orders.shipped for order {{key}} within 3h of orders.created"},
		"the same event twice":  {document.Document{Trigger: order, Resolve: []document.Resolve{paid, paid}}, "no orders.paid for order {{key}} within 3h of orders.created"},
		"more than are named":   {document.Document{Trigger: order, Resolve: []document.Resolve{on("a"), on("b"), on("c"), on("d")}}, "no resolving event for order {{key}} within 3h of orders.created"},
		"an event that matches": {document.Document{Trigger: order, Resolve: []document.Resolve{matching}}, "no matching orders.paid for order {{key}} within 3h of orders.created"},
		"a set":                 {document.Document{Trigger: order, Resolve: []document.Resolve{set}}, "not all orders.shipped for order {{key}} within 3h of orders.created"},
		"a set or an event":     {document.Document{Trigger: order, Resolve: []document.Resolve{set, paid}}, "order {{key}} not resolved by orders.shipped or orders.paid within 3h of orders.created"},
		"a condition":           {document.Document{Trigger: order, While: "state.open"}, "state.open still holds for order {{key}}, 3h after orders.created"},
		"an event first":        {document.Document{Trigger: order, While: "state.open", Resolve: []document.Resolve{paid}}, "no orders.paid for order {{key}} within 3h of orders.created"},
		"neither":               {document.Document{Trigger: order}, "3h passed for order {{key}} since orders.created"},
		"since":                 {document.Document{Trigger: document.Trigger{Event: "a", Since: "event.at"}, Resolve: []document.Resolve{paid}}, "no orders.paid for order {{key}} within 3h of event.at"},
		"a tick":                {document.Document{Trigger: document.Trigger{Schedule: "@every 1h"}, Resolve: []document.Resolve{paid}}, "no orders.paid for order {{key}} within 3h of the tick"},
		"a heartbeat": {
			document.Document{Trigger: document.Trigger{Heartbeat: &document.Heartbeat{Every: document.Duration(10 * time.Minute)}}},
			"order {{key}}: no heartbeat since …, expected every 10m",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.document.Name, c.document.Entity = "late", "order"
			step := document.Step{Name: "primary", After: document.Delay{Fixed: document.Duration(3 * time.Hour)}}
			if got := c.document.StepText(step); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The name of a repeated step has its repetitions, and an own text replaces the default.
func TestDefaultTextsOfSteps(t *testing.T) {
	d := document.Document{Name: "late", Entity: "order", Trigger: document.Trigger{Event: "orders.created"}}
	for want, s := range map[string]document.Step{
		"… passed for order {{key}} since orders.created (nag …)":         {Name: "nag", Until: document.UntilAcknowledged},
		"… passed for order {{key}} since orders.created (nag … of 3)":    {Name: "nag", Times: 3},
		"8h of office time passed for order {{key}} since orders.created": {Name: "first", Of: "office", After: document.Delay{Fixed: document.Duration(8 * time.Hour)}},
		"{{key}} is late": {Name: "nag", Times: 3, Text: "{{key}} is late"},
	} {
		if got := d.StepText(s); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	d.Resolve = []document.Resolve{on("orders.shipped")}
	for calendar, want := range map[string]string{
		"": "no orders.shipped for order {{key}} within 8h of orders.created", "office": "no orders.shipped for order {{key}} within 8h of office time after orders.created",
	} {
		if got := d.StepText(document.Step{Name: "first", Of: calendar, After: document.Delay{Fixed: document.Duration(8 * time.Hour)}}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// The default text of a step at an instant names the time, with the date on another day than that of the job's beginning.
func TestDefaultTextsAtInstants(t *testing.T) {
	const paid = "resolve: {event: orders.paid, key: event.id}"
	for at, c := range map[string]struct{ more, want string }{
		"since":                 {paid, "no orders.paid for order a by 10:00 UTC"},
		"since + seconds(3605)": {paid, "no orders.paid for order a by 11:00:05 UTC"},
		"since + hours(15)":     {"while: state.open == true", "state.open == true still holds for order a at 2026-03-03 01:00 UTC"},
		"since + hours(1)":      {"quiet: true", "order a: 11:00 UTC has passed"},
	} {
		text := "name: late\nentity: order\ntrigger: {event: orders.created, key: event.id}\n" + c.more + "\nescalate: [{at: " + at + "}]\n"
		lines := strings.Join(evaluateStory(t, text, nil, timedEvent{"0s", "orders.created", `{"id": "a", "open": true}`}), "\n")
		if !strings.Contains(lines, "step-1 "+c.want+"\n") {
			t.Errorf("at %s, want %s\n%s", at, c.want, lines)
		}
	}
	d := document.Document{Name: "late", Entity: "order", Trigger: document.Trigger{Schedule: "30 1 * * *", Zone: "Europe/Berlin"}, Resolve: []document.Resolve{on("orders.paid")}}
	if got := d.StepText(document.Step{At: "06:00"}); got != "no orders.paid for order {{key}} by 06:00 Europe/Berlin" {
		t.Error(got)
	}
	d.Trigger = document.Trigger{Event: "orders.created"}
	if got := d.StepText(document.Step{At: "date(event.due)"}); got != "no orders.paid for order {{key}} by …" {
		t.Error(got)
	}
}

func on(event string) document.Resolve { return document.Resolve{Watch: document.Watch{Event: event}} }
