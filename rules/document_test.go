package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"pgregory.net/rapid"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/subjects"
)

// drawing draws the parts of a valid document.
type drawing struct{ *rapid.T }

func (t drawing) yes(label string) bool { return rapid.Bool().Draw(t.T, label) }

func one[T any](t drawing, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t.T, label) }

func (t drawing) span(label string, least, most time.Duration) document.Duration {
	return document.Duration(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()).Draw(t.T, label)) * document.Duration(time.Millisecond)
}

func (t drawing) name(label string) string {
	return rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,62}`).Draw(t.T, label)
}

func (t drawing) text(label string) string {
	return rapid.StringN(1, 40, 200).Filter(func(s string) bool { return !slices.Contains([]rune(s), 0) }).Draw(t.T, label)
}

// document draws a valid document.
func (t drawing) document() document.Document {
	d := document.New()
	d.Name, d.Entity = t.name("name"), t.name("entity")
	if t.yes("described") {
		d.Description = t.text("description")
	}
	d.Enabled, d.Quiet = t.yes("enabled"), t.yes("quiet")
	d.Trigger = t.trigger(&d)
	for range one(t, "resolves", 0, 1, 3) {
		d.Resolve = append(d.Resolve, t.resolve(len(d.Resolve)))
	}
	for range one(t, "updates", 0, 1, 2) {
		d.Update = append(d.Update, document.Watch{Event: one(t, "update", "orders.changed", "parcels.>"), Key: "event.id"})
	}
	if h := d.Trigger.Heartbeat; h != nil && h.Event == "" { // the expressions below do not read a ping
		d.Update = []document.Watch{{Event: "orders.changed", Key: "event.id"}}
	}
	for range one(t, "pauses", 0, 1, 2) {
		p := document.Pause{Watch: document.Watch{Event: "orders.changed", Key: "event.id", If: `event.status == "ON: #HOLD"`}}
		p.Until = one(t, "until", nil, &document.Watch{Event: "orders.released", Key: "event.order"}, &document.Watch{Event: "orders.changed", Key: "event.id", If: "event.done"})
		d.Pause = append(d.Pause, p)
	}
	if t.yes("handled") && !d.Enabled {
		d.Handler = t.name("handler")
		d.AtMostOnce = t.yes("at most once")
	} else {
		t.wait(&d)
	}
	d.Slot = document.Duration(one(t, "slot", time.Second, time.Minute, 15*time.Minute, 24*time.Hour))
	d.Hold, d.Early = t.span("hold", 0, time.Hour), t.span("early", 0, 24*time.Hour)
	d.CatchUp = document.CatchUp{After: t.span("catch_up", 24*time.Hour, 48*time.Hour), Do: one(t, "do", document.Run, document.Skip, document.Expire)}
	if d.Again = one(t, "again", document.Keep, document.Restart); d.Trigger.Heartbeat != nil || d.Trigger.Schedule != "" {
		d.Again = document.Keep // otherwise a tick may restart the job before an alert
	}
	d.Guards = document.Guards{
		Timeout: t.span("timeout", time.Millisecond, time.Second), Attempts: rapid.IntRange(1, 4).Draw(t.T, "attempts"),
		Interval: t.span("interval", 0, time.Second), Jitter: t.span("jitter", 0, time.Second),
		MaxChecks: d.StepCount() + document.SpareChecks + one(t, "more checks", -1, 0, 7), Horizon: document.Duration(one(t, "horizon", 30*24*time.Hour, 90*24*time.Hour)), End: t.yes("end"),
	}
	if t.yes("labelled") {
		d.Keep = one(t, "keep", nil, &document.Retention{History: 400 * document.MinRetention}, &document.Retention{
			Alerts: document.MinRetention, Outcomes: map[string]document.Duration{"resolved": 7 * document.MinRetention, "guard_past": document.MaxRetention},
		})
		d.Labels = map[string]string{"team": "x", "url": "https://example.com/?a=b&c=<d>", "of": "{{key}}: #1", "y": t.text("label")}
		if strings.Contains(d.Labels["y"], "{{") {
			delete(d.Labels, "y")
		}
	}
	return d
}

func (t drawing) trigger(d *document.Document) document.Trigger {
	kind := one(t, "trigger", "event", "event", "schedule", "heartbeat")
	if kind != "event" {
		d.Enabled = false
	}
	switch kind {
	case "schedule":
		return document.Trigger{
			Schedule: one(t, "schedule", "0 0 * * 1-5", "? 3 * * *", "@every 1d", "@at 2026-11-20T15:04:05Z", "@daily", "*/15 * * * *"),
			Zone:     one(t, "zone", "", "Europe/Berlin"), Keys: one(t, "keys", nil, []string{"a", "1", "true", "it's: #1"}),
		}
	case "heartbeat":
		return document.Trigger{Heartbeat: t.heartbeat()}
	}
	return document.Trigger{
		Event: "orders.created", Key: one(t, "key", `event.id`, `event.a + "/" + event.b`),
		If: one(t, "if", "", `event.total > 0`, `event.a == "it's: #1"`), Since: one(t, "since", "", "event.placed_at"),
		Shape: one(t, "shape", nil, document.Shape{
			"id": {Kind: document.Text}, "a": {Kind: document.Any}, "b": {Kind: document.Any}, "total": {Kind: document.Number}, "placed_at": {Kind: document.Time}, "status": {Kind: document.Text}, "paid": {Kind: document.Boolean}, "eta": {Kind: document.Time}, "parcels": {Kind: document.List},
			"items": {Kind: document.List, Items: &document.Form{Kind: document.Object, Fields: document.Shape{"sku": {Kind: document.Text}}}}, "customer": {Kind: document.Object, Fields: document.Shape{"name": {Kind: document.Text}}},
		}),
	}
}

func (t drawing) heartbeat() *document.Heartbeat {
	h := &document.Heartbeat{
		Every: t.span("every", time.Minute, time.Hour), Grace: t.span("grace", 0, time.Hour),
		Max: t.span("max", time.Hour, 2*time.Hour), Min: t.span("min", 0, time.Minute), TooOften: t.span("too often", 0, 30*time.Second),
	}
	if t.yes("by a schedule") {
		h.Every, h.Schedule, h.Zone = 0, "0 2 * * *", one(t, "zone", "", "Europe/Berlin")
	}
	if t.yes("by an event") {
		h.Event, h.Key, h.If = "devices.*.*.beat", `wildcard(1) + "/" + wildcard(2)`, one(t, "if", "", "event.ok == true")
		h.Kind, h.Run = one(t, "kind", "", "event.kind"), one(t, "run", "", "event.run")
	}
	return h
}

// resolve draws the i-th resolve, one that the ones before it leave reachable.
func (t drawing) resolve(i int) document.Resolve {
	r := document.Resolve{
		Watch: document.Watch{Event: []string{"orders.shipped", "orders.*.changed", "parcels.>"}[i], Key: one(t, "key", "event.id", `"n" + event.nr`)},
		As:    one(t, "as", "", "cancelled", "done"),
	}
	if t.yes("distinct") {
		r.Distinct, r.Need = "event.parcel", one(t, "need", "3", "len(state.parcels)", "10000")
	}
	return r
}

// wait draws the escalation and the condition.
func (t drawing) wait(d *document.Document) {
	scheduled := d.Trigger.Schedule != ""
	d.While = one(t, "while", "", `state.status == "OPEN"`, `!(state.paid ?? false)`)
	d.Recheck = one(t, "recheck", "", "date(state.eta) + minutes(10)", `state.eta == nil ? nil : date(state.eta)`)
	after := document.Duration(0)
	for i := range rapid.IntRange(1, 5).Draw(t.T, "steps") {
		s := document.Step{
			Name: one(t, "step name", fmt.Sprintf("step-%d", i+1), "step-"+string(rune('a'+i))), Text: one(t, "text", "", "{{key}}: {{since}}", "{{job.turn}} of {{job.turns}}"),
			Severity: one(t, "severity", alerts.Info, alerts.Warning, alerts.Error, alerts.Critical), Within: one(t, "within", "", "office", "123"),
		}
		switch kind := one(t, "step", "after", "after", "every", "computed", "at"); {
		case kind == "every":
			s.Every, s.Times = t.span("every", time.Hour, 2*time.Hour), rapid.IntRange(1, 5).Draw(t.T, "times")
			after += s.Every * document.Duration(s.Times)
		case i == 0 && d.Trigger.Heartbeat != nil && t.yes("at once"):
			s.After = document.Delay{AtOnce: true}
		case kind == "at" && scheduled:
			s.At = "09:00"
		case kind == "at":
			s.At = "since + hours(1)"
		case kind == "computed":
			s.After = document.Delay{Computed: `key == "1" ? hours(1) : hours(3)`}
		default:
			after += t.span("after", time.Minute, time.Hour)
			s.After = document.Delay{Fixed: after}
		}
		d.Escalate = append(d.Escalate, s)
	}
}

// TestRoundTrips checks that a document that is written as JSON or as YAML and read again is the same.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawing{t}.document()
		roundTrip(t, d)
		text, err := d.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text, "")
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if !reflect.DeepEqual(again[0], d) {
			t.Fatalf("%s\n%+v\nbecame\n%+v", text, d, again[0])
		}
		if same, err := again[0].YAML(); err != nil || string(same) != string(text) {
			t.Fatalf("%s\nbecame\n%s\n%v", text, same, err)
		}
	})
}

// TestOldDocuments checks that a document saved before a field existed keeps its meaning.
func TestOldDocuments(t *testing.T) {
	d, err := decodeDocument([]byte(`{"name":"late","entity":"order","enabled":true,"trigger":{"event":"a","key":"event.id"},"resolve":[{"event":"b","key":"event.id","as":"done"}],` +
		`"escalate":[{"after":"3h","step":"step-1","severity":"warning"}],"slot":"1d","hold":"7d","guards":{"timeout":"5s","attempts":3,"max_checks":6,"horizon":"30d"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(d, RuleVersion{}, calendars.Set{})
	if err != nil {
		t.Fatal(err)
	}
	if r.steps[0].after != 3*time.Hour || r.engine.CatchUp.After != 0 || d.Early != 0 || d.Again == document.Restart {
		t.Errorf("%+v", d)
	}
}

func TestDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := document.Duration(rapid.Int64Range(0, 10_000_000_000).Draw(t, "ms")) * document.Duration(time.Millisecond)
		again, err := document.ParseDuration(d.String())
		if err != nil || again != d {
			t.Fatalf("%s is read as %s (%v)", d, again, err)
		}
	})
	for text, want := range map[string]string{"90m": "1h30m", "1w": "7d", "86400s": "1d", "1d1ms": "1d1ms", "0s": "0s"} {
		if d, err := document.ParseDuration(text); err != nil || d.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, d, err, want)
		}
	}
}

