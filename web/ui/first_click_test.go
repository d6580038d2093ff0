package ui_test

import (
	"cmp"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// ruleKinds are rules of every kind, each with a function that produces a job, an alert or a ping.
var ruleKinds = []struct {
	rule      string
	wantText  string // text of its first preview
	wantAfter string // text afterwards; empty: the same
	perform   func(t *testing.T, home string)
}{
	{
		`{name: event, entity: order, trigger: {event: orders.created, key: event.order.id}, escalate: [{after: 1h, step: late}]}`,
		"1h passed for order 1234 since orders.created", "1h passed for order 7 since orders.created", publishEffect("orders.created", `{"order": {"id": "7"}}`),
	},
	{
		`{name: wildcard, entity: device, trigger: {event: "devices.*.on", key: wildcard(1)}, escalate: [{after: 1h, step: late}]}`,
		"1h passed for device one since devices.*.on", "", publishEffect("devices.a.on", `{}`),
	},
	{
		`{name: set, entity: batch, trigger: {event: batches.begun, key: event.id}, resolve: {event: files.read, key: event.batch, distinct: event.file, need: event.files},
  escalate: [{after: 1h, step: late}]}`,
		"not all files.read for batch 1234 within 1h of batches.begun", "not all files.read for batch 7 within 1h of batches.begun", publishEffect("batches.begun", `{"id": "7", "files": 3}`),
	},
	{
		`{name: beat, entity: device, trigger: {heartbeat: {event: "beats.*", key: wildcard(1), every: 1h}}}`,
		"device one: no heartbeat since", "", publishEffect("beats.a", `{}`),
	},
	{
		`{name: beat-or-ping, entity: device, trigger: {heartbeat: {event: heard, key: event.id, every: 1h, keys: [a]}}}`,
		"expected every 1h", "", pingEffect("beat-or-ping", "a", ""),
	},
	{
		`{name: ping, entity: host, trigger: {heartbeat: {every: 1h}}}`,
		"host backup: no heartbeat since", "", pingEffect("ping", "backup", ""),
	},
	{
		`{name: ping-run, entity: host, trigger: {heartbeat: {every: 1h, max: 2h}}}`,
		"expected every 1h", "failed with exit status 3", pingEffect("ping-run", "backup", "/3"),
	},
	{
		`{name: ping-keys, entity: host, trigger: {heartbeat: {every: 1h, grace: 1m, keys: [a, b]}}}`,
		"host a: no heartbeat yet", "host b: no heartbeat since", pingEffect("ping-keys", "b", ""),
	},
	{
		`{name: never-reports, entity: host, trigger: {heartbeat: {every: 1s, keys: [a]}}, slot: 1s}`,
		"host a: no heartbeat yet", "", waitEffect("never-reports"),
	},
	{
		`{name: ticks, entity: import, trigger: {schedule: "@every 1s", keys: [a, b]}, resolve: {event: imported, key: event.id}, again: keep, escalate: [{after: 1h, step: late}], slot: 1s}`,
		"no imported for import a within 1h of the tick", "", waitEffect("ticks"),
	},
	{
		`{name: emits, entity: import, trigger: {schedule: "@every 1s", emit: {subject: imports.due}}, slot: 1s}`,
		"each tick publishes an event on imports.due", "", nil,
	},
	{
		`{name: handled, entity: order, trigger: {event: orders.paid, key: event.id}, handler: absent}`,
		"it does not call handler absent", "", publishEffect("orders.paid", `{"id": "7"}`),
	},
}

// publishEffect produces the effect of an event.
func publishEffect(subject, body string) func(*testing.T, string) {
	return func(t *testing.T, home string) { send(t, home, subject, body) }
}

// pingEffect produces the effect of a ping.
func pingEffect(rule, key, wantText string) func(*testing.T, string) {
	return func(t *testing.T, home string) {
		var made web.PingAddress
		callAPI(t, home, "POST", "/rules/"+rule+"/pings", "application/json", `{"key": "`+key+`"}`, &made)
		at := made.URL
		if strings.HasPrefix(at, "/") {
			at = home + at
		}
		if status, content := requestPage(t, "GET", at+wantText, ""); status != http.StatusOK {
			t.Fatalf("a ping: %d %s", status, content)
		}
	}
}

// waitEffect waits for the effect of a schedule or a missed heartbeat.
func waitEffect(rule string) func(*testing.T, string) {
	return func(t *testing.T, home string) {
		var jobs web.Page[web.Job]
		for deadline := time.Now().Add(within); len(jobs.Items) == 0; pausePoll(t.Context()) {
			if time.Now().After(deadline) {
				t.Fatal("no wait begins")
			}
			callAPI(t, home, "GET", "/jobs?rule="+rule, "", "", &jobs)
		}
	}
}

var (
	trialEvent  = regexp.MustCompile(`(?s)<textarea id="event"[^>]*>(.*?)</textarea>`)
	trialInputs = regexp.MustCompile(`<input [^>]*name="(subject|at)"[^>]*>`)
	inputValue  = regexp.MustCompile(`value="([^"]*)"`)
)

// previewForm returns the body of an unchanged preview form.
func previewForm(t *testing.T, content string) string {
	t.Helper()
	event := trialEvent.FindStringSubmatch(content)
	if event == nil {
		t.Fatalf("there is no trial: %s", content)
	}
	form := url.Values{"do": {"try"}, "event": {html.UnescapeString(event[1])}}
	for _, input := range trialInputs.FindAllStringSubmatch(content, -1) {
		if value := inputValue.FindStringSubmatch(input[0]); value != nil {
			form.Set(input[1], html.UnescapeString(value[1]))
		}
	}
	return form.Encode()
}

// TestUnchangedPreviewForm checks that the offered preview of every kind of rule works, in any state, on the page of the rule
// and in the editor.
func TestUnchangedPreviewForm(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, k := range ruleKinds {
		texts = append(texts, k.rule)
	}
	home := serve(t, texts...)
	for _, when := range []string{"at first", "later"} {
		for _, k := range ruleKinds {
			wantText := k.wantText
			name := regexp.MustCompile(`name: ([a-z-]+)`).FindStringSubmatch(k.rule)[1]
			if when == "later" && k.perform != nil {
				wantText = cmp.Or(k.wantAfter, k.wantText)
				k.perform(t, home)
				waitEffect(name)(t, home)
			}
			at := home + "/rules/" + name
			_, content := requestPage(t, "GET", at, "")
			form := previewForm(t, content)
			if status, answer := requestPage(t, "POST", at, form); status != http.StatusOK || textDifference(answer, wantText) != "" {
				t.Errorf("%s, %s: %d %s, asked %s", name, when, status, textDifference(answer, wantText), form)
			}
		}
	}
}

// textDifference returns the preview's text if it differs from want, or an empty string.
func textDifference(answer, want string) string {
	_, text, _ := strings.Cut(answer, "Run preview")
	text, _, _ = strings.Cut(text, "<h2>Definition")
	if text = html.UnescapeString(text); strings.Contains(text, want) {
		return ""
	}
	return text
}

// TestPublishWithoutEvent checks that a rule without events offers no event to send, and that the body for other rules is
// not that of a tick.
func TestPublishWithoutEvent(t *testing.T) {
	t.Parallel()
	home := serve(t, ruleKinds[5].rule, ruleKinds[9].rule, ruleKinds[10].rule)
	waitEffect("ticks")(t, home)
	for _, c := range []struct{ rule, wantText string }{
		{"ping", `<a href="/rules/ping#pings">ping URLs</a>`},
		{"emits", "Jobs of this rule are created by its schedule only."},
	} {
		if _, content := requestPage(t, "GET", home+"/rules/"+c.rule, ""); strings.Contains(content, "Send an event") {
			t.Errorf("the page of %s leads to where nothing can be sent", c.rule)
		}
		if _, content := requestPage(t, "GET", home+"/rules/"+c.rule+"/send", ""); !strings.Contains(content, c.wantText) || strings.Contains(content, "<button") {
			t.Errorf("%s: %s", c.rule, content)
		}
	}
	if _, content := requestPage(t, "GET", home+"/rules/ticks", ""); !strings.Contains(content, "Send an event") {
		t.Error("nothing can be sent to a rule that an event ends the waits of")
	}
	_, content := requestPage(t, "GET", home+"/rules/ticks/send", "")
	if body := trialEvent.FindStringSubmatch(content); len(body) < 2 || !strings.Contains(html.UnescapeString(body[1]), `"id": "1234"`) {
		t.Errorf("what is sent to a rule with a schedule is %q", body)
	}
}

// TestRulePageShowsTriggerAndAlertTimes checks that the page of a rule of any kind shows its trigger and the times of its alerts.
func TestRulePageShowsTriggerAndAlertTimes(t *testing.T) {
	t.Parallel()
	texts := []string{`{name: spoken, entity: order, trigger: {event: orders.sent, key: event.id}, resolve: {event: orders.there, key: event.id},
  escalate: [{after: 3h, step: late}, {every: 1h, times: 3, step: again}, {after: 1d, step: lost, text: "{{key}} is lost"}]}`}
	for _, k := range ruleKinds {
		texts = append(texts, k.rule)
	}
	home := serve(t, texts...)
	for rule, wantTexts := range map[string][]string{
		"spoken":    {"no orders.there for order {{key}} within 3h of orders.sent", "no orders.there for order {{key}} within … of orders.sent (again … of 3)", "{{key}} is lost"},
		"event":     {"1h passed for order {{key}} since orders.created"},
		"beat":      {"a missing event on beats.* or ping, expected every 1h", "immediately", "overdue", "device {{key}}: no heartbeat since …, expected every 1h"},
		"ping-run":  {"a missing ping, expected every 1h", "a run longer than 2h"},
		"ping-keys": {"expected every 1h, grace 1m", "warning"},
		"ticks":     {"each tick of @every 1s (UTC)", "no imported for import {{key}} within 1h of the tick"},
		"emits":     {"publishes an event on imports.due"},
		"handled":   {"handler <b>absent</b> decides the next check and the alerts"},
	} {
		_, content := requestPage(t, "GET", home+"/rules/"+rule, "")
		_, goes, _ := strings.Cut(content, "<h2>Escalation")
		goes, _, _ = strings.Cut(goes, "Try it")
		for _, what := range wantTexts {
			if !strings.Contains(html.UnescapeString(goes), what) {
				t.Errorf("%s does not contain %q: %s", rule, what, goes)
			}
		}
	}
}
