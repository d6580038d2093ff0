package ui_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"deadman/examples"
	"deadman/internal/calendars"
	"deadman/internal/testwait"
	"deadman/rules"
	"deadman/web"
)

// refusing is a rule that accepts no made-up event.
const refusing = `name: refusing
entity: order
trigger: {event: odd.created, key: event.id, if: 'event.code matches "^[A-Z]{3}-[0-9]{4}$" and len(event.code) == 8'}
escalate: [{after: 1h, step: late}]
slot: 1m
`

// oddRules read their fields in ways that a text does not fit.
var oddRules = []string{`name: odd-condition
entity: order
trigger: {event: oddone.created, key: event.id, if: 'event.status in ["OPEN", "NEW"] and event.paid and event.total >= 20'}
escalate: [{after: duration(event.patience), step: late}]
slot: 1m
`, `name: odd-nested
entity: order
trigger: {event: oddtwo.created, key: event.order.id, since: date(event.order.placed), if: 'any(event.items, # == "sample") and event.rush == false'}
escalate: [{after: 'minutes(2 * event.order.slack)', step: late, text: '{{event.order.total / 100}} of {{event?.customer?.name}}'}]
slot: 1m
`, `name: odd-heartbeat
entity: host
trigger: {heartbeat: {event: oddthree.*.beat, key: event.host, if: event.load < 5, kind: event.result, every: 1h, keys: [db-1]}}
escalate: [{after: 0s, step: silent}]
slot: 1m
`}

// TestOfferedEventStartsJob checks that the page that sends an event offers, for each rule of the gallery and for rules
// with odd conditions, an event that starts a job.
func TestOfferedEventStartsJob(t *testing.T) {
	t.Parallel()
	all, err := examples.All()
	if err != nil {
		t.Fatal(err)
	}
	texts := append([]string{}, oddRules...)
	for _, e := range all {
		texts = append(texts, e.Text)
	}
	home, offered := serve(t, texts...), 0
	for _, text := range texts {
		documents, err := rules.ParseAgainst([]byte(text), "", calendars.Set{})
		if err != nil {
			t.Fatal(err)
		}
		d := documents[0]
		if d.Trigger.Subject() == "" {
			continue
		}
		offered++
		event := offeredEvent(t, home, d.Name)
		var sent web.PublishResult
		callAPI(t, home, "POST", "/events/"+strings.ReplaceAll(d.Trigger.Subject(), "*", "one"), "application/json", event, &sent)
		if len(sent.WouldDeadLetter) > 0 || len(sent.Affected) == 0 {
			t.Errorf("rule %s: the offered event %s affects %v; refusals: %v", d.Name, event, sent.Affected, sent.WouldDeadLetter)
			continue
		}
		testwait.Until(t, d.Name+" has a job of the event "+event, func() bool {
			var page web.Page[web.Job]
			callAPI(t, home, "GET", "/jobs?"+url.Values{"rule": {d.Name}, "key": {sent.Affected[0].Key}}.Encode(), "", "", &page)
			return len(page.Items) == 1
		})
	}
	if offered < 14 {
		t.Errorf("%d rules have a trigger event", offered)
	}
}

// offeredEvent returns the body that the page offers to send an event for a rule.
func offeredEvent(t *testing.T, home, rule string) string {
	t.Helper()
	status, content := requestPage(t, "GET", home+"/rules/"+rule+"/send", "")
	_, body, _ := strings.Cut(content, `<textarea id="event"`)
	_, body, found := strings.Cut(body, ">")
	body, _, _ = strings.Cut(body, "</textarea>")
	if status != http.StatusOK || !found {
		t.Fatalf("rule %s: %d %s", rule, status, content)
	}
	return html.UnescapeString(body)
}

// TestOverviewOffersAcceptedEvent checks that the overview offers an event that the rule accepts, even if a rule before
// it accepts none, and that a rule without such an event gets a hint instead.
func TestOverviewOffersAcceptedEvent(t *testing.T) {
	t.Parallel()
	home := serve(t, refusing)
	if _, content := requestPage(t, "GET", home+"/", ""); strings.Contains(content, "deadman event send odd.created") || !strings.Contains(content, "No sample event was found that starts a job") {
		t.Errorf("the overview offers an event that the rule refuses: %s", content)
	}
	if event := offeredEvent(t, home, "refusing"); strings.TrimSpace(event) != "" {
		t.Errorf("the page of the event offers %s, which the rule refuses", event)
	}
	if _, content := requestPage(t, "GET", home+"/rules/refusing/send", ""); !strings.Contains(content, "No sample event was found that starts a job of the rule") {
		t.Error("the page of the event does not say that there is no sample")
	}
	all, err := examples.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name == "ticket-unanswered" {
			callAPI(t, home, "POST", "/rules", "application/yaml", e.Text, nil)
		}
	}
	_, content := requestPage(t, "GET", home+"/", "")
	if content = html.UnescapeString(content); !strings.Contains(content, `deadman event send tickets.opened '{ "id": "1234"`) || !strings.Contains(content, `"sla_hours": 1`) {
		t.Errorf("the overview offers no event of the ticket: %s", content)
	}
}
