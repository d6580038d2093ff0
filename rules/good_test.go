package rules_test

import (
	"testing"
	_ "time/tzdata" // the same zones on every machine

	"deadman/internal/calendars"
	"deadman/rules"
)

// goodDocuments are valid documents, each for a part of the language.
var goodDocuments = []struct{ name, text string }{
	{"the base", baseRule},
	{"lists of events", withEdits(
		"update: [{event: orders.changed, key: event.id}, {event: parcels.moved, key: event.order}]",
		"resolve: [{event: orders.shipped, key: event.id}, {event: orders.changed, key: event.id, if: 'event.status == \"CANCELLED\"', as: cancelled}]",
		"pause: [{event: orders.changed, key: event.id, if: 'event.status == \"ON_HOLD\"'}]",
	)},
	{"single events", withEdits(
		"update: {event: orders.changed, key: event.id}",
		"pause: {event: orders.changed, key: event.id, if: 'event.status == \"ON_HOLD\"'}",
	)},
	{"a pause from an event until another", withEdits("pause: {event: orders.held, key: event.id, until: orders.released}")},
	{"a pause until an event with a key of its own", withEdits("pause: [{event: orders.held, key: event.id, if: event.days > 1, until: {event: orders.changed, key: event.order, if: 'event.status == \"READY\"'}}]")},
	{"a pause that another event ends", withEdits("pause: [{event: orders.held, key: event.id}, {event: orders.*, key: event.id, if: 'wildcard(1) == \"held\"'}]")},
	{"until acknowledged, and a step after that", withEdits("escalate: [{after: 1h}, {every: 15m, until: acknowledged, step: nag}, {after: 8h, severity: critical}]")},
	{"spread", withEdits("spread: 30m")},
	{"a set", withEdits("resolve: {event: parcels.sent, key: event.order, distinct: event.parcel, need: 3}")},
	{"a set, and an event that ends the job with any members", withEdits("resolve: [{event: a, key: event.id, distinct: event.n, need: 3}, {event: a, key: event.id, if: event.last == true, as: done}]")},
	{"a computed set", withEdits("resolve: {event: parcels.sent, key: event.order, distinct: event.parcel, need: len(state.parcels)}")},
	{"a set of the event that begins", withEdits("resolve: {event: orders.created, key: event.id, distinct: event.shop, need: 2}")},
	{"wildcards", withEdits("trigger: {event: 'orders.*.*.>', key: 'wildcard(1) + \"/\" + wildcard(3)', if: 'wildcard(2) == \"placed\"', since: 'date(wildcard(3))'}")},
	{"steps of every kind", withEdits(
		"escalate: [{after: 1h, step: primary}, {after: 8h, of: office}, {every: 24h, times: 3, within: office}, {after: hours(event.sla_hours)}, {at: date(event.due_at) - hours(1)}]",
	)},
	{"every comes first", withEdits("escalate: [{every: 1h, times: 3, step: again}]")},
	{"nothing is known behind a computed step", withEdits("escalate: [{after: 5h}, {after: hours(event.n)}, {after: 2h}]")},
	{"times of two calendars", withEdits("escalate: [{after: 8h, of: office}, {after: 4h, of: warehouse}, {after: 2h, of: night-shift}]")},
	{"a choice of spans", withEdits(`escalate: [{after: "event.vip == true ? hours(1) : hours(3)"}]`)},
	{"a span of the key", withEdits(`escalate: [{after: 'key startsWith "x" ? duration("1h") : duration("3h")'}]`)},
	{"as many turns as can be", withEdits("escalate: [{every: 1m, times: 1000}]")},
	{"a recheck", withEdits("recheck: date(state.eta) + minutes(10)")},
	{"a recheck that may be nil", withEdits(`recheck: "state.eta == nil ? nil : date(state.eta)"`)},
	{"late", withEdits("catch_up: {after: 2h, do: skip}")},
	{"late by default, on a slot of a day", withEdits("slot: 1d", "escalate: [{after: 2d}]")},
	{"as late as can be", withEdits("catch_up: {after: 1y, do: expire}")},
	{"early and again", withEdits("early: 0", "again: restart")},
	{"retries", withEdits("guards: {interval: 10s, jitter: 5s, attempts: 5}")},
	{"slots longer than the steps are apart", withEdits("escalate: [{after: 1m}, {after: 2m}]")},
	{"labels", withEdits(`labels: {team: fulfilment, url: "https://shop.example.com/orders/{{key}}", status: "{{state.status}}", step: "{{step}}", none: ""}`)},
	{"a text about the job", withEdits(`escalate: [{every: 1h, times: 3, text: "{{job.rule}}: {{key}} waits since {{job.since}}, turn {{job.turn}} of {{job.turns}}, {{job.count}} checks, {{job.step}}"}]`)},
	{"a schedule", withEdits(`trigger: {schedule: "0 0 * * 1-5", zone: Europe/Berlin, keys: [customers, "1"]}`, "enabled: false", `escalate: [{at: "09:00"}, {after: 12h}, {at: "23:59"}]`)},
	{"a schedule with a state", withEdits(`trigger: {schedule: "@daily"}`, "update: {event: jobs.reported, key: event.job}", `while: state.ok != true`, "enabled: false")},
	{"a schedule that is spread", withEdits(`trigger: {schedule: "? ? * * *"}`, "enabled: false")},
	{"a schedule of days", withEdits(`trigger: {schedule: "@every 1d"}`, "enabled: false")},
	{"a schedule of one tick", withEdits(`trigger: {schedule: "@at 1763735945"}`, "enabled: false")},
	{"a schedule on leap days", withEdits(`trigger: {schedule: "0 0 29 2 *"}`, "enabled: false")},
	{"a schedule on Fridays and the 31st", withEdits(`trigger: {schedule: "30 8,18 31 JAN-jun/2 FRI"}`, "enabled: false")},
	{"a retention of its own", withEdits(`resolve: {event: a, key: event.id, as: shipped}`, `keep: {history: 400d, alerts: 90d, outcomes: {shipped: 7d, exhausted: 2y}}`)},
	{"a schedule that runs", withEdits(`trigger: {schedule: "30 1 * * *", zone: Europe/London, keys: [customers]}`, `escalate: [{at: "06:00"}]`)},
	{"a schedule that keeps what it began", withEdits(`trigger: {schedule: "@every 1h", keys: [a]}`, "again: keep")},
	{"a schedule that emits", emitRule(`{subject: imports.due, data: {any: [json, 1, -0.5, true, null, {}, []], "of course": {deep: "x: #1"}}}`)},
	{"a schedule that emits a word", emitRule(`{subject: imports.due, data: go}`)},
	{"a schedule that emits its tick", emitRule(`{subject: imports.due}`)},
	{"a heartbeat", withEdits(`trigger: {heartbeat: {event: devices.*.*.beat, key: 'wildcard(1) + "/" + wildcard(2)', every: 10m, grace: 2m, keys: [a/b]}}`)},
	{"a heartbeat with a condition", withEdits(`trigger: {heartbeat: {event: beats, key: event.id, if: event.ok == true, every: 10m, shape: {id: text, ok: boolean}}}`, "enabled: false")},
	{"a heartbeat of pings", "name: nightly\nentity: job\ntrigger: {heartbeat: {every: 1d, grace: 1h, keys: [backup]}}\n"},
	{"a heartbeat of runs", withEdits(`trigger: {heartbeat: {event: jobs.*, key: wildcard(1), schedule: "0 2 * * *", zone: Europe/Berlin, grace: 1h, kind: event.status, run: event.run_id, max: 2h, min: 10s}}`, `escalate: [{after: 0s, text: "{{state.heartbeat.exit_status}} {{event.body}}"}, {after: 1h}]`)},
	{"a row", withEdits(`lookup: {sql: {source: shop, query: "select status, eta from orders where id = $1", params: [key, event.shop]}}`, "while: state.status == \"UNSHIPPED\"", "enabled: false")},
	{"a document by HTTP", withEdits(`lookup: {http: {source: shop, path: "/orders/{{key}}", absent: [404, 410]}}`, "enabled: false")},
	{"a document by NATS", withEdits(`lookup: {nats: {source: shop, subject: "shop.orders.{{key}}"}}`, "enabled: false")},
	{"a document of a bucket", withEdits(`lookup: {kv: {source: shop, bucket: ORDERS, key: "orders/{{key}}"}}`, "enabled: false")},
	{"a condition on a field that the lookup returns", withEdits("trigger: {event: orders.created, key: event.id, if: event.status == 5, shape: {id: text, status: number}}", `lookup: {kv: {source: shop, bucket: orders}}`, `while: state.status == "OPEN"`, "enabled: false")},
	{"a handler with effects", withoutField("escalate") + "handler: shipping-checks\nat_most_once: true\n"},
	{"a handler", withoutField("escalate") + "handler: shipping-checks\nenabled: false\n"},
	{"a shape", withEdits(
		"trigger: {event: orders.created, key: event.id, since: event.placed_at, shape: {id: text, total: number, vip: boolean, placed_at: time, customer: {name: text}, items: [{sku: text, n: number}], tags: [text], rest: any, more: object, lines: list}}",
		`while: 'state.total > 5 and any(state.items, .sku startsWith "x" and .n > 2) and "a" in state.tags and state.customer.name != "" and state.rest == 5 and state.rest.a == "x" and state.more.b == 1 and any(state.lines, # == 2)'`,
	)},
	{"a shape of the state that an update adds to", withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text}}", "update: {event: orders.changed, key: event.id}", "while: state.anything == 1")},
	{"one shape for two events", withEdits("resolve: [{event: a, key: event.id, if: event.x == 1, shape: {id: text, x: number}}, {event: a, key: event.id, if: event.x == 2, as: done, shape: {id: text, x: number}}]")},
	{"a field that may be several kinds", withEdits(`while: 'type(state.n) == "string" ? state.n == "none" : state.n == 0'`)},
	{"a field whose kind is tested late", withEdits(`while: 'state.n == 0 or type(state.n) == "string" and state.n == "none"'`)},
	{"events that differ", withEdits("trigger: {event: orders.created, key: event.id, if: event.status == 5}", `resolve: {event: orders.shipped, key: event.id, if: event.status == "SHIPPED"}`)},
	{"a date of text and of a number", withEdits(`while: date(state.at) > since and state.at != "never"`)},
	{"a key that is text or a number", withEdits(`while: string(state.id) == "5" and state.id > 4`)},
	{"conditions that seem to exclude each other", withEdits(`while: 'state.a == "x" or state.a == "y"'`, `pause: {event: a, key: event.id, if: 'event.n > 5 and event.n < 10 and event.n != 7 and (event.m > 5 or event.m < 3) and not (event.o != "x" and event.o != "y")'}`)},
}

