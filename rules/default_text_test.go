package rules_test

import (
	"testing"
	"time"

	"deadman/rules"
)

// The default text of a step names what is missing, the time since the start, the rule and the step.
func TestDefaultTexts(t *testing.T) {
	order := rules.Trigger{Event: "orders.created"}
	paid, shipped := on("orders.paid"), on("orders.shipped")
	set, matching := shipped, paid
	set.Distinct, matching.If = "event.parcel", "event.ok"
	for name, c := range map[string]struct {
		document rules.Document
		want     string
	}{
		"an event":              {rules.Document{Trigger: order, Resolve: []rules.Resolve{shipped}}, "no orders.shipped 3h after orders.created"},
		"one of two":            {rules.Document{Trigger: order, Resolve: []rules.Resolve{paid, shipped}}, "no orders.paid or orders.shipped 3h after orders.created"},
		"the same event twice":  {rules.Document{Trigger: order, Resolve: []rules.Resolve{paid, paid}}, "no orders.paid 3h after orders.created"},
		"more than are named":   {rules.Document{Trigger: order, Resolve: []rules.Resolve{on("a"), on("b"), on("c"), on("d")}}, "no resolving event 3h after orders.created"},
		"an event that matches": {rules.Document{Trigger: order, Resolve: []rules.Resolve{matching}}, "no matching orders.paid 3h after orders.created"},
		"a set":                 {rules.Document{Trigger: order, Resolve: []rules.Resolve{set}}, "not all orders.shipped 3h after orders.created"},
		"a set or an event":     {rules.Document{Trigger: order, Resolve: []rules.Resolve{set, paid}}, "not resolved by orders.shipped or orders.paid 3h after orders.created"},
		"a condition":           {rules.Document{Trigger: order, While: "state.open"}, "state.open still holds 3h after orders.created"},
		"an event first":        {rules.Document{Trigger: order, While: "state.open", Resolve: []rules.Resolve{paid}}, "no orders.paid 3h after orders.created"},
		"neither":               {rules.Document{Trigger: order}, "3h passed since orders.created"},
		"since":                 {rules.Document{Trigger: rules.Trigger{Event: "a", Since: "event.at"}, Resolve: []rules.Resolve{paid}}, "no orders.paid 3h after event.at"},
		"a tick":                {rules.Document{Trigger: rules.Trigger{Schedule: "@every 1h"}, Resolve: []rules.Resolve{paid}}, "no orders.paid 3h after the tick"},
		"a heartbeat": {
			rules.Document{Trigger: rules.Trigger{Heartbeat: &rules.Heartbeat{Every: rules.Duration(10 * time.Minute)}}},
			"no heartbeat since …, expected every 10m",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.document.Name, c.document.Entity = "late", "order"
			step := rules.Step{Name: "primary", After: rules.Delay{Fixed: rules.Duration(3 * time.Hour)}}
			want := "order {{key}}: " + c.want + " (rule late, step primary)"
			if got := c.document.StepText(step); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// The name of a repeated step has its repetitions, and an own text replaces the default.
func TestDefaultTextsOfSteps(t *testing.T) {
	d := rules.Document{Name: "late", Entity: "order", Trigger: rules.Trigger{Event: "orders.created"}}
	for want, s := range map[string]rules.Step{
		"order {{key}}: … passed since orders.created (rule late, step nag …)":      {Name: "nag", Until: rules.UntilAcknowledged},
		"order {{key}}: … passed since orders.created (rule late, step nag … of 3)": {Name: "nag", Times: 3},
		"{{key}} is late": {Name: "nag", Times: 3, Text: "{{key}} is late"},
	} {
		if got := d.StepText(s); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func on(event string) rules.Resolve { return rules.Resolve{Watch: rules.Watch{Event: event}} }