// TestDefaults pins the defaults of a document.
func TestDefaults(t *testing.T) {
	documents, err := Parse([]byte("name: late\nentity: order\ntrigger: {event: a, key: event.id}\nescalate: [{after: 3h}, {after: 4h}]\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := document.Document{
		Name: "late", Entity: "order", Enabled: true, Trigger: document.Trigger{Event: "a", Key: "event.id"},
		Escalate: []document.Step{
			{After: document.Delay{Fixed: document.Duration(3 * time.Hour)}, Name: "step-1", Severity: "warning"},
			{After: document.Delay{Fixed: document.Duration(4 * time.Hour)}, Name: "step-2", Severity: "warning"},
		},
		Slot: document.Duration(time.Minute), Hold: document.Duration(7 * 24 * time.Hour), Early: document.Duration(time.Hour), Again: "keep",
		CatchUp: document.CatchUp{After: document.Duration(time.Hour), Do: "run"},
		Guards:  document.Guards{Timeout: document.Duration(5 * time.Second), Attempts: 3, MaxChecks: 7, Horizon: document.Duration(30 * 24 * time.Hour)},
	}
	if !reflect.DeepEqual(documents[0], want) {
		t.Errorf("got  %+v\nwant %+v", documents[0], want)
	}
}

// TestTrie checks that the trie finds the same values as a search through every pattern.
func TestTrie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SampledFrom([]string{"a", "b", "c", "*"})
		var root trie[int]
		var patterns []string
		for i := range rapid.IntRange(1, 20).Draw(t, "patterns") {
			p := token.Draw(t, "token")
			for range rapid.IntRange(0, 3).Draw(t, "more") {
				p += "." + token.Draw(t, "token")
			}
			if rapid.Bool().Draw(t, "open") {
				p += ".>"
			}
			patterns = append(patterns, p)
			root.add(p, i)
		}
		subject := rapid.StringMatching(`[abc](\.[abc]){0,5}`).Draw(t, "subject")
		var want, got []int
		for i, p := range patterns {
			if matches(p, subject) {
				want = append(want, i)
			}
		}
		root.match(subject, func(i int) { got = append(got, i) })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%s in %v: got %v, want %v", subject, patterns, got, want)
		}
		for i, p := range patterns {
			for _, q := range patterns[:i] {
				if subjects.Covers(p, q) && matches(q, subject) && !matches(p, subject) {
					t.Fatalf("%s covers %s and does not match %s", p, q, subject)
				}
			}
		}
	})
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", false},
		{"a.*", "a", false},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{"*.b", "a.b", true},
		{"*", "a", true},
		{"a.*.c", "a.b.c", true},
	} {
		if got := matches(c.pattern, c.subject); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.subject, got)
		}
	}
}