func TestGoodDocuments(t *testing.T) {
	for _, c := range goodDocuments {
		t.Run(c.name, func(t *testing.T) {
			if problems := problemsOf(t, c.text); problems != nil {
				t.Errorf("%s\n%v", c.text, problems)
			}
		})
	}
}

// TestCalendars checks that a step's calendar has to be a defined one, if the defined ones are known.
func TestCalendars(t *testing.T) {
	known, err := calendars.Parse([]byte("calendars:\n  office: {zone: UTC, days: mon-fri, hours: \"09:00-17:00\"}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		calendar string
		known    calendars.Set
		want     string
	}{
		{"office", known, ""},
		{"ofice", known, `late: escalate[0].of: unknown calendar "ofice"; did you mean "office"?`},
		{"elsewhere", known, `late: escalate[0].of: unknown calendar "elsewhere"; defined are office`},
		{"office", calendars.Set{}, `late: escalate[0].of: unknown calendar "office", and there is no calendar; define it under calendars in the rule, save one with deadman calendar apply or on the page Calendars, or remove this field`},
		{"elsewhere", nil, ""},
	} {
		documents, err := rules.Parse([]byte(withEdits("escalate: [{after: 3h, of: "+c.calendar+"}]")), "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = rules.Compile(documents[0], rules.RuleVersion{}, c.known)
		if got := errText(err); got != c.want {
			t.Errorf("%s of %v: got %q, want %q", c.calendar, c.known, got, c.want)
		}
		_, err = rules.ParseAgainst([]byte(withEdits("escalate: [{after: 3h, of: "+c.calendar+"}]")), "", c.known)
		if want := c.want; want != "" {
			want = "5:28: " + want
			if got := errText(err); got != want {
				t.Errorf("%s in a text: got %q, want %q", c.calendar, got, want)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// emitRule returns a rule that emits an event at every tick.
func emitRule(emit string) string {
	return "name: due\nentity: import\ntrigger: {schedule: \"30 1 * * *\", emit: " + emit + "}\n"
}
